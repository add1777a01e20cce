"""A timeline: when each step of a run began, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lakesweep.report.html.drawings.curve import nice_steps
from lakesweep.report.html.drawings.svg import Drawing, element, text
from lakesweep.report.html.names import shortened, took

__all__ = ["Span", "timeline"]

_WIDTH, _ROW, _LABELS, _RIGHT = 720.0, 24.0, 130.0, 70.0


@dataclass(frozen=True, slots=True)
class Span:
    """A step: its name, the second at which it began, and how many it took."""

    name: str
    began: float
    seconds: float


def timeline(title: str, spans: Sequence[Span]) -> Drawing:
    """One line for each step, against the seconds of the run."""
    end = max((span.began + span.seconds for span in spans), default=0.0)
    steps = nice_steps(end)
    scale = (_WIDTH - _LABELS - _RIGHT) / (max(end, steps[-1]) or 1.0)
    height = len(spans) * _ROW
    shapes = []
    for step in steps:
        x = _LABELS + step * scale
        shapes.append(element("path", d=f"M{x:.1f} 0V{height:.1f}", class_="grid"))
        shapes.append(text(took(step), x, height + 16, "note", "middle"))
    for number, span in enumerate(spans):
        y = number * _ROW
        x, width = _LABELS + span.began * scale, max(span.seconds * scale, 1.5)
        shapes += [
            text(shortened(span.name, 17), _LABELS - 10, y + 16, "label", "end"),
            element("rect", x=x, y=y + 5, width=width, height=14, class_="fill-unreferenced"),
            text(took(span.seconds), x + width + 6, y + 16, "note"),
        ]
    longest = max(spans, key=lambda span: span.seconds, default=None)
    told = f"{len(spans)} steps in {took(end)}" + (
        f"; the longest: {longest.name}, {took(longest.seconds)}" if longest else ""
    )
    return Drawing(title, told, _WIDTH, height + 24, Markup("").join(shapes))
