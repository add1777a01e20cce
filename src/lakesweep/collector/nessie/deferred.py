"""Delete the files that an earlier expiry recorded, after judging every one of them again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.collector import guards
from lakesweep.collector.nessie.ages import newest_recorded
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.folder_sums import tables_in
from lakesweep.collector.nessie.listing import FILE_SCHEMA, FoundTable, find_tables
from lakesweep.collector.nessie.opening import LiveSetRun, open_live_set
from lakesweep.collector.nessie.places import TableStores, location_of, split_file
from lakesweep.collector.nessie.records import (
    DEFERRED,
    find_plan,
    find_record,
    new_record,
    save_plan,
    with_notices,
)
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.nessie.sweep import SweptLiveSet
from lakesweep.collector.parts import Part, PartWriter
from lakesweep.collector.plan import Plan, PlannedFile
from lakesweep.collector.record import RunRecord
from lakesweep.collector.sweep_progress import SweepProgress
from lakesweep.domain.live_sets import DeferredFile, LiveSetStatus
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import chunked
from lakesweep.errors import (
    ConfigError,
    LakesweepError,
    ObjectNotFoundError,
    StorageDeniedError,
    UnsupportedStoreError,
)
from lakesweep.storage import ObjectStore
from lakesweep.storage.parallel import ordered_parallel

FLOW = "deferred-deletes"
_ROWS_PER_BATCH = 10_000


def delete_deferred(
    context: NessieContext, request: ExpireRequest, client: NessieClient | None = None
) -> RunRecord:
    """Delete what is recorded, still there as it was, and still garbage.

    The list may be old, made by nessie-gc or changed by hand: each file is judged again by the set's contents and, with
    a client, by what Nessie says now.
    """
    opened = open_live_set(context, request, client, FLOW)
    resources, live_set, facts = opened.resources, opened.live_set, opened.facts
    if live_set.status is not LiveSetStatus.EXPIRY_SUCCESS:
        raise ConfigError(
            f"Live set {live_set.id} is {live_set.status}, and files are recorded only by an expiry that finished "
            f"({LiveSetStatus.EXPIRY_SUCCESS}). Nothing was deleted. Run `expire --defer-deletes` first.",
            kind="wrong-status",
        )
    earlier = find_record(resources.store, live_set.id)
    cutoff = newest_recorded(live_set, facts, request, earlier.cutoff if earlier else None)
    record = new_record(live_set, facts, FLOW, cutoff, resources.clock()).noted(*opened.notes)
    found = opened.read_live_catalog()
    record = with_notices(record, found)
    with opened.lease(f"deferred deletes of {live_set.id}") as lease:
        rows = _Recorded(opened.live_sets.deferred(live_set.id))
        parts = rows.write(resources.store, opened.folder.listing)
        total = Tally(sum(part.rows for part in parts))
        record = record.counted(
            {"listed": total.objects, "garbage": total.objects, "unreferenced": total.objects}, {}
        )
        if rows.doubtful:
            record = record.noted(
                f"{rows.doubtful} recorded paths could mean other files than those listed, and were left alone: "
                f"{rows.example}"
            )
        plan = _plan(opened, record, rows, total, earlier)
        # The list may be weeks old, and nessie-gc notes no table of others: what lies there now counts.
        tables = (
            tables_in(opened.reader.table_reader, found.folders.roots) if parts else frozenset()
        )
        swept = _SweptList(opened, found, plan, cutoff, parts, tables | rows.tables)
        confirm = guards.confirmation_of(plan.id, request.confirm, earlier)
        return swept.sweep(record, lease, confirm)


class _SweptList(SweptLiveSet):
    """A list of recorded files that is swept. It stays when its files are gone, and may be swept again."""

    begun = "deletes began and have not ended"

    def concluded(
        self, record: RunRecord, progress: SweepProgress, failure: LakesweepError | None
    ) -> RunRecord:
        """The record, in which what an earlier call deleted is told apart: a second call must not claim it again."""
        record = super().concluded(record, progress, failure)
        before = progress.done_before.objects
        if failure is not None or not before:
            return record
        objects = record.objects
        return record.counted(
            {
                "deleted": objects["deleted"] - before,
                "already_gone": objects["already_gone"] + before,
            },
            {},
        ).noted(f"{before} files were deleted by an earlier call")


def _plan(
    opened: LiveSetRun,
    record: RunRecord,
    rows: _Recorded,
    total: Tally,
    earlier: RunRecord | None,
) -> Plan:
    """What the list may delete, made durable. The same list has the same plan id whenever it is read.

    The list tells no sizes, and nothing was listed: what is live beside it, and how large it is, is known from the expiry
    that made it. Of a list that nessie-gc made it is not known, and such a list counts as all there is; a short one is
    measured.
    """
    store, live_set = opened.resources.store, opened.live_set
    live, size = Tally(), 0
    measured = find_plan(store, live_set.id)
    if earlier is not None and earlier.flow == DEFERRED:
        live, size = Tally(earlier.objects["live"], earlier.bytes["live"]), earlier.bytes["garbage"]
    elif measured is not None and measured.what == FLOW:
        live, size = measured.live, measured.garbage.bytes
    elif total.objects <= guards.SMALL_PLAN_OBJECTS:
        stores = opened.reader.table_reader.stores
        sizes = ordered_parallel(partial(_size_of, stores), rows.first, stores.files_in_flight)
        size = sum(bytes_there for _, bytes_there in sizes)
    listed = PlannedFile("deferred", total.objects, size, rows.digest.hexdigest())
    cutoff = record.cutoff or live_set.created
    return save_plan(store, live_set.id, record.repository, cutoff, live, (listed,), FLOW)


def _size_of(stores: TableStores, uri: str) -> int:
    """The bytes of a file; none where it can't be looked up, as then it can't be deleted either."""
    try:
        folder, name = split_file(location_of(uri))
        found = stores.open(folder).find(name)
    except (ConfigError, ObjectNotFoundError, StorageDeniedError, UnsupportedStoreError):
        return 0
    return found.size if found is not None else 0


class _Recorded:
    """Streams recorded files into parts, and notices what is odd about them."""

    def __init__(self, files: Iterable[DeferredFile]) -> None:
        self._files = files
        self.digest = hashlib.sha256()
        self.doubtful = 0
        self.example = ""
        self.first: list[str] = []  # no more of them than a small plan has
        self.tables: set[FoundTable] = set()

    def write(self, store: ObjectStore, folder: str) -> list[Part]:
        writer = PartWriter(store, folder, "deferred", FILE_SCHEMA)
        for rows in chunked(self._rows(), _ROWS_PER_BATCH):
            batch = pa.RecordBatch.from_pylist(rows, schema=FILE_SCHEMA)
            self.tables |= find_tables(batch.column("uri"))
            writer.add(batch)
        return writer.close()

    def _rows(self) -> Iterator[dict[str, object]]:
        for file in self._files:
            # A delete can't be taken back, and a path with two readings may be somebody else's file.
            if file.is_doubtful:
                self.doubtful += 1
                self.example = self.example or file.path_uri
                continue
            if len(self.first) < guards.SMALL_PLAN_OBJECTS:
                self.first.append(file.uri)
            self.digest.update(f"{file.uri}\0{file.modified_at}\0".encode())
            yield {"uri": file.uri, "last_modified": file.modified_at}
