"""Plots for chats and slides: garbage by folder and by age, and the curve of what other rules would free, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from lakesweep.collector.record import RunRecord
from lakesweep.domain.run_summary import RunSummary
from lakesweep.domain.what_if import WhatIf
from lakesweep.errors import ConfigError
from lakesweep.report.html.drawings.bars import bars
from lakesweep.report.html.drawings.svg import Drawing, as_file
from lakesweep.report.html.garbage_view import age_bars, folder_treemap
from lakesweep.report.html.names import shortened
from lakesweep.report.html.shares import account_tables
from lakesweep.report.html.style import FONTS
from lakesweep.report.html.what_if_view import what_if_curve

__all__ = ["as_png", "plot", "plot_kind"]

_ZOOM = 2.0  # for screens that show two dots for one


def plot_kind(path: str) -> Literal["svg", "png"]:
    """What the file's name asks for.

    Raises:
        ConfigError: it ends otherwise, or what makes PNGs is not installed.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".svg":
        return "svg"
    if suffix != ".png":
        raise ConfigError(
            f"--plot {path}: plots are written as .svg or .png. Nothing was touched. Give the file one of these endings.",
            kind="bad-plot",
        )
    try:
        import resvg_py  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"--plot {path}: PNG needs resvg-py, which is not installed. Nothing was touched. Run "
            "`pip install 'lakesweep[png]'`, or name the file .svg.",
            kind="no-png",
        ) from error
    return "png"


def plot(record: RunRecord, summary: RunSummary | None, what_if: WhatIf | None) -> str:
    """One SVG with all that is known of the run: at least its account."""
    drawings: list[Drawing] = []
    where = shortened(record.repository, 60)
    for table in account_tables(record)[:1]:
        title = f"{where}: {table.caption.lower()}"
        drawings.append(bars(title, [share.as_bar() for share in table.parts]))
    if summary is not None and summary.garbage.total.objects:
        drawings += [folder_treemap(summary.garbage), age_bars(summary.garbage)]
    if what_if is not None:
        drawings.append(what_if_curve(what_if))
    if not drawings:
        drawings.append(bars(f"{where}: nothing was found", []))
    return as_file(drawings)


def as_png(svg: str) -> bytes:
    """An SVG as PNG.

    Raises:
        ConfigError: this machine has no font, and a plot without words says nothing.
    """
    from resvg_py import svg_to_bytes

    size = 'xmlns="http://www.w3.org/2000/svg" width="40" height="20"'
    blank, lettered = (
        bytes(svg_to_bytes(svg_string=f"<svg {size}>{inner}</svg>"))
        for inner in ("", f'<text y="15" font-family="{FONTS}">ab</text>')
    )
    if blank == lettered:
        raise ConfigError(
            "A PNG needs a font, and this machine has none. The plot was not written. Install one (Debian: "
            "fonts-dejavu-core), or name the file .svg.",
            kind="no-font",
        )
    return bytes(svg_to_bytes(svg_string=svg, zoom=_ZOOM))
