"""Sizes in a byte: never too large, and at most a sixth too small."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.collector.judge.magnitudes import CODES, least_bytes, magnitudes_of


def counted(sizes: list[int]) -> list[int]:
    magnitudes = magnitudes_of(np.array(sizes, dtype=np.int64))
    return [int(n) for n in np.bincount(magnitudes, minlength=CODES)]


@given(st.lists(st.integers(0, 2**62), max_size=20))
def test_sum_is_a_close_lower_bound(sizes: list[int]) -> None:
    """Whatever the sizes, their sum is told from below, within a sixth and a byte each."""
    told = least_bytes(counted(sizes))
    assert told <= sum(sizes)
    assert told >= sum(sizes) * 5 / 6 - len(sizes)


def test_negative_size_counts_as_none() -> None:
    """An entry's size is its author's word."""
    assert least_bytes(counted([-1, -(2**40)])) == 0


def test_a_large_sample_of_even_sizes_is_believed() -> None:
    """A million objects of sizes that differ by a hundred: little is taken off."""
    sizes = [2**n - 1 for n in range(20, 28)] * 2_000
    assert least_bytes(counted(sizes), 64) > 0.9 * 64 * sum(sizes)


@given(st.lists(st.integers(0, 2**50), min_size=1, max_size=20), st.integers(2, 100))
def test_a_sample_has_at_least_its_own_bytes(sizes: list[int], share: int) -> None:
    """And never more than its share stands for."""
    told, own = least_bytes(counted(sizes), share), least_bytes(counted(sizes))
    assert own <= told <= own * share
