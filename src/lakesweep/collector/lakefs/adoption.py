"""Marks of older clients, named by their path: taken over as marks of ours, so that a sweep re-verifies every row."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime

import pyarrow as pa

from lakesweep.collector.lakefs.marks import mark_files, mark_is_finished, save_plan, write_mark
from lakesweep.collector.lakefs.paths import GC, RunFolder, mark_folder
from lakesweep.collector.lakefs.request import What
from lakesweep.collector.parts import PartWriter, tally_of
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import RunRecord, RunStatus, encode_record
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.collector.target import Target
from lakesweep.domain.cutoff import Cutoff
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ConfigError
from lakesweep.formats.tables import MARK_SCHEMA, read_mark
from lakesweep.storage import ObjectStore

_OWN_MARK = re.compile(rf"{re.escape(GC)}addresses/mark_id=([A-Za-z0-9_-]{{1,128}})/")


def is_path(mark: str) -> bool:
    """Whether a user's `--mark-id` names a folder and not a mark."""
    return "/" in mark


def folder_of(target: Target, repository: str, path: str) -> str:
    """The folder inside the namespace that a path or URI names, ending in "/"."""
    if ":" in path.split("/", 1)[0]:
        location = Location.parse(path, namespace_root=target.namespace_root)
        relative = target.namespace.relative(location)
    else:
        relative = path.strip("/")
    if relative is None or not relative.startswith(GC.rstrip("/")):
        raise ConfigError(
            f"{path} is not a folder below {GC} of {repository} ({target.namespace.uri}), where marks lie. "
            "Nothing was deleted.",
            kind="bad-mark-path",
        )
    return relative.rstrip("/") + "/"


def own_mark(store: ObjectStore, folder: str) -> MarkId | None:
    """The mark of ours that lies in the folder; None when an older client wrote it, or nobody."""
    match = _OWN_MARK.fullmatch(folder)
    if match is None:
        return None
    mark_id = MarkId(match[1])
    return mark_id if mark_is_finished(store, mark_id) else None


def adopted_id(store: ObjectStore, folder: str) -> MarkId:
    """The mark id under which a folder is taken over: the same for as long as nobody writes its files anew."""
    # An older client that is told its mark's id writes every mark into one folder.
    written = [
        (key, info.etag, str(info.last_modified))
        for key, info in store.stat_many(mark_files(store, folder))
        if info is not None
    ]
    content = json.dumps([folder, *written]).encode()
    name = re.sub(r"[^A-Za-z0-9_-]", "-", folder.rstrip("/").rsplit("/", 1)[-1])[:80]
    return MarkId(f"adopted-{name}-{hashlib.sha256(content).hexdigest()[:8]}")


def adopt_mark(
    store: ObjectStore, repository: str, folder: str, cutoff: Cutoff, now: datetime
) -> Plan:
    """Copy the addresses into a mark of ours. Only addresses are believed: age and size are asked of the store.

    The share of the lake that such a mark would delete is not known, so one of more than 1,000 objects or 10 GiB has to
    be confirmed by its plan id.
    """
    mark_id = adopted_id(store, folder)
    run_id = RunId(mark_id)
    writer = PartWriter(store, RunFolder(run_id).verdicts, "adopted", MARK_SCHEMA)
    files = mark_files(store, folder)
    if not files:
        raise ConfigError(
            f"There is no mark in {folder} of {repository}: it holds no Parquet file. Nothing was deleted.",
            kind="no-mark",
        )
    for key in files:
        writer.add(_addresses_only(read_mark(store.read(key))))
    parts = writer.close()
    garbage = Tally(tally_of(parts).objects, 0)
    plan = Plan(
        repository=repository,
        namespace=store.root.uri,
        run_id=run_id,
        mark_id=mark_id,
        what=What.COMMITTED.value,
        cutoff=cutoff.at,
        live=Tally(),  # nobody has looked, so the share counts as all of it
        garbage=garbage,
        min_age_seconds=cutoff.min_age.total_seconds(),
        files=write_mark(store, mark_id, parts),
    )
    record = RunRecord(
        repository=repository,
        run_id=run_id,
        mark_id=mark_id,
        plan_id=plan.id,
        what=plan.what,
        flow="adopted",
        status=RunStatus.MARKED if garbage.objects else RunStatus.NOTHING_TO_DO,
        started_at=now,
        cutoff=cutoff.at,
        min_age_seconds=plan.min_age_seconds,
        mark=store.root.child(mark_folder(mark_id)).uri,
        notes=(f"an older client's mark, taken over from {folder}",),
    ).counted({"garbage": garbage.objects}, {})
    store.write(RunFolder(run_id).record, encode_record(record))
    # Last: until the plan is there, the next call takes the folder over anew.
    save_plan(store, plan)
    return plan


def _addresses_only(rows: pa.Table) -> pa.Table:
    unknown = [pa.nulls(rows.num_rows, column.type) for column in list(MARK_SCHEMA)[1:]]
    return pa.table([rows.column("address"), *unknown], schema=MARK_SCHEMA)
