"""What other rules would free, as a page shows it: the curve over days kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.domain.what_if import Point, WhatIf
from lakesweep.report.accounts import whole_seconds
from lakesweep.report.html.drawings.curve import Curve, curves
from lakesweep.report.html.drawings.svg import Drawing
from lakesweep.report.html.names import counted, size_text

__all__ = ["WhatIfView", "what_if_curve", "what_if_view"]

_MOST_POINTS = 60


@dataclass(frozen=True, slots=True)
class CurveRow:
    """One point of the curve, in words."""

    days: int
    objects: int
    bytes_text: str


@dataclass(frozen=True, slots=True)
class WhatIfView:
    """The curve, and its points in numbers."""

    said: str
    curve: Drawing
    rows: list[CurveRow]


def what_if_view(found: WhatIf) -> WhatIfView:
    """The curve of a what-if."""
    points = _thinned(found)
    return WhatIfView(
        f"Bytes that expire against days kept, as asked at {whole_seconds(found.asked_at)}. "
        f"{counted(found.unreferenced.objects, 'unreferenced object')} "
        f"({size_text(found.unreferenced.bytes)}) would go with any number of days, and are not in the curve.",
        what_if_curve(found),
        [CurveRow(p.days, p.objects, size_text(p.bytes)) for p in points],
    )


def what_if_curve(found: WhatIf) -> Drawing:
    """Bytes freed against days kept."""
    points = _thinned(found)
    last = points[-1].days
    placed = [(float(p.days), float(p.bytes)) for p in points]
    # The curve stays where it is behind its last step.
    placed.append((last + max(1.0, last * 0.05), placed[-1][1]))
    told = (
        f"With 0 days kept, {size_text(points[0].bytes)} would be freed; with {counted(last, 'day')} or more, "
        f"{size_text(points[-1].bytes)}."
    )
    return curves(
        "What would be freed against days kept",
        told,
        [Curve("freed", placed)],
        x_name="days kept",
        show_x=lambda days: f"{days:.0f}",
        show_y=lambda size: size_text(int(size)),
        is_binary=True,
        x_ticks=_ticks(last),
        is_stepped=True,
    )


def _thinned(found: WhatIf) -> Sequence[Point]:
    """At most so many points, the first and the last among them."""
    points = found.curve.points
    step = max(1, -(-len(points) // _MOST_POINTS))
    kept = points[::step]
    return kept if kept[-1] == points[-1] else (*kept, points[-1])


def _ticks(last: int) -> list[float]:
    step = max(1, -(-last // 8))
    return [float(day) for day in range(0, last + 1, step)]
