"""Sizes in a byte: never too large, and at most a sixth too small."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.collector.judge.magnitudes import magnitudes_of, sum_of_magnitudes


@given(st.lists(st.integers(0, 2**62), max_size=20))
def test_sum_is_a_close_lower_bound(sizes: list[int]) -> None:
    """Whatever the sizes, their sum is told from below, within a sixth and a byte each."""
    told = sum_of_magnitudes(magnitudes_of(np.array(sizes, dtype=np.int64)))
    assert told <= sum(sizes)
    assert told >= sum(sizes) * 5 / 6 - len(sizes)


def test_negative_size_counts_as_none() -> None:
    """An entry's size is its author's word."""
    assert sum_of_magnitudes(magnitudes_of(np.array([-1, -(2**40)]))) == 0
