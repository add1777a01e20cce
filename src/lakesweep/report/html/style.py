"""Colours and type of pages and drawings. Every pair of colours that meets passes WCAG AA, which a test checks."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

__all__ = ["DARK", "FONTS", "LIGHT", "content_security_policy", "file_style", "page_style"]

# Each word stands for the same thing everywhere: garbage is rust, what is live is green.
LIGHT = {
    "paper": "#ffffff",
    "panel": "#f5f6f8",
    "line": "#d3d8de",
    "text": "#1c2128",
    "muted": "#56606b",
    "link": "#0757ba",
    "live": "#1a7f4b",
    "young": "#8f6200",
    "protected": "#66707b",
    "undecided": "#7a4fd0",
    "garbage": "#bf4a08",
    "deleted": "#a3123a",
    "expired": "#bf4a08",
    "unreferenced": "#0b6fb3",
    "retained": "#1a7f4b",
    "tile-0": "#f6c7a6",
    "tile-1": "#fadcc6",
    "tile-2": "#fcebdf",
    "tile-3": "#eceff2",
}
DARK = {
    "paper": "#14181d",
    "panel": "#1d232a",
    "line": "#39424c",
    "text": "#e7ebf0",
    "muted": "#a3adb8",
    "link": "#79b8ff",
    "live": "#3fb27a",
    "young": "#d8a531",
    "protected": "#8a95a1",
    "undecided": "#ab8cf0",
    "garbage": "#ef8a4c",
    "deleted": "#f2708f",
    "expired": "#ef8a4c",
    "unreferenced": "#58abe8",
    "retained": "#3fb27a",
    "tile-0": "#7a4018",
    "tile-1": "#5c3417",
    "tile-2": "#442b19",
    "tile-3": "#2a323a",
}

_LINES = ("live", "garbage", "deleted", "unreferenced", "expired")
# What a class of a drawing paints, and with which colour.
_PAINTS = {
    "paper": ("fill", "paper"),
    "label": ("fill", "text"),
    "note": ("fill", "muted"),
    "tile-note": ("fill", "text"),
    "grid": ("stroke", "line"),
    "axis": ("stroke", "muted"),
    **{f"fill-{name}": ("fill", name) for name in LIGHT if name not in ("paper", "text")},
    **{f"line-{name}": ("stroke", name) for name in _LINES},
}
# By name, too: what turns drawings into PNGs knows no other way to a font.
FONTS = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', 'Liberation Sans', Arial, "
    "Helvetica, 'Open Sans', Ubuntu, Cantarell, FreeSans, Verdana, sans-serif"
)
_SHAPES = (
    f"text{{font-family:{FONTS};font-size:12px}}"
    "text.title{font-size:15px;font-weight:600}"
    ".grid,.axis{stroke-width:1;fill:none}"
    + "".join(f".line-{name}{{stroke-width:2;fill:none}}" for name in _LINES)
    + ".line-deleted{stroke-dasharray:7 4}"
)


def page_style() -> str:
    """The style of a page: light, dark where the reader's machine is, and always light on paper."""
    own = (files("lakesweep.report.html") / "page.css").read_text("utf-8")
    return f"{drawing_style()}\n{own}"


def drawing_style() -> str:
    """The style of drawings on a page, in the colours of that page."""
    paints = "".join(f".{c}{{{p}:var(--{name})}}" for c, (p, name) in _PAINTS.items())
    dark, light = _variables(DARK), _variables(LIGHT)
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"@media print{{:root{{color-scheme:light;{light}}}}}"
        f"{_SHAPES}{paints}"
    )


def file_style() -> str:
    """The style of a drawing in a file of its own: light, and without what only browsers understand."""
    return _SHAPES + "".join(f".{c}{{{p}:{LIGHT[name]}}}" for c, (p, name) in _PAINTS.items())


def content_security_policy(style: str) -> str:
    """Allows this style, and nothing else: no script, no request, no form, no other base."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "script-src 'none'; img-src 'none'"
    )


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())
