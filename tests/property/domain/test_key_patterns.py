"""One rule for a key and for a column of keys: Python's `re` and Arrow's RE2 read our patterns alike."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given
from hypothesis import strategies as st

from lakesweep.domain.addresses import (
    CANDIDATE_PATTERN,
    DATA_CANDIDATE_PATTERN,
    FOREIGN_REPOSITORY_PATTERN,
    PROTECTED_PATTERNS,
    ROOT_CANDIDATE_PATTERN,
    KeyKind,
    candidate_pattern,
    classify_key,
    is_candidate,
)

XID_CHARACTERS = "0123456789abcdefghijklmnopqrstuv"
xids = st.builds(
    lambda head, last: head + last,
    st.text(XID_CHARACTERS, min_size=19, max_size=19),
    st.sampled_from("0g"),
)
signatures = st.text("abcXYZ019_-", min_size=1, max_size=50).map(lambda text: f",{text}")
pieces = st.one_of(
    xids,
    st.builds(lambda xid, signature: xid + signature, xids, signatures),
    st.text("0123456789abcdef", min_size=31, max_size=33),
    st.sampled_from(
        ["data", "_lakefs", "dummy", "!ab", "c", "", ".", "..", "\n", "x\n", "é", "%2F"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)
keys = st.lists(pieces, max_size=6).map("/".join)


def matches(pattern: str, key: str) -> bool:
    return pc.match_substring_regex(pa.array([key]), pattern)[0].as_py()


def by_arrow(key: str, root_names: bool):
    """The same decision as `classify_key`, taken with Arrow."""
    if matches(FOREIGN_REPOSITORY_PATTERN, key):
        return KeyKind.FOREIGN_REPOSITORY, None
    if matches(candidate_pattern(root_names=root_names), key):
        return KeyKind.CANDIDATE, None
    return KeyKind.PROTECTED, next(r for r, pattern in PROTECTED_PATTERNS if matches(pattern, key))


@given(keys, st.booleans())
@example("data/gcoca17haabs73f2gtq0/cnnj2kqs3bo4lk9dl9dg\n", False)
@example("b0c968736d8f42a2b1c6284835f08226\n", True)
@example("dummy\n", False)
@example("data/a\nb/dummy", False)
def test_arrow_and_python_agree_on_every_key(key, root_names):
    """Line ends, unicode and look-alikes included."""
    shape = classify_key(key, root_names=root_names)
    kind, reason = by_arrow(key, root_names)
    assert shape.kind is kind
    if kind is KeyKind.PROTECTED:
        assert shape.reason is reason


@given(keys)
def test_a_candidate_is_one_of_the_two_shapes_and_never_foreign(key):
    """Nothing is both ours to delete and a mark of somebody else's repository."""
    data, root = matches(DATA_CANDIDATE_PATTERN, key), matches(ROOT_CANDIDATE_PATTERN, key)
    assert is_candidate(key) == data
    assert is_candidate(key, root_names=True) == (data or root) == matches(CANDIDATE_PATTERN, key)
    assert not ((data or root) and matches(FOREIGN_REPOSITORY_PATTERN, key))


@given(xids, xids)
def test_whatever_ids_a_server_makes_are_candidates(slice_id, object_id):
    """Every xid in every slice."""
    assert is_candidate(f"data/{slice_id}/{object_id}")
