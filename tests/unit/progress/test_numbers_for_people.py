"""Numbers as people read them."""

from __future__ import annotations

import pytest

from lakesweep.progress import human_bytes, human_count, human_seconds


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 40, "1.0 TiB")]
)
def test_bytes_for_people(count: int, text: str) -> None:
    """Powers of 1,024, named as such."""
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (99, "99 s"), (180, "3 min"), (7500, "2 h 5 min")]
)
def test_times_for_people(seconds: float, text: str) -> None:
    """As exact as an estimate deserves."""
    assert human_seconds(seconds) == text


def test_one_thing_is_not_many() -> None:
    """1 object, 1 canary."""
    assert human_count(1, "objects") == "1 object"
    assert human_count(1, "branches") == "1 branch"
    assert human_count(1200, "objects") == "1,200 objects"
