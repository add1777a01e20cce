"""Curves over a common scale, with axes: bytes against days kept, or a history of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lakesweep.report.html.drawings.svg import Drawing, element, text

__all__ = ["Curve", "curves", "nice_steps"]

_WIDTH, _HEIGHT = 720.0, 280.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 80.0, 40.0, 26.0, 44.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A name and its points, in order of x."""

    name: str
    points: Sequence[tuple[float, float]]
    paint: str = "garbage"


def curves(
    title: str,
    told: str,
    lines: Sequence[Curve],
    *,
    x_name: str,
    show_x: Callable[[float], str],
    show_y: Callable[[float], str],
    is_binary: bool = False,
    is_time: bool = False,
    x_ticks: Sequence[float] | None = None,
    is_stepped: bool = False,
) -> Drawing:
    """Lines over one scale that begins at zero.

    Args:
        is_binary: values are bytes, so the steps of the scale are powers of two.
        is_time: values are seconds, so the steps of a long scale are round minutes or hours.
        x_ticks: where the x axis has its marks; by default at even steps.
        is_stepped: a value holds until the next point.
    """
    points = [point for line in lines for point in line.points]
    low = min((x for x, _ in points), default=0.0)
    high = max((x for x, _ in points), default=1.0)
    highest = max((y for _, y in points), default=0.0)
    steps = nice_steps(highest, is_binary=is_binary, is_time=is_time)
    top = steps[-1] or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - low) / (high - low) if high > low else 0.5
        down = y / top
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - down * (_HEIGHT - _TOP - _BOTTOM),
        )

    shapes: list[Markup] = []
    for step in steps:
        _, y = place(low, step)
        shapes.append(
            element("path", d=f"M{_LEFT:.1f} {y:.1f}H{_WIDTH - _RIGHT:.1f}", class_="grid")
        )
        shapes.append(text(show_y(step), _LEFT - 8, y + 4, "note", "end"))
    ticks = x_ticks if x_ticks is not None else [low + n * (high - low) / 6 for n in range(7)]
    for tick in dict.fromkeys(ticks):
        x, y = place(tick, 0)
        shapes.append(element("path", d=f"M{x:.1f} {y:.1f}v5", class_="axis"))
        shapes.append(text(show_x(tick), x, y + 19, "note", "middle"))
    shapes.append(text(x_name, _WIDTH - _RIGHT, _HEIGHT - 6, "note", "end"))
    x = _LEFT
    for line in lines:
        placed = [place(*point) for point in line.points]
        if placed:
            path = f"M{placed[0][0]:.1f} {placed[0][1]:.1f}" + "".join(
                f"H{px:.1f}V{py:.1f}" if is_stepped else f"L{px:.1f} {py:.1f}"
                for px, py in placed[1:]
            )
            shapes.append(element("path", d=path, class_=f"line-{line.paint}"))
            if len(placed) <= 40:
                shapes += [
                    element("circle", cx=px, cy=py, r=3, class_=f"fill-{line.paint}")
                    for px, py in placed
                ]
        if len(lines) > 1:
            shapes.append(
                element("rect", x=x, y=4, width=12, height=12, class_=f"fill-{line.paint}")
            )
            shapes.append(text(line.name, x + 18, 14))
            x += 34 + 7 * len(line.name)
    return Drawing(title, told, _WIDTH, _HEIGHT, Markup("").join(shapes))


def nice_steps(highest: float, *, is_binary: bool = False, is_time: bool = False) -> list[float]:
    """A few round numbers from zero to at least the highest; of seconds, round numbers of minutes or hours."""
    if highest <= 0:
        return [0.0, 1.0]
    if is_time and highest > 60:
        whole = 60.0 if highest <= 7200 else 3600.0
        return [whole * step for step in nice_steps(highest / whole)]
    factors = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if is_binary else (1, 2, 5)
    unit = 1.0 if is_binary else 0.001
    while True:
        for factor in factors:
            step = unit * factor
            if highest <= 5 * step:
                return [step * n for n in range(math.ceil(highest / step) + 1)]
        unit *= 1024 if is_binary else 10
