"""Elements of SVG, escaped, and drawings put together in one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from lakesweep.report.html.names import visible
from lakesweep.report.html.style import file_style

__all__ = ["Drawing", "as_file", "element", "text"]

_GAP = 28


def element(name: str, *children: Markup, **attributes: object) -> Markup:
    """`<name …>children</name>`. `class_` is written as class, other underscores as dashes."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{words}>{''.join(children)}</{name}>")


def text(words: str, x: float, y: float, class_: str = "label", anchor: str = "start") -> Markup:
    """A line of text, of which every character can be seen."""
    anchor_at = None if anchor == "start" else anchor
    return element("text", escape(visible(words)), x=x, y=y, class_=class_, text_anchor=anchor_at)


@dataclass(frozen=True, slots=True)
class Drawing:
    """One drawing: its shapes, and what it says to who can't see it."""

    title: str
    told: str  # the drawing in a sentence or two
    width: float
    height: float
    shapes: Markup

    def svg(self, id_: str) -> Markup:
        """The drawing for a page; `id_` is its own there."""
        return element(
            "svg",
            element("title", escape(visible(self.title)), id=f"{id_}-title"),
            element("desc", escape(visible(self.told)), id=f"{id_}-told"),
            self.shapes,
            viewBox=f"0 0 {_value(self.width)} {_value(self.height)}",
            width=self.width,
            height=self.height,
            role="img",
            aria_labelledby=f"{id_}-title {id_}-told",
            class_="drawing",
        )


def as_file(drawings: Sequence[Drawing]) -> str:
    """Drawings under another in one SVG file, each with its title."""
    width = max((d.width for d in drawings), default=0) + 2 * _GAP
    y: float = _GAP
    shapes = []
    for number, drawing in enumerate(drawings):
        shapes.append(text(drawing.title, _GAP, y + 12, "label title"))
        y += 30
        inner = element("g", drawing.svg(f"d{number}"), transform=f"translate({_GAP} {_value(y)})")
        shapes.append(inner)
        y += drawing.height + _GAP
    paper = element("rect", width=width, height=y, class_="paper")
    whole = element(
        "svg",
        element("title", escape(visible("; ".join(d.title for d in drawings)))),
        element("style", Markup(file_style())),
        paper,
        *shapes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_value(width)} {_value(y)}",
        width=width,
        height=y,
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole}\n'


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
