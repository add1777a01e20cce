"""The `Range` header of an object read (RFC 9110), one range at a time."""

from __future__ import annotations

import re

from lakesweep.lake.errors import InvalidRequestError, RangeNotSatisfiableError
from lakesweep.lake.values import ByteRange

_ANY_RANGES = re.compile(r"bytes=((\d*-\d*,? ?)+)", re.ASCII)
_ONE_RANGE = re.compile(r"bytes=(\d*)-(\d*)", re.ASCII)


def parse_range(header: str) -> ByteRange:
    """What the header asks for, before the object's size is known."""
    if _ANY_RANGES.fullmatch(header) is None:
        raise InvalidRequestError(f"Range {header!r} is not of the form bytes=FIRST-LAST.")
    match = _ONE_RANGE.fullmatch(header)
    first, last = match.groups() if match else ("", "")
    if not first and not last:
        raise RangeNotSatisfiableError(f"Range {header!r} is not one range; ask for one at a time.")
    if not first:
        return ByteRange(suffix=int(last))
    if last and int(last) < int(first):
        raise RangeNotSatisfiableError(f"Range {header!r} ends before it begins.")
    return ByteRange(first=int(first), last=int(last) if last else None)


def content_range(first: int, length: int, size_bytes: int) -> str:
    """The reply's `Content-Range`."""
    return f"bytes {first}-{first + length - 1}/{size_bytes}"
