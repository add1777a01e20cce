"""A third catalog: a folder with objects, and beside it Parquet files that name those which are live.

It shows that a catalog is an adapter. Mark, plan, blast radius, re-verified sweep, ledger, resume, backup and record come from
the shared collector; what stands here is only what this catalog answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.catalog import Authorised, SweepTexts, SweptCatalog
from lakesweep.collector.guards import confirmation_of
from lakesweep.collector.judge import candidates, columns, meeting, references, row_format
from lakesweep.collector.judge.candidates import CandidatePart, candidate_cells, read_needed
from lakesweep.collector.judge.references import CANARY, GONE, LIVE, ReferenceCells
from lakesweep.collector.lease import Lease
from lakesweep.collector.ledger.deleting import KeyDeletion
from lakesweep.collector.listing import ListedStore, Piece, list_objects
from lakesweep.collector.mark import Found, MarkedCatalog, find_garbage
from lakesweep.collector.parts import Part, read_addresses, read_part
from lakesweep.collector.plan import Plan, decode_plan, planned_files, planned_parts
from lakesweep.collector.record import RunRecord, RunStatus, decode_record
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.resources import Resources
from lakesweep.collector.run_files import MarkId, RunFiles, RunId
from lakesweep.collector.sweep import Sweep
from lakesweep.collector.sweep_progress import KeptRows
from lakesweep.collector.target import Target
from lakesweep.domain.verdicts import Verdict
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.tables import MARK_SCHEMA
from lakesweep.storage import ObjectStore

OBJECTS, LIVE_LISTS = "objects/", "live/"


@dataclass(frozen=True, slots=True)
class NameList:
    """Names of objects in a Parquet file, or canaries that the driver holds itself."""

    name: str
    kind: int
    names: tuple[str, ...] = ()

    def read(self, store: ObjectStore) -> pa.Array:
        if self.kind == CANARY:
            return pa.array(self.names, pa.string())
        found = list(read_addresses(read_needed(store, self.name), self.name))
        return pa.chunked_array(found, pa.string()).combine_chunks()


def read_lists(
    target: Target, partitions: int, items: Iterator[NameList]
) -> Iterator[pa.RecordBatch]:
    """Work function: hashes of what the lists name."""
    cells = ReferenceCells(partitions, references.counts_schema())
    for item in items:
        names = item.read(target.open())
        hashes = hash_addresses(names)
        cells.count(item.name, item.kind, len(hashes), entries=len(names))
        if item.kind == GONE:
            yield from cells.add_events(GONE, hashes, order=0)
        else:
            yield from cells.add(item.kind, hashes)
    yield from cells.flush()


class ObjectRows(row_format.RowFormat):
    """Rows of objects. Nothing outside their folder may go."""

    schema = pa.schema([*MARK_SCHEMA, pa.field("source", pa.int8(), nullable=False)])

    def protections(self, rows: pa.Table, is_held: row_format.Mask) -> pa.Array:
        is_object = pc.starts_with(rows.column("address").combine_chunks(), OBJECTS)
        return pc.if_else(is_object, "", "no object")

    def written(self, rows: pa.Table, is_expired: row_format.Mask) -> pa.Table:
        return rows.select(MARK_SCHEMA.names)


def read_rows(
    target: Target, partitions: int, parts: Iterator[CandidatePart]
) -> Iterator[pa.RecordBatch]:
    """Work function: rows of listed or planned objects."""

    def rows_of(part: CandidatePart) -> Iterator[tuple[pa.RecordBatch, Mapping[str, int]]]:
        for batch in read_part(read_needed(target.open(), part.key), MARK_SCHEMA, part.key):
            source = pa.array(np.full(batch.num_rows, part.source, dtype=np.int8))
            yield pa.RecordBatch.from_arrays([*batch.columns, source], schema=ObjectRows.schema), {}

    return candidate_cells(
        parts,
        rows_of,
        lambda rows: hash_addresses(rows.column("address")),
        partitions,
        bytes_per_row=100,
        counts=candidates.counts_schema(),
    )


class ObjectDeletion(KeyDeletion):
    """Deletes objects by their keys."""

    def why_not(self, name: str) -> str:
        return "" if name.startswith(OBJECTS) else "no object"


class OwnFiles(RunFiles):
    """One run at a time, in one folder."""

    root = "own/"


class ParquetCatalog(MarkedCatalog, SweptCatalog):
    """Answers a mark and a sweep."""

    name, files, is_plan_untouched = "folder", OwnFiles(), True
    kept_outcomes: ClassVar[frozenset[str]] = frozenset()
    slow_step_advice: ClassVar[Mapping[str, str]] = {"delete": "Delete less."}
    texts = SweepTexts("folder", "the plan", "object", "a sweep has begun", "Sweep again.")

    def __init__(self, resources: Resources, min_age: timedelta) -> None:
        self._resources, self._min_age = resources, min_age

    def mark(self) -> RunRecord:
        """Find the garbage and make the plan durable."""
        store, resources = self._resources.store, self._resources
        with Lease(store, self.name, "mark", folder=self.files.root) as lease:
            self._cutoff = (lease.store_time or resources.clock()) - self._min_age
            garbage = find_garbage(self, resources.phases)
        plan = Plan(
            *(self.name, store.root.uri, RunId("run"), MarkId("mark"), "all", self._cutoff),
            *(garbage.totals.live, garbage.tally),
            files=planned_files(store, garbage.settled.garbage),
        )
        store.write(self.files.plan, plan.encode())
        status = RunStatus.MARKED if garbage.tally.objects else RunStatus.NOTHING_TO_DO
        begun = resources.clock()
        record = RunRecord(
            self.name, "run", "mark", "all", "clean", status, begun, plan_id=plan.id
        ).tallied({"live": garbage.totals.live, "garbage": garbage.tally})
        resources.save_record(self.files.record, record)
        return record

    def sweep(self, request: SweepRequest) -> RunRecord:
        """Sweep what was marked, or go on with a sweep that was interrupted."""
        store = self._resources.store
        plan = decode_plan(store.read(self.files.plan), "of the folder")
        record = decode_record(store.read(self.files.record), self.files.record)
        self._cutoff, self._parts = plan.cutoff, planned_parts(store, plan)
        self.blast_radius = plan.blast_radius
        request = replace(request, confirm=confirmation_of(plan.id, request.confirm, record))
        with Lease(store, self.name, "sweep", folder=self.files.root) as lease:
            return Sweep(self, self._resources, plan, record, request, lease).run()

    def search(self) -> Found:
        engine, target = self._resources.engine, self._resources.target
        listed, pieces = ListedStore(target, MARK_SCHEMA), [Piece(OBJECTS)]
        found = list_objects(engine, target, self.files.listing, listed, pieces)
        judged = self._judge(candidates.listed_parts(found.parts))
        return Found(judged, judged.garbage, found.listed, found.protected)

    def look_again(self, before: Sequence[Part] | None) -> Authorised:
        judged = self._judge(candidates.planned_parts(self._parts if before is None else before))
        refused = judged.tallies[Verdict.YOUNG] + judged.tallies[Verdict.PROTECTED]
        kept = KeptRows(judged.tallies[Verdict.LIVE], tuple(judged.kept), refused=refused)
        return Authorised(judged.garbage, judged.tallies[Verdict.GONE], kept)

    def deleter(self) -> KeyDeletion:
        return ObjectDeletion()

    def _judge(self, parts: Sequence[CandidatePart]) -> meeting.Judged:
        store, target = self._resources.store, self._resources.target
        items = [NameList(key, LIVE) for key in store.keys(LIVE_LISTS)]
        canaries = [str(name) for one in items for name in one.read(store)[:1].to_pylist()]
        items += [NameList(key, GONE) for key in store.keys(self.files.gone)]
        items.append(NameList("canaries", CANARY, tuple(canaries)))
        rows = sum(part.rows or 0 for part in parts)
        return meeting.judge_all(
            self._resources.engine,
            meeting.ReferenceSide(items, lambda n: partial(read_lists, target, n), 4),
            meeting.CandidateSide(parts, lambda n: partial(read_rows, target, n), rows, 4),
            columns.Judge(
                ObjectRows(), target, self.files.verdicts, self._cutoff, keep_live_rows=True
            ),
            meeting.Canaries(canaries, lambda name: UnsafeToSweepError(f"{name} came out dead.")),
        )
