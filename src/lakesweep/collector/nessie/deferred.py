"""Delete the files that an earlier expiry recorded, after judging every one of them again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial

import pyarrow as pa

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.collector.lakefs.context import refuse_long_requests
from lakesweep.collector.lakefs.paths import MarkId, RunId
from lakesweep.collector.lease import Lease
from lakesweep.collector.nessie.ages import newest_recorded
from lakesweep.collector.nessie.catalog_now import CatalogNow
from lakesweep.collector.nessie.clocks import assert_stores_agree
from lakesweep.collector.nessie.context import NessieContext, SetFolder
from lakesweep.collector.nessie.list_folders import FILE_SCHEMA, FoundTable, find_tables
from lakesweep.collector.nessie.live_catalog import (
    read_grounds,
    read_newly_live,
    refuse_bad_manifests,
)
from lakesweep.collector.nessie.plan import find_plan
from lakesweep.collector.nessie.records import (
    DEFERRED,
    NOT_REVERIFIED,
    find_record,
    finished,
    new_record,
    save_record,
    with_notices,
    with_places,
    with_sweep,
)
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.nessie.same_catalog import assert_same_catalog
from lakesweep.collector.nessie.sweep import FileSweep, Swept, partly_swept, refuse_incomplete
from lakesweep.collector.parts import Part, PartWriter
from lakesweep.collector.plan import Plan, PlannedFile
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.unfinished import status_after
from lakesweep.domain.live_sets import DeferredFile, LiveSet, LiveSetStatus
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ConfigError, LakesweepError, foreign_errors_as_ours

FLOW = "deferred-deletes"
_ROWS_PER_BATCH = 10_000

_Row = tuple[str, None, datetime | None, None]


def delete_deferred(
    context: NessieContext, request: ExpireRequest, client: NessieClient | None = None
) -> RunRecord:
    """Delete what is recorded, still there as it was, and still garbage.

    The list may be old, made by nessie-gc or changed by hand: each file is judged again by the set's contents and, with
    a client, by what Nessie says now.
    """
    refuse_long_requests(context.storage, context.margins)
    context = replace(context, files_in_flight=request.files_in_flight)
    live_set = context.live_sets.get(request.live_set_id)
    if live_set.status is not LiveSetStatus.EXPIRY_SUCCESS:
        raise ConfigError(
            f"Live set {live_set.id} is {live_set.status}, and files are recorded only by an expiry that finished "
            f"({LiveSetStatus.EXPIRY_SUCCESS}). Nothing was deleted. Run `expire --defer-deletes` first.",
            kind="wrong-status",
        )
    facts = context.live_sets.facts(live_set.id)
    notes = []
    if client is not None:
        is_moved = request.is_catalog_moved
        notes = assert_same_catalog(client, context.live_sets, live_set, facts, is_moved=is_moved)
    earlier = find_record(context, live_set)
    cutoff = newest_recorded(live_set, facts, request, earlier.cutoff if earlier else None)
    record = new_record(context, live_set, facts, FLOW, cutoff).noted(*notes)
    found = read_grounds(context, live_set, facts, request)
    record = with_places(with_notices(record, found.grounds.live), found.collected)
    folder = SetFolder(live_set.id)
    purpose = f"deferred deletes of {live_set.id}"
    swept = Swept()
    lease = Lease(
        context.store,
        purpose,
        purpose,
        folder=folder.root,
        process_tree=lambda: context.engine.process_tree,
    )
    with lease:
        bases = [base.location for base in found.grounds.bases]
        rows = _Recorded(context.live_sets.deferred(live_set.id))
        parts = rows.write(context, folder.listing)
        total = Tally(sum(part.rows for part in parts))
        record = record.counted(
            {"listed": total.objects, "garbage": total.objects, "unreferenced": total.objects}, {}
        )
        if rows.doubtful:
            record = record.noted(
                f"{rows.doubtful} recorded paths could mean other files than those listed, and were left alone: "
                f"{rows.example}"
            )
        catalog = None
        if client is None:
            record = record.noted(NOT_REVERIFIED)
        else:
            catalog = CatalogNow(
                client,
                context.live_sets,
                live_set,
                facts,
                found.known,
                lambda states: read_newly_live(context, states, request),
            )
        tables = rows.tables
        plan = _plan(context, live_set, record, rows, total, earlier)
        record = replace(record, plan_id=plan.id)
        begun = replace(
            record, status=RunStatus.PARTLY_SWEPT, reason="deletes began and have not ended"
        )
        sweep = FileSweep(
            context=context,
            live_set_id=live_set.id,
            parts=parts,
            protection=lambda now: found.grounds.protection(tables, now.others, now.files),
            cutoff=cutoff,
            references=found.references(),
            catalog=catalog,
            refuse_bad=partial(
                refuse_bad_manifests, context, found, request, "No further file was deleted."
            ),
            lease=lease,
            compare_clocks=lambda: assert_stores_agree(context, lease, bases, client),
            note_begin=lambda: save_record(context, begun),
        )
        try:
            with foreign_errors_as_ours("No further file was deleted."):
                _check_share(plan, request, earlier)
                sweep.run(swept)
                refuse_incomplete(swept, live_set, FLOW)
        except LakesweepError as error:
            status = RunStatus.PARTLY_SWEPT if swept.may_have_deleted else status_after(error)
            record = finished(context, with_sweep(record, swept), status, error.message)
            save_record(context, record)
            if swept.may_have_deleted:
                raise partly_swept(error, live_set, FLOW) from error
            raise
    record = with_sweep(with_notices(record, found.grounds.live), swept)
    record = _gone_before(record, swept)
    status = RunStatus.SWEPT if total.objects else RunStatus.NOTHING_TO_DO
    record = finished(context, record, status)
    save_record(context, record)
    return record


def _plan(
    context: NessieContext,
    live_set: LiveSet,
    record: RunRecord,
    rows: _Recorded,
    total: Tally,
    earlier: RunRecord | None,
) -> Plan:
    """What the list may delete, made durable. The same list has the same plan id whenever it is read.

    The list tells no sizes, and nothing was listed: what is live beside it, and how large it is, is known from the expiry
    that made it. Of a list that nessie-gc made it is not known, and such a list counts as all there is.
    """
    live, size = Tally(), 0
    measured = find_plan(context, live_set.id)
    if earlier is not None and earlier.flow == DEFERRED:
        live, size = Tally(earlier.objects["live"], earlier.bytes["live"]), earlier.bytes["garbage"]
    elif measured is not None and measured.what == FLOW:
        live, size = measured.live, measured.garbage.bytes
    listed = PlannedFile("deferred", total.objects, size, rows.digest.hexdigest())
    plan = Plan(
        repository=record.repository,
        namespace=context.work.uri,
        run_id=RunId(live_set.id),
        mark_id=MarkId(live_set.id),
        what=FLOW,
        cutoff=record.cutoff or live_set.created,
        live=live,
        garbage=Tally(total.objects, size),
        files=(listed,),
    )
    context.store.write(SetFolder(live_set.id).plan, plan.encode())
    return plan


def _check_share(plan: Plan, request: ExpireRequest, earlier: RunRecord | None) -> None:
    """Refuse a large list that nobody confirmed. One whose deletes have begun was confirmed, or was not large."""
    begun = (RunStatus.PARTLY_SWEPT, RunStatus.SWEPT)
    has_begun = earlier is not None and earlier.plan_id == plan.id and earlier.status in begun
    if has_begun and request.confirm is None:
        return
    command = f"lakesweep nessie {FLOW} --live-set-id {plan.mark_id} --confirm {plan.id}"
    radius = replace(plan.blast_radius, confirming_command=command)
    radius.check_confirmed(request.confirm, request.max_delete_share)


def _gone_before(record: RunRecord, swept: Swept) -> RunRecord:
    """What an earlier call deleted is told apart: a second call must not claim it again."""
    before = swept.done_before.objects
    if not before:
        return record
    objects = record.objects
    return record.counted(
        {
            "deleted": objects["deleted"] - before,
            "already_gone": objects["already_gone"] + before,
        },
        {},
    ).noted(f"{before} files were deleted by an earlier call")


class _Recorded:
    """Streams recorded files into parts, and notices what is odd about them."""

    def __init__(self, files: Iterable[DeferredFile]) -> None:
        self._files = files
        self.digest = hashlib.sha256()
        self.doubtful = 0
        self.example = ""
        self.tables: set[FoundTable] = set()

    def write(self, context: NessieContext, folder: str) -> list[Part]:
        writer = PartWriter(context.store, folder, "deferred", FILE_SCHEMA)
        for batch in self._batches():
            self.tables |= find_tables(batch.column("uri"))
            writer.add(batch)
        return writer.close()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        rows: list[_Row] = []
        for file in self._files:
            if file.is_doubtful:
                self.doubtful += 1
                self.example = self.example or file.path_uri
                continue
            rows.append((file.uri, None, file.modified_at, None))
            self.digest.update(f"{file.uri}\0{file.modified_at}\0".encode())
            if len(rows) == _ROWS_PER_BATCH:
                yield _batch(rows)
                rows = []
        if rows:
            yield _batch(rows)


def _batch(rows: list[_Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), f.type) for column, f in zip(columns, FILE_SCHEMA, strict=True)],
        schema=FILE_SCHEMA,
    )
