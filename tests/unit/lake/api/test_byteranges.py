"""The Range header, at its edges."""

from __future__ import annotations

import pytest

from lakesweep.lake.api.byteranges import content_range, parse_range
from lakesweep.lake.errors import InvalidRequestError, RangeNotSatisfiableError
from lakesweep.lake.objects.byte_ranges import resolve_range


@pytest.mark.parametrize(
    ("header", "first", "length"),
    [
        ("bytes=0-3", 0, 4),
        ("bytes=5-", 5, 6),
        ("bytes=-3", 8, 3),
        ("bytes=-99", 0, 11),
        ("bytes=0-99", 0, 11),
        ("bytes=10-10", 10, 1),
    ],
)
def test_one_range_is_found_in_the_object(header: str, first: int, length: int) -> None:
    """Ranges name bytes from the start, to the end, or from the end, and stop at the object's end."""
    assert resolve_range(parse_range(header), 11) == (first, length)


@pytest.mark.parametrize(
    "header", ["bytes=11-", "bytes=100-200", "bytes=3-1", "bytes=-", "bytes=0-1,3-4", "bytes=-0"]
)
def test_range_without_bytes_is_unsatisfiable(header: str) -> None:
    """Bytes the object does not have, and more than one range, are 416."""
    with pytest.raises(RangeNotSatisfiableError):
        resolve_range(parse_range(header), 11)


def test_empty_object_has_no_range() -> None:
    """Not even the first byte of an empty object can be had."""
    with pytest.raises(RangeNotSatisfiableError):
        resolve_range(parse_range("bytes=0-"), 0)


@pytest.mark.parametrize("header", ["junk", "bytes", "bytes=a-b", "lines=1-2", "bytes=١-٢"])
def test_other_text_is_no_range(header: str) -> None:
    """What does not look like a byte range is a wrong request."""
    with pytest.raises(InvalidRequestError):
        parse_range(header)


def test_content_range_counts_from_zero() -> None:
    """The reply names the first and the last byte, both included."""
    assert content_range(8, 3, 11) == "bytes 8-10/11"
