"""The marks of a repository: the folder of Parquet files that each leaves, and the plan that it made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.collector.lakefs.paths import RunFolder, mark_folder, mark_record
from lakesweep.collector.parts import Part
from lakesweep.collector.plan import Plan, PlannedFile, decode_plan, planned_files
from lakesweep.collector.record import RunRecord
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.errors import ConfigError, FormatError, ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.tables import MARK_SCHEMA
from lakesweep.json_text import parse_json
from lakesweep.storage import ObjectStore


def write_mark(
    store: ObjectStore, mark_id: MarkId, parts: Sequence[Part]
) -> tuple[PlannedFile, ...]:
    """Put the garbage parts into the mark's folder, and nothing else: attempts of tasks that did not count stay behind."""
    folder = mark_folder(mark_id)
    copies = []
    for number, part in enumerate(parts):
        copies.append(replace(part, key=f"{folder}part-{number:05d}.parquet"))
        store.copy(part.key, copies[-1].key)
    if not copies:
        # An empty mark is a mark: whoever reads the folder finds the columns and no rows.
        copies.append(Part(f"{folder}part-00000.parquet", 0, 0))
        sink = pa.BufferOutputStream()
        pq.write_table(MARK_SCHEMA.empty_table(), sink)
        store.write(copies[0].key, sink.getvalue().to_pybytes())
    return planned_files(store, copies)


def mark_files(store: ObjectStore, folder: str) -> list[str]:
    """Keys of the files that name objects in a mark's folder."""
    return [key for key in store.keys(folder) if key.endswith(".parquet")]


def save_plan(store: ObjectStore, plan: Plan) -> None:
    """Make the plan durable; the mark's own record comes last, so that a mark without it is not finished."""
    store.write(RunFolder(plan.run_id).plan, plan.encode())
    store.write(
        mark_record(plan.mark_id),
        json.dumps({"run_id": plan.run_id, "plan_id": plan.id}).encode(),
    )


def load_plan(store: ObjectStore, repository: str, mark_id: MarkId) -> Plan:
    """The plan of a mark of this repository."""
    try:
        found = parse_json(store.read(mark_record(mark_id)))
        run_id, plan_id = RunId(found["run_id"]), str(found["plan_id"])
        data = store.read(RunFolder(run_id).plan)
    except ObjectNotFoundError as error:
        raise ConfigError(
            f"There is no finished mark {mark_id!r} in {repository}. Nothing was deleted. `lakesweep runs list` shows the marks.",
            kind="no-mark",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"The record of mark {mark_id} can't be read ({error}). Nothing was deleted. Mark again.",
            kind="bad-plan",
        ) from error
    plan = decode_plan(data, f"of mark {mark_id}")
    # Files may be copied by hand from one mark to another: each says whose it is.
    if (plan.mark_id, plan.id) != (mark_id, plan_id):
        raise FormatError(
            f"The record of mark {mark_id} names the plan of another mark ({plan.mark_id}). Nothing was deleted. Mark again.",
            kind="bad-plan",
        )
    if plan.repository != repository or plan.namespace != store.root.uri:
        raise UnsafeToSweepError(
            f"Mark {mark_id} was made for {plan.repository} at {plan.namespace}, not for {repository} at {store.root.uri}. "
            "Nothing was deleted.",
            kind="other-repository",
        )
    return plan


def refuse_used_mark(store: ObjectStore, repository: str, mark_id: MarkId) -> None:
    """Refuse a mark id whose folder holds anything, of a finished mark or not."""
    if any(batch.num_rows for batch in store.list(mark_folder(mark_id))):
        raise ConfigError(
            f"The mark id {mark_id!r} is in use in {repository}. Nothing was touched. Choose another one.",
            kind="mark-id-used",
        )


def mark_is_finished(store: ObjectStore, mark_id: MarkId) -> bool:
    """Whether a mark came to its end; only then does it have a record of its own."""
    return store.find(mark_record(mark_id)) is not None


def is_untouched(store: ObjectStore, plan: Plan) -> bool:
    """Whether the mark's folder holds exactly the files that the plan wrote."""
    # A file too many counts as well: its rows were never measured, nor confirmed.
    listed = {
        key: etag
        for batch in store.list(mark_folder(plan.mark_id))
        for key, etag in zip(
            batch.column("key").to_pylist(), batch.column("etag").to_pylist(), strict=True
        )
    }
    return {key: etag or "" for key, etag in listed.items()} == {f.key: f.etag for f in plan.files}


def refuse_failed(record: RunRecord) -> None:
    """Refuse to sweep a mark that did not come to its end, whatever files it has left."""
    if not record.plan_id:
        raise ConfigError(
            f"The mark of run {record.run_id} of {record.repository} was not finished ({record.reason}). Nothing was deleted. "
            "Mark again.",
            kind="no-mark",
        )
