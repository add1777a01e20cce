"""A treemap: each name has an area as large as its value (squarified, after Bruls, Huizing and van Wijk)."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from lakesweep.report.html.drawings.bars import Bar
from lakesweep.report.html.drawings.svg import Drawing, element, text
from lakesweep.report.html.names import shortened

__all__ = ["treemap"]

_WIDTH, _HEIGHT, _EDGE = 720.0, 320.0, 1.0
_LETTER = 6.8  # about how wide one is
Box = tuple[float, float, float, float]


def treemap(title: str, rows: Sequence[Bar]) -> Drawing:
    """Tiles, the largest first; a tile too small for its name has none."""
    rows = sorted((row for row in rows if row.value > 0), key=lambda row: -row.value)
    boxes = _squarified([row.value for row in rows], (0.0, 0.0, _WIDTH, _HEIGHT))
    shapes = []
    for number, (row, (x, y, width, height)) in enumerate(zip(rows, boxes, strict=True)):
        tint = min(number * 4 // max(len(rows), 1), 3)
        shapes.append(
            element(
                "rect",
                x=x + _EDGE,
                y=y + _EDGE,
                width=max(width - 2 * _EDGE, 0.5),
                height=max(height - 2 * _EDGE, 0.5),
                class_=f"fill-tile-{tint}",
            )
        )
        letters = int((width - 12) / _LETTER)
        if letters >= 6 and height >= 20:
            shapes.append(text(shortened(row.name, letters), x + 7, y + 16))
            if height >= 38 and letters >= len(row.shown):
                shapes.append(text(row.shown, x + 7, y + 32, "note tile-note"))
    told = f"{len(rows)} tiles" + (
        f"; the largest: {rows[0].name}, {rows[0].shown}" if rows else ""
    )
    return Drawing(title, told, _WIDTH, _HEIGHT, Markup("").join(shapes))


def _squarified(values: Sequence[int], box: Box) -> list[Box]:
    """A box for each value, in order; values are sorted, the largest first."""
    x, y, width, height = box
    boxes: list[Box] = []
    left, start = sum(values), 0
    while start < len(values):
        side = min(width, height)
        scale = width * height / left if left else 0.0
        end = start + 1
        while end < len(values) and _worst(values[start : end + 1], scale, side) <= _worst(
            values[start:end], scale, side
        ):
            end += 1
        row = values[start:end]
        depth = sum(row) * scale / side if side else 0.0
        at = 0.0
        for value in row:
            length = value * scale / depth if depth else 0.0
            if width >= height:
                boxes.append((x, y + at, depth, length))
            else:
                boxes.append((x + at, y, length, depth))
            at += length
        if width >= height:
            x, width = x + depth, width - depth
        else:
            y, height = y + depth, height - depth
        left -= sum(row)
        start = end
    return boxes


def _worst(row: Sequence[int], scale: float, side: float) -> float:
    """How far from a square the worst tile of a row is."""
    area = sum(row) * scale
    if not area or not side:
        return float("inf")
    return max(
        side**2 * max(row) * scale / area**2, area**2 / (side**2 * (min(row) * scale or 1e-9))
    )
