"""Sets of numbers as bitmaps."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.collector.judge.bitmap import Bitmap

_NUMBERS = st.lists(st.integers(0, 2**64 - 1), max_size=50)


def _array(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.uint64)


@given(_NUMBERS, _NUMBERS)
def test_a_number_of_the_set_is_never_denied(some: list[int], others: list[int]) -> None:
    """Whatever else was added, and also after a journey as bytes."""
    bitmap = Bitmap.of(_array(some))
    bitmap.add(_array(others))
    assert Bitmap.decode(bitmap.encode()).may_have(_array(some + others)).all()


def test_most_other_numbers_are_denied() -> None:
    """About one in sixteen is admitted, also of numbers that follow each other."""
    bitmap = Bitmap.of(np.arange(0, 100_000, 2, dtype=np.uint64))
    assert bitmap.may_have(np.arange(1, 100_000, 2, dtype=np.uint64)).mean() < 0.15
    assert not Bitmap.of(_array([])).may_have(_array([1, 2, 3])).any()


def test_small_numbers_have_their_own_places() -> None:
    """Numbers of another width are the same numbers."""
    bitmap = Bitmap.of(np.array([5, 7], np.uint32))
    assert bitmap.may_have(_array([5, 7])).all()
    assert not bitmap.may_have(_array([6])).any()
