"""What the bytes of candidates say about the entries that they may be re-uploads of."""

from __future__ import annotations

from dataclasses import replace
from hashlib import md5
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakesweep.collector.judge.suspects import Sizes
from lakesweep.collector.lakefs.checks import content_sums
from lakesweep.collector.lakefs.checks.content_sums import (
    Contents,
    are_true,
    sum_contents,
    trial_of,
)
from lakesweep.collector.parts import Part
from lakesweep.collector.phases import Phases
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.ranges import RangeSums, read_range_sums
from lakesweep.formats.tables import MARK_SCHEMA, write_mark
from lakesweep.formats.values import join_value
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

_NUMBERS = count()
SIZES = Sizes(np.array([3, 5]))


def sum_of(data: bytes) -> int:
    return int(md5(data, usedforsecurity=False).hexdigest()[:16], 16)


def one_part(data: bytes) -> str:
    """The e_tag of a multipart upload in one part, as servers keep it: without the number of parts."""
    whole = md5(data, usedforsecurity=False).digest()
    return md5(whole, usedforsecurity=False).hexdigest()


class RowsLost(InProcessEngine):
    """Forgets the first row of every scatter."""

    def collect(self, scatter: Scatter) -> pa.Table:
        return super().collect(scatter).slice(1)


def resources_with(engine: InProcessEngine | None = None) -> Resources:
    target = Target(Location.parse(f"mem://content-sums/{next(_NUMBERS)}"), StorageOptions())
    return Resources(target, engine or InProcessEngine(), Phases("repo"), utc_now)


def put_garbage(resources: Resources, *rows: tuple[bytes, str], missing: str = "") -> list[Part]:
    """A part for every row: an object with this content, and why it is garbage."""
    parts = []
    for number, (content, reason) in enumerate(rows):
        address = f"data/s/{number}"
        if address != missing:
            resources.store.write(address, content)
        row = {"address": address, "size_bytes": len(content), "reason": reason}
        data = write_mark(pa.Table.from_pylist([row], schema=MARK_SCHEMA))
        resources.store.write(f"part-{number}", data)
        parts.append(Part(f"part-{number}", 1, len(content)))
    return parts


def entries_of(*entries: Entry) -> tuple[bytes, RangeSums]:
    [written] = write_ranges(
        (b"path-%03d" % number, join_value(b"i" * 32, entry.encode()))
        for number, entry in enumerate(entries)
    )
    return written.data, read_range_sums(written.data)


def entry(content: bytes, e_tag: str | None = None, **more: Any) -> Entry:
    own = md5(content, usedforsecurity=False).hexdigest()
    return Entry(
        more.pop("address", "data/a/b"), None, len(content), own if e_tag is None else e_tag, **more
    )


@pytest.mark.parametrize("most_on_driver", [0, 1_000])
def test_sums_are_those_of_what_no_commit_holds(monkeypatch, most_on_driver: int) -> None:
    """Other sizes and expired objects are not read, here or by tasks."""
    monkeypatch.setattr(content_sums, "_MOST_ON_DRIVER", most_on_driver)
    resources = resources_with()
    rows = [(b"abc", "unreferenced"), (b"12345", "unreferenced"), (b"old", "expired")]
    parts = put_garbage(resources, *rows, (b"longer", "unreferenced"))
    contents = sum_contents(resources, SIZES, parts)
    assert contents.summed.values.tolist() == [3, 5]
    in_one_part = [int(one_part(data)[:16], 16) for data in (b"abc", b"12345")]
    assert contents.sums.tolist() == sorted([sum_of(b"abc"), sum_of(b"12345"), *in_one_part])


def test_entries_are_ruled_out_by_sums_only_where_both_are_known() -> None:
    """An e_tag of another form, a size that was not summed, and equal bytes rule out nothing."""
    contents = Contents(SIZES, Sizes(np.array([3])), np.array([sum_of(b"abc")], np.uint64))
    _, entries = entries_of(
        entry(b"abc"),
        entry(b"xyz"),
        entry(b"xyz", "F" * 32),
        entry(b"xyz", "0" * 31),
        entry(b"xyz", "0" * 32 + "-2"),
        entry(b"12345"),
        entry(b"of another size"),
    )
    assert contents.are_ruled_out(entries).tolist() == [False, True, *[False] * 5]
    assert contents.have_size(entries).tolist() == [*[True] * 6, False]
    assert not contents.without_sums().are_ruled_out(entries).any()


def test_an_entry_of_a_size_that_no_object_has_may_be_of_any_size() -> None:
    """Its client did not know the size: only its sum can rule it out, where all candidates were summed."""
    sums = np.array([sum_of(b"abc")], np.uint64)
    _, entries = entries_of(
        replace(entry(b"abc"), size=-1), replace(entry(b"xyz"), size=-1), entry(b"longer")
    )
    contents = Contents(SIZES, SIZES, sums)
    assert contents.have_size(entries).tolist() == [True, True, False]
    assert contents.are_ruled_out(entries).tolist() == [False, True, False]
    partly_summed = Contents(SIZES, Sizes(np.array([3])), sums)
    assert not partly_summed.are_ruled_out(entries).any()
    assert not contents.without_sums().are_ruled_out(entries).any()


def test_a_candidate_may_be_a_reupload_in_one_part() -> None:
    """The e_tag of a multipart upload has the form of an MD5, and is not the MD5 of the object's bytes."""
    resources = resources_with()
    contents = sum_contents(resources, SIZES, put_garbage(resources, (b"abc", "unreferenced")))
    _, entries = entries_of(entry(b"abc", one_part(b"abc")), entry(b"xyz", one_part(b"xyz")))
    assert contents.are_ruled_out(entries).tolist() == [False, True]


def test_a_candidate_that_may_have_been_uploaded_in_several_parts_is_not_summed() -> None:
    """Nobody knows where its parts ended, so no sum of its bytes rules out an entry."""
    smallest_part = 5_000_000
    resources = resources_with()
    rows = [(b"a" * smallest_part, "unreferenced"), (b"b" * (smallest_part - 1), "unreferenced")]
    sizes = Sizes(np.array([smallest_part - 1, smallest_part]))
    contents = sum_contents(resources, sizes, put_garbage(resources, *rows))
    assert contents.summed.values.tolist() == [smallest_part - 1]


def test_a_size_with_an_unread_candidate_is_not_summed() -> None:
    """Its sum may be that of any entry."""
    resources = resources_with()
    rows = [(b"abc", "unreferenced"), (b"xyz", "unreferenced"), (b"12345", "unreferenced")]
    parts = put_garbage(resources, *rows, missing="data/s/1")
    assert sum_contents(resources, SIZES, parts).summed.values.tolist() == [5]


def test_a_candidate_of_another_length_than_listed_counts_as_unread() -> None:
    """It was written anew, or cut short on the way."""
    resources = resources_with()
    parts = put_garbage(resources, (b"abc", "unreferenced"), (b"12345", "unreferenced"))
    resources.store.write("data/s/0", b"ab")
    assert sum_contents(resources, SIZES, parts).summed.values.tolist() == [5]


def test_lost_rows_are_missed(monkeypatch) -> None:
    """A candidate without a sum would be taken for none that was re-uploaded."""
    monkeypatch.setattr(content_sums, "_MOST_ON_DRIVER", 0)
    resources = resources_with(RowsLost())
    parts = put_garbage(resources, (b"abc", "unreferenced"), (b"xyz", "unreferenced"))
    with pytest.raises(UnsafeToSweepError, match="lost while their contents") as caught:
        sum_contents(resources, SIZES, parts)
    assert caught.value.kind == "not-conserved"


@pytest.mark.parametrize(
    ("limit", "value", "summed"),
    [
        ("_MOST_OBJECTS", 2, [5]),
        ("_MOST_BYTES", 9, [5]),
        ("_LARGEST", 4, [3]),
        ("_MOST_OBJECTS", 0, []),
    ],
)
def test_sizes_that_take_too_much_are_left_to_look_ups(monkeypatch, limit, value, summed) -> None:
    """The sizes with the fewest bytes are summed first."""
    monkeypatch.setattr(content_sums, limit, value)
    resources = resources_with()
    rows = [(b"abc", "unreferenced"), (b"xyz", "unreferenced"), (b"12345", "unreferenced")]
    contents = sum_contents(resources, SIZES, put_garbage(resources, *rows))
    assert contents.summed.values.tolist() == summed
    assert contents.sizes is SIZES


def test_e_tags_are_tried_on_the_bytes_of_their_entries() -> None:
    """One that is no sum, or no object to try it on: the sums are worth nothing."""
    store = resources_with().store
    store.write("data/a/b", b"abc")
    true, untrue, gone = entry(b"abc"), entry(b"xyz"), entry(b"abc", address="data/a/gone")
    in_one_part = entry(b"abc", one_part(b"abc"))
    full = entry(b"abc", address="s3://b/data/a/b", address_type=AddressType.FULL)
    sound = trial_of(*entries_of(true), np.arange(1), 9)
    odd = entry(b"abc", address="data//b")  # of a user's making; no client carries it unchanged
    for entries, expected in (
        ([true, true], True),
        ([true, gone], True),
        ([true, in_one_part], True),
        ([true, untrue], False),
        ([true, odd], True),
        ([gone], False),
        ([odd], False),
        ([full], False),
    ):
        data, sums = entries_of(*entries)
        trial = trial_of(data, sums, np.arange(len(entries)), 9)
        assert are_true(store, [trial]) is expected
        # One range whose sums are not known to be true is enough, wherever it stands.
        assert are_true(store, [sound, trial]) is expected
        assert are_true(store, [trial, sound]) is expected
