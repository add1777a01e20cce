"""Which bytes of an object a request means."""

from __future__ import annotations

from lakesweep.lake.errors import RangeNotSatisfiableError
from lakesweep.lake.values import ByteRange


def resolve_range(asked: ByteRange | None, size: int) -> tuple[int, int]:
    """(start, length) within an object; `RangeNotSatisfiableError` when it has none of the bytes asked for."""
    if asked is None:
        return 0, size
    if asked.suffix is not None:
        length = min(asked.suffix, size)
        if length <= 0:
            raise _unsatisfiable(size)
        return size - length, length
    last = size - 1 if asked.last is None else min(asked.last, size - 1)
    if asked.first < 0 or asked.first > last:
        raise _unsatisfiable(size)
    return asked.first, last - asked.first + 1


def _unsatisfiable(size: int) -> RangeNotSatisfiableError:
    return RangeNotSatisfiableError(
        f"the object has {size} bytes, and none of those asked for", size_bytes=size
    )
