"""Horizontal bars: one for each name, as long as its value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lakesweep.report.html.drawings.svg import Drawing, element, text
from lakesweep.report.html.names import shortened

__all__ = ["Bar", "bars", "slim_bar"]

_WIDTH, _ROW, _BAR = 720.0, 24.0, 14.0
_LABELS, _VALUES = 230.0, 120.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A name, its value, and how the value is written."""

    name: str
    value: int
    shown: str
    paint: str = "garbage"


def bars(title: str, rows: Sequence[Bar]) -> Drawing:
    """Bars under another, names before them and values behind."""
    longest = max((row.value for row in rows), default=0) or 1
    room = _WIDTH - _LABELS - _VALUES
    shapes = []
    for number, row in enumerate(rows):
        y = number * _ROW
        length = room * max(row.value, 0) / longest
        shapes += [
            text(shortened(row.name, 34), _LABELS - 10, y + 15, "label", "end"),
            element(
                "rect", x=_LABELS, y=y + 4, width=length, height=_BAR, class_=f"fill-{row.paint}"
            ),
            text(row.shown, _LABELS + length + 8, y + 15, "note"),
        ]
    largest = max(rows, key=lambda row: row.value, default=None)
    told = f"{len(rows)} bars" + (
        f"; the longest: {largest.name}, {largest.shown}" if largest else ""
    )
    return Drawing(title, told, _WIDTH, max(len(rows), 1) * _ROW, Markup("").join(shapes))


def slim_bar(value: int, longest: int, paint: str = "garbage") -> Markup:
    """One bar as wide as its table cell; the number beside it says the same, so readers aloud skip it."""
    length = 100 * max(value, 0) / longest if longest > 0 else 0.0
    return element(
        "svg",
        element("rect", width=length, height=10, class_=f"fill-{paint}"),
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        class_="slim",
        aria_hidden="true",
        focusable="false",
    )
