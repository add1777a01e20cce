"""The quick reader of a refs dump's commits says what the plain one says, whatever the file holds."""

from __future__ import annotations

import random
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.domain.commits import Commit
from lakesweep.errors import FormatError
from lakesweep.formats.commit_columns import CommitColumns
from lakesweep.formats.proto import bytes_field, int_field, text_field
from lakesweep.formats.ranges import open_range
from lakesweep.formats.refs_dump import (
    RefsDump,
    decode_commit,
    read_commit_columns,
    write_refs_dump,
)
from lakesweep.formats.sstable import Records
from lakesweep.formats.values import join_value, split_value

IDS = st.binary(min_size=32, max_size=32).map(bytes.hex)
TEXTS = st.text(max_size=12)
COMMITS = st.builds(
    Commit,
    id=IDS,
    committer=TEXTS,
    message=TEXTS,
    creation_date=st.datetimes(timezones=st.just(UTC)),
    meta_range_id=st.one_of(st.just(""), IDS),
    parents=st.lists(IDS, max_size=3).map(tuple),
    metadata=st.dictionaries(TEXTS, TEXTS, max_size=2),
    version=st.integers(-1, 2),
    generation=st.integers(-(2**31), 2**31 - 1),
)
ODD_FIELDS = st.sampled_from(
    [
        b"",
        int_field(10, 3),
        text_field(1, "b" * 64),
        text_field(5, "short"),
        text_field(6, b"\x0a\x01k"),
        text_field(7, "B" * 64),
        text_field(3, b"\xed\xa0\x80"),
        text_field(3, b"\xc0\x80"),
        text_field(2, b"\xf4\x90\x80\x80"),
        int_field(8, 1 << 40),
        b"\x80",
    ]
)


def rows(columns: CommitColumns) -> list[list[object]]:
    """All that columns hold; ids as text, so that widths do not matter."""
    values = (getattr(columns, field.name) for field in fields(columns))
    return [(v.astype(str) if v.dtype.kind == "S" else v).tolist() for v in values]


def plain(records: Records) -> list[list[object]] | str:
    try:
        return rows(CommitColumns.of_commits([decode_commit(value) for _, value in records]))
    except FormatError as error:
        return error.message


def quick(records: Records) -> list[list[object]] | str:
    try:
        return rows(read_commit_columns(records))
    except FormatError as error:
        return error.message


def records_of(commits: list[Commit]) -> Records:
    """The records of a dump of these commits."""
    # Behind the ranges of commits come the metaranges of commits, branches and tags.
    ranges = [data for _, data in write_refs_dump(RefsDump(commits, [], [])).files[:-3]]
    return open_range(ranges[0], entity=b"commit").records() if ranges else Records.from_pairs([])


@given(st.lists(COMMITS, max_size=5, unique_by=lambda commit: commit.id))
def test_sound_commits_take_the_quick_way(commits: list[Commit]) -> None:
    """Texts of any language, no parents or three, dates at both ends of the calendar."""
    records = records_of(commits)
    scanned = CommitColumns.of_records(records)
    assert scanned is not None
    assert rows(scanned) == plain(records)


@pytest.mark.parametrize(
    ("seconds", "year"), [(1_700_000_000_000, 9999), (-(2**63), 1), (2**63 - 1, 9999)]
)
def test_a_date_that_no_calendar_has_is_the_nearest_that_one_has(seconds: int, year: int) -> None:
    """A client may have told milliseconds. Whatever date is too late for a calendar is later than all that are not."""
    data = text_field(1, "a" * 64) + bytes_field(4, int_field(1, seconds))
    records = Records.from_pairs([(b"a" * 64, join_value(b"a" * 64, data))])
    scanned = CommitColumns.of_records(records)
    assert scanned is not None
    assert rows(scanned) == plain(records)
    assert decode_commit(join_value(b"a" * 64, data)).creation_date.year == year


@given(
    st.lists(COMMITS, min_size=1, max_size=3, unique_by=lambda c: c.id),
    ODD_FIELDS,
    st.sampled_from([b"", b"\0"]),
)
def test_both_readers_agree_about_odd_commits(commits, odd: bytes, tail: bytes) -> None:
    """Fields that nobody knows, that come twice, or that are no text; bytes left over."""
    pairs = list(records_of(commits))
    key, value = pairs[-1]
    identity, data = split_value(value)
    pairs[-1] = key, join_value(identity, data + odd) + tail
    records = Records.from_pairs(pairs)
    assert quick(records) == plain(records)


@given(st.integers(0, 2**32))
def test_both_readers_agree_about_spoiled_commits(seed: int) -> None:
    """Bytes of a sound commit, changed at random."""
    draw = random.Random(seed)
    at = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(microseconds=5)
    commit = Commit("a" * 64, "me", "é", at, "b" * 64, ("c" * 64, "d" * 64), {"k": "v"}, 1, 300)
    [(key, value)] = list(records_of([commit]))
    spoiled = bytearray(value)
    for _ in range(draw.randrange(1, 4)):
        place = draw.choice(
            [draw.randrange(len(spoiled)), draw.randrange(len(spoiled) - 80, len(spoiled))]
        )
        spoiled[place] = draw.choice([0, 1, 8, 0x7F, 0x80, 0xC3, 0xED, 0xFF])
    records = Records.from_pairs([(key, bytes(spoiled))])
    assert quick(records) == plain(records)


@pytest.mark.parametrize(
    "raw",
    [
        b"\xed\xa0\x80",  # half of a surrogate pair
        b"\xc0\x80",  # longer than it need be
        b"\xe0\x9f\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",  # beyond all letters
        b"\xf5\x80\x80\x80",
        b"\x80",
        b"\xc3",
        b"\xc3(",
        b"\xe2\x82",
        b"\xe2(\x82",
        b"\xf0\x9f\x92(",
    ],
)
@pytest.mark.parametrize("field", [2, 3, 6])
def test_what_is_no_text_is_refused_by_both(raw: bytes, field: int) -> None:
    """In the committer, the message and the metadata, though none of them is kept."""
    value = bytes_field(1, b"k") + bytes_field(2, raw) if field == 6 else raw
    record = join_value(b"a" * 64, text_field(1, "a" * 64) + bytes_field(field, value))
    records = Records.from_pairs([(b"a" * 64, record)])
    assert CommitColumns.of_records(records) is None
    assert "not UTF-8" in str(quick(records))
    assert quick(records) == plain(records)
