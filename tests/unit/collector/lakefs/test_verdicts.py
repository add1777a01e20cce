"""Verdicts: every candidate gets exactly one, and each rule decides at its edge."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.collector.judge.candidates import CandidatePart, listed_parts
from lakesweep.collector.judge.columns import MET_SCHEMA
from lakesweep.collector.judge.meeting import Judged, add_up
from lakesweep.collector.judge.references import EXPIRED, GONE, LIVE, RESTORED
from lakesweep.collector.lakefs.candidates import ExpiredRange, SavedFile, read_candidates
from lakesweep.collector.lakefs.judging import address_judge, has_root_names
from lakesweep.collector.lakefs.listing import CANDIDATE_SCHEMA
from lakesweep.collector.lakefs.references import (
    AddressList,
    EventFile,
    RangeReference,
    Reference,
    read_references,
)
from lakesweep.collector.parts import Part, PartWriter
from lakesweep.collector.target import Target
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Source
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.ranges import RangeHashes, read_range_hashes
from lakesweep.formats.tables import read_mark, write_mark
from lakesweep.formats.values import join_value
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

CUTOFF = datetime(2026, 1, 10, tzinfo=UTC)
OLD = CUTOFF - timedelta(days=1)
SLICE = "data/gcoca17haabs73f2gtq0/"


def address(number: int) -> str:
    return f"{SLICE}c{number:018d}0"


class Bench:
    """Candidates and references in a memory store, judged in process."""

    def __init__(self) -> None:
        namespace = Location.parse(f"mem://verdicts-{uuid.uuid4().hex}/ns")
        self.target = Target(namespace, StorageOptions())
        self.references: list[Reference] = []
        self.candidates: list[Any] = []

    def refer(self, kind: int, *addresses: str) -> None:
        self.references.append(AddressList(f"{kind}-{len(self.references)}", addresses, kind))

    def event(self, kind: int, order: int, *addresses: str) -> None:
        key = f"events/{len(self.references)}.parquet"
        self.target.open().write(key, write_mark(_marked(addresses)))
        self.references.append(EventFile(key, kind, order))

    def listed(self, **times: datetime | None) -> None:
        writer = PartWriter(self.target.open(), "listing/", "l", CANDIDATE_SCHEMA)
        rows = [
            {"address": a, "size_bytes": 10, "last_modified": time} for a, time in times.items()
        ]
        writer.add(pa.RecordBatch.from_pylist(rows, schema=CANDIDATE_SCHEMA))
        self.candidates += listed_parts(writer.close())

    def planned(self, *addresses: str, modified: datetime | None = OLD) -> None:
        key = f"mark/{len(self.candidates)}.parquet"
        self.target.open().write(key, write_mark(_marked(addresses, modified)))
        self.candidates.append(CandidatePart(key, Source.PLANNED))

    def saved(self, *addresses: str) -> None:
        key = f"saved/{len(self.candidates)}.parquet"
        self.target.open().write(key, write_mark(_marked(addresses)))
        self.candidates.append(SavedFile(key))

    def judge(self, partitions: int = 3, *, trust_dates: bool = True) -> Judged:
        judge = replace(
            address_judge(self.target, "verdicts/", CUTOFF),
            trust_dates=trust_dates,
            keep_live_rows=True,
        )
        met = InProcessEngine().meet(
            Scatter(
                self.references,
                partial(read_references, self.target, partitions),
                CELL_SCHEMA,
                2,
            ),
            Scatter(
                self.candidates, partial(read_candidates, self.target, partitions), CELL_SCHEMA, 2
            ),
            judge,
            MET_SCHEMA,
            partitions,
        )
        return add_up(met, self.references, self.candidates, judge)

    def garbage(self, judged: Judged) -> dict[str, str]:
        return self._reasons(judged.garbage)

    def undated(self, judged: Judged) -> dict[str, str]:
        return self._reasons(judged.undated)

    def _reasons(self, parts: list[Part]) -> dict[str, str]:
        rows = [
            row
            for part in parts
            for row in read_mark(self.target.open().read(part.key)).to_pylist()
        ]
        return {row["address"]: row["reason"] for row in rows}


def _marked(addresses: tuple[str, ...], modified: datetime | None = None) -> pa.Table:
    from lakesweep.formats.tables import MARK_SCHEMA

    rows = [
        {"address": a, "size_bytes": 10, "last_modified": modified, "reason": "unreferenced"}
        for a in addresses
    ]
    return pa.Table.from_pylist(rows, schema=MARK_SCHEMA)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_live_wins_over_everything(bench: Bench) -> None:
    """An address that is live and in an expired commit is live."""
    bench.refer(LIVE, address(1))
    bench.refer(EXPIRED, address(1), address(2))
    bench.listed(**{address(1): OLD, address(2): OLD, address(3): OLD})
    judged = bench.judge()
    assert bench.garbage(judged) == {address(2): "expired", address(3): "unreferenced"}
    assert judged.tallies["live"].objects == 1


def test_a_plan_is_in_order_with_each_reason_at_its_object(bench: Bench) -> None:
    """However the listing came, so that a backup finds neighbours in the store side by side."""
    numbers = [*range(50, 100), *range(50)]
    bench.refer(EXPIRED, *(address(number) for number in range(0, 100, 3)))
    bench.listed(**{address(number): OLD for number in numbers})
    garbage = bench.garbage(bench.judge(partitions=1))
    assert list(garbage) == sorted(garbage)
    assert garbage == {address(n): "unreferenced" if n % 3 else "expired" for n in range(100)}


@pytest.mark.parametrize(
    ("modified", "is_garbage"),
    [(CUTOFF - timedelta(microseconds=1), True), (CUTOFF, False), (None, False)],
)
def test_cutoff_is_exclusive_and_no_time_counts_as_young(
    bench: Bench, modified: datetime | None, is_garbage: bool
) -> None:
    """Only what was written before the cut-off goes."""
    bench.listed(**{address(1): modified})
    judged = bench.judge()
    assert bool(judged.garbage) is is_garbage
    assert judged.tallies["young"].objects == (0 if is_garbage else 1)


@pytest.mark.parametrize(
    "name",
    ["_lakefs/dummy", "dummy", "data/plain", f"{SLICE}not-an-xid", "../escape", "/etc/passwd", ""],
)
def test_edited_plan_never_gets_a_foreign_name_through(bench: Bench, name: str) -> None:
    """Whatever a mark's file says, only names that lakeFS gives to data are garbage."""
    bench.planned(name, address(1))
    judged = bench.judge()
    assert bench.garbage(judged) == {address(1): "unreferenced"}
    assert judged.tallies["protected"].objects == 1


def test_plan_that_is_not_trusted_has_its_ages_looked_up(bench: Bench) -> None:
    """A date in a file that somebody edited is only a claim."""
    bench.planned(address(1))
    judged = bench.judge(trust_dates=False)
    assert not judged.garbage
    assert [p.rows for p in judged.undated] == [1]


def test_saved_candidates_are_undated(bench: Bench) -> None:
    """A saved list has no ages; the store is asked later."""
    bench.refer(LIVE, address(2))
    bench.saved(address(1), address(2))
    judged = bench.judge()
    assert [p.rows for p in judged.undated] == [1]
    assert judged.tallies["live"].objects == 1


def test_last_event_decides_whether_a_planned_object_is_gone(bench: Bench) -> None:
    """Deleted, restored, deleted again: what happened last counts."""
    bench.event(GONE, 1, address(1), address(2), address(3))
    bench.event(RESTORED, 2, address(2), address(3))
    bench.event(GONE, 3, address(3))
    bench.planned(address(1), address(2), address(3))
    judged = bench.judge()
    assert bench.undated(judged) == {address(2): "unreferenced"}
    assert judged.tallies["gone"].objects == 2


def test_restored_objects_are_as_young_as_their_restoration(bench: Bench) -> None:
    """Neither a mark's date nor an expired commit says how old they are: the store is asked. A listing has asked it."""
    bench.refer(EXPIRED, address(1), address(2))
    bench.event(GONE, 1, address(1), address(2))
    bench.event(RESTORED, 2, address(1), address(2))
    bench.planned(address(1))
    bench.listed(**{address(2): OLD})
    judged = bench.judge()
    assert bench.undated(judged) == {address(1): "expired"}
    assert bench.garbage(judged) == {address(2): "expired"}


def test_address_listed_and_saved_counts_once(bench: Bench) -> None:
    """The listing knows its age, so the listed row decides."""
    bench.listed(**{address(1): OLD})
    bench.saved(address(1))
    judged = bench.judge()
    assert bench.garbage(judged) == {address(1): "unreferenced"}
    assert judged.duplicates.objects == 1


def test_revived_rows_are_named(bench: Bench) -> None:
    """A sweep tells by name what it kept."""
    bench.refer(LIVE, address(1))
    bench.planned(address(1), address(2))
    judged = bench.judge()
    kept = read_mark(bench.target.open().read(judged.kept[0].key)).column("address").to_pylist()
    assert kept == [address(1)]


def test_only_names_that_a_server_gave_count_among_the_names_at_the_root() -> None:
    """A file that was imported from the root is foreign; a relative address was given by a server."""
    bench = Bench()
    kinds = {
        AddressType.RELATIVE: "0" * 32,
        AddressType.BY_PREFIX_DEPRECATED: "1" * 32,
        AddressType.FULL: "2" * 32,
    }
    for kind, own in kinds.items():
        entry = Entry(own, OLD, 3, "e", address_type=kind)
        (written,) = write_ranges([(b"path", join_value(b"i" * 32, entry.encode()))])
        bench.target.open().write(f"_lakefs/{written.id}", written.data)
        is_own = kind is not AddressType.FULL
        bench.references = [RangeReference(RangeId(written.id), 1, LIVE)]
        bench.candidates = []
        assert has_root_names(bench.judge()) is is_own
        bench.references, bench.candidates = [], [ExpiredRange(RangeId(written.id), 1)]
        assert has_root_names(bench.judge()) is is_own


@pytest.mark.parametrize("lost", [1, 2])
def test_entries_inside_that_were_not_understood_are_doubt(
    monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """An entry outside the namespace needs no reference; any other that gives none means a reader gone blind."""
    bench = Bench()
    kinds = {"outside": AddressType.FULL, "one": AddressType.RELATIVE, "two": AddressType.RELATIVE}
    records = []
    for number, (path, kind) in enumerate(sorted(kinds.items())):
        text = "mem://elsewhere/x" if kind is AddressType.FULL else address(number)
        entry = Entry(text, OLD, 3, "e", address_type=kind)
        records.append((path.encode(), join_value(b"i" * 32, entry.encode())))
    (written,) = write_ranges(records)
    bench.target.open().write(f"_lakefs/{written.id}", written.data)
    bench.references = [RangeReference(RangeId(written.id), 3, LIVE)]
    assert bench.judge().live_references == 2

    def blind(data: bytes, *, expected_count: int | None) -> RangeHashes:
        read = read_range_hashes(data, expected_count=expected_count)
        return replace(read, hashes=read.hashes[lost:], sizes=read.sizes[lost:])

    monkeypatch.setattr("lakesweep.collector.lakefs.references.read_range_hashes", blind)
    with pytest.raises(UnsafeToSweepError, match="2 entries inside") as caught:
        bench.judge()
    assert caught.value.kind == "not-conserved"
