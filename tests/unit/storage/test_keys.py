"""Odd keys are told apart in the same way by all three readers of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.storage.keys import any_odd, is_odd_key, odd_mask
from lakesweep.storage.s3.page_scan import _is_odd

TEXT = st.text(st.sampled_from("ab./\n\x00\x7f é\ufffd\ufffe\uffff😀"), max_size=8)


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", ".", "..", "a/./b", "../a", "a\n", "a\x7f", "\ufffd"]
)
def test_these_are_odd(key: str) -> None:
    """Each could turn into another key on its way."""
    assert is_odd_key(key)
    assert any_odd(["plain", key])


@pytest.mark.parametrize(
    "key", ["a", "...", "a/.b", "a/..b/c", ". /x", "a b%2F+", "é/😀", "a/b.", "\x80"]
)
def test_these_are_not(key: str) -> None:
    """Each is carried unchanged."""
    assert not is_odd_key(key)
    assert not any_odd([key])


@given(TEXT)
def test_all_readers_agree(key: str) -> None:
    """The regular expression, Arrow's and the compiled one give one answer."""
    data = np.frombuffer(b"xx" + key.encode(), np.uint8)
    assert odd_mask(pa.array([key])).to_pylist() == [is_odd_key(key)]
    assert _is_odd(data, 2, len(data)) == is_odd_key(key)
