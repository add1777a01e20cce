"""The compiled rows of a listing are the very documents that the ordinary way makes, or none."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.formats.entries import AddressType, Entry
from lakesweep.lake.api.rest.listed_rows import render_rows
from lakesweep.lake.api.rest.wire import listed_document
from lakesweep.lake.staging.staged_values import decode_staged, encode_staged, stats_of
from lakesweep.lake.values import Repository

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REPOSITORY = Repository("repo", 'local://a"b/', "main", EPOCH, "uid")

SMALL = Entry(address="a", last_modified=EPOCH, size=1, e_tag="b")
PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\'))
ANY = st.text(max_size=12)


def _entries(text: st.SearchStrategy[str]) -> st.SearchStrategy[Entry]:
    return st.builds(
        Entry,
        address=text,
        last_modified=st.none() | st.integers(0, 2**34).map(lambda s: EPOCH + timedelta(seconds=s)),
        size=st.integers(0, 2**62),
        e_tag=text,
        metadata=st.just({}),
        address_type=st.sampled_from([AddressType.RELATIVE, AddressType.FULL]),
        content_type=text,
    )


def _documents(rows: list[tuple[bytes, bytes]]) -> list[object]:
    return [
        listed_document(
            stats_of(REPOSITORY, key.decode(), decode_staged(value)), with_metadata=True
        )
        for key, value in rows
    ]


@given(st.lists(st.tuples(PLAIN.filter(bool), _entries(PLAIN)), max_size=5))
def test_plain_rows_are_rendered_as_ever(items: list[tuple[str, Entry]]) -> None:
    """Byte for byte."""
    rows = [(path.encode(), encode_staged(entry)) for path, entry in items]
    rendered = render_rows(REPOSITORY, rows)
    expected = json.dumps(_documents(rows), ensure_ascii=False, separators=(",", ":"))
    assert rendered is not None
    assert b"[" + rendered + b"]" == expected.encode()


@given(st.lists(st.tuples(ANY.filter(bool), _entries(ANY)), min_size=1, max_size=3))
def test_other_rows_are_right_or_left_to_others(items: list[tuple[str, Entry]]) -> None:
    """Nothing is rendered that would not be the same document."""
    rows = [(path.encode(), encode_staged(entry)) for path, entry in items]
    rendered = render_rows(REPOSITORY, rows)
    if rendered is not None:
        assert json.loads(b"[" + rendered + b"]") == _documents(rows)


@pytest.mark.parametrize(
    "entry",
    [
        replace(SMALL, metadata={"k": "v"}),
        replace(SMALL, address_type=AddressType.BY_PREFIX_DEPRECATED),
        replace(SMALL, e_tag='quo"te'),
        replace(SMALL, content_type="line\nbreak"),
        replace(SMALL, address="ä"),
        replace(SMALL, last_modified=EPOCH - timedelta(days=1)),
    ],
)
def test_rows_that_are_not_plain_are_left_to_others(entry: Entry) -> None:
    """Escapes, metadata and old kinds of addresses."""
    assert render_rows(REPOSITORY, [(b"path", encode_staged(entry))]) is None


def test_broken_values_are_left_to_others() -> None:
    """Which say what is wrong with them."""
    good = encode_staged(SMALL)
    for cut in range(len(good)):
        assert render_rows(REPOSITORY, [(b"path", good[:cut])]) is None
    assert render_rows(REPOSITORY, []) == b""
