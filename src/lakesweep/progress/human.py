"""Numbers as people read them."""

from __future__ import annotations

__all__ = ["human_bytes", "human_count", "human_seconds"]


def human_bytes(count: int) -> str:
    """`0 B`, `1.5 KiB`, `3.2 GiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(size) < 1024 or unit == "PiB":
            return f"{count} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def human_count(count: int, unit: str) -> str:
    """`1,200 objects`, `1 object`."""
    one = {"branches": "branch"}.get(unit, unit.removesuffix("s"))
    return f"{count:,} {one if count == 1 else unit}"


def human_seconds(seconds: float) -> str:
    """`8 s`, `3 min`, `2 h 5 min`: as exact as an estimate deserves."""
    whole = max(round(seconds), 0)
    if whole < 100:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
