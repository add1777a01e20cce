"""Backup and restore: copy what a mark names out of the namespace, or back into it.

Both can be given again after they stopped: what is there already, and the same, is not copied twice. A restore writes
its event before its first copy: from then on the addresses are as young as the restore, also when it is killed half-way.
When it ends, a second event names what came back, so that marks over committed data see the objects again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.copies.copier import ALREADY_THERE, COPIED, MISSING, CopyRoad
from lakesweep.collector.copies.copy import Copied, copy_parts, refuse_inside
from lakesweep.collector.judge.references import event_order
from lakesweep.collector.lakefs.collect import find_plan, leased_run
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.deletion import ObjectDeletion
from lakesweep.collector.lakefs.marks import is_untouched, mark_files
from lakesweep.collector.lakefs.paths import OWN, RunFolder, events_folder, mark_folder
from lakesweep.collector.lease import Lease
from lakesweep.collector.parts import Part, PartWriter, sum_of, tally_of
from lakesweep.collector.phases import Phases
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import BACKUP, RESTORE, RunRecord, RunStatus
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.run_files import RunId
from lakesweep.collector.target import Target
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Engine
from lakesweep.errors import ConfigError, StorageError
from lakesweep.formats.tables import MARK_SCHEMA, read_mark
from lakesweep.formats.xid import new_xid
from lakesweep.storage import ObjectStore

_COPIES_FAILED = "copies-failed"


@dataclass(frozen=True, slots=True)
class CopyRun:
    """One backup or restore: whose objects, which of them, and where they lie outside the namespace."""

    repository: str
    outside: Target
    marks: Target  # where the list lies; its parts' keys are relative to it
    parts: Sequence[Part]
    mark: str
    mark_id: str = ""
    what: str = ""
    is_namespace_typed: bool = False  # by a person, where no server was asked


def run_backup(context: RunContext, mark: str, to: Target) -> RunRecord:
    """Copy what a mark names to a location outside the namespace; every copy is verified."""
    return _run_of_mark(context, BACKUP, mark, to)


def run_restore(
    context: RunContext, mark: str, source: Target, addresses: Collection[str] = ()
) -> RunRecord:
    """Put what a mark names, or only some of it, back under the same addresses; every copy is verified."""
    return _run_of_mark(context, RESTORE, mark, source, addresses)


def _run_of_mark(
    context: RunContext, flow: str, mark: str, outside: Target, addresses: Collection[str] = ()
) -> RunRecord:
    target = context.resources.target
    refuse_inside(target.namespace, outside.namespace)
    context.resources.engine.begin()
    with leased_run(context, flow) as lease:
        plan = find_plan(context, mark, lease)
        run = CopyRun(
            repository=context.name,
            outside=outside,
            marks=target,
            parts=_planned_parts(context.store, plan),
            mark=context.store.root.child(mark_folder(plan.mark_id)).uri,
            mark_id=plan.mark_id,
            what=plan.what,
        )
        return run_copy(context.resources, run, flow, addresses, store_time=lease.renew)


def run_listed(
    flow: str,
    engine: Engine,
    phases: Phases,
    lists: Target,
    namespace: Target,
    outside: Target,
) -> RunRecord:
    """A backup or restore of any list of addresses, without a server: the spark-submit jobs."""
    refuse_inside(namespace.namespace, outside.namespace)
    name = namespace.namespace.uri
    with Lease(
        namespace.open(), name, flow, folder=OWN, process_tree=lambda: engine.process_tree
    ) as lease:
        parts = list_parts(lists.open(), "")
        if not parts and lists.namespace.key.endswith(".parquet"):
            # One file instead of a folder: its key is read from the folder it lies in.
            folder, _, file = lists.namespace.key.rpartition("/")
            lists = replace(lists, namespace=replace(lists.namespace, key=folder))
            parts = list_parts(lists.open(), file)
        if not parts:
            raise ConfigError(
                f"There is no list of objects in {lists.namespace.uri}: it holds no Parquet file. Nothing was copied.",
                kind="no-mark",
            )
        run = CopyRun(
            name, outside, lists, parts, mark=lists.namespace.uri, is_namespace_typed=True
        )
        resources = Resources(namespace, engine, phases, utc_now)
        return run_copy(resources, run, flow, store_time=lease.renew)


def run_copy(
    resources: Resources,
    run: CopyRun,
    flow: str,
    addresses: Collection[str] = (),
    *,
    store_time: Callable[[], datetime] | None = None,
) -> RunRecord:
    """Copy from the namespace to the outside (BACKUP) or back (RESTORE); `addresses` names some of the mark alone.

    `store_time` tells the store's clock, and raises where the lease was lost.
    """
    copying = _Copying(resources, run, flow, store_time or resources.clock)
    return copying.run(copying.choose(addresses) if addresses else run.parts)


class _Copying:
    """One copy run under way."""

    def __init__(
        self, resources: Resources, run: CopyRun, flow: str, store_time: Callable[[], datetime]
    ) -> None:
        self._resources, self._run, self._flow = resources, run, flow
        self._store_time = store_time
        self._namespace = resources.target
        self._marks = run.marks
        started_at = resources.clock()
        self._folder = RunFolder(RunId(f"{flow}-{new_xid(started_at)}"))
        self._record = RunRecord(
            repository=run.repository,
            run_id=self._folder.run_id,
            mark_id=run.mark_id,
            what=run.what,
            flow=flow,
            status=RunStatus.FAILED,
            started_at=started_at,
            mark=run.mark,
        )

    def choose(self, addresses: Collection[str]) -> list[Part]:
        """Parts of these addresses alone, each of which the mark must name."""
        wanted = pa.array(sorted(set(addresses)), pa.string())
        store = self._namespace.open()
        writer = PartWriter(store, self._folder.verdicts, "chosen", MARK_SCHEMA)
        found: set[str] = set()
        for part in self._run.parts:
            rows = read_mark(self._run.marks.open().read(part.key))
            some = rows.filter(pc.is_in(rows.column("address"), value_set=wanted))
            found.update(some.column("address").to_pylist())
            writer.add(some)
        unknown = sorted(set(addresses) - found)
        if unknown:
            raise ConfigError(
                f"The mark {self._run.mark_id or self._run.mark} does not name {unknown[0]}. Nothing was copied.",
                kind="not-in-mark",
            )
        self._marks = self._namespace
        return writer.close()

    def run(self, parts: Sequence[Part]) -> RunRecord:
        """Copy, tell the events what shall come back and what did, and write the record."""
        source, target = self._namespace, self._run.outside
        if self._flow == RESTORE:
            source, target = target, source
            self._promise(parts)
            # Whoever takes the lease over from here on reads the promise before it deletes.
            self._store_time()
        with self._resources.phases.phase(self._flow) as step:
            # Whether names at the root are data was decided by the mark; to copy one too many harms nobody.
            own_folder, why_not = self._namespace, ObjectDeletion(root_names=True).why_not
            road = CopyRoad(self._marks, source, target, own_folder, self._folder.verdicts, why_not)
            copied = copy_parts(self._resources.engine, road, parts)
            step.handled(tally_of(copied.verified))
            step.said = ", ".join(f"{t.objects} {o}" for o, t in copied.tallies.items())
        if self._flow == RESTORE:
            self._tell_restored(copied.verified)
        return self._finished(copied, parts)

    def _promise(self, parts: Sequence[Part]) -> None:
        """Make it durable that these addresses come back now, before any of them does."""
        marks = self._marks.open()
        writer = PartWriter(self._namespace.open(), self._events, "promised", MARK_SCHEMA)
        for part in parts:
            writer.add(read_mark(marks.read(part.key)))
        writer.close()

    def _tell_restored(self, parts: Sequence[Part]) -> None:
        # Tasks have written the rows: copied within the store, they need not pass through the driver.
        store, folder = self._namespace.open(), self._events
        for part in parts:
            store.copy(part.key, folder + part.key.rsplit("/", 1)[-1])

    @property
    def _events(self) -> str:
        """The folder of a restore's event as of now. By the store's clock, which tells a run how young that is."""
        return events_folder(event_order(self._store_time()), "restored", self._folder.run_id)

    def _finished(self, copied: Copied, parts: Sequence[Part]) -> RunRecord:
        missing = copied.tally(MISSING)
        # A backup of what is gone already has nothing to save; a restore of it has nothing to bring back.
        # But where nothing at all is found in a namespace that somebody typed, it may be the wrong one.
        is_elsewhere = self._run.is_namespace_typed and missing.objects == copied.objects > 0
        gone = Tally() if self._flow == RESTORE or is_elsewhere else missing
        failed = copied.failed + missing - gone
        reason = copied.why_failed
        if self._flow == RESTORE and missing.objects:
            lost = f"missing in {self._run.outside.namespace.uri}: {copied.examples[MISSING]}"
            reason = "; ".join(filter(None, (reason, lost)))
        elif is_elsewhere:
            there = self._namespace.namespace.uri
            reason = f"none of them is in {there}: is that their storage namespace?"
        counted = {
            "garbage": tally_of(parts),
            "copied": copied.tally(COPIED),
            "already_there": copied.tally(ALREADY_THERE),
            "already_gone": gone,
            "failed": failed,
        }
        done = RunStatus.BACKED_UP if self._flow == BACKUP else RunStatus.RESTORED
        status = RunStatus.FAILED if failed.objects else done
        kind = _COPIES_FAILED if failed.objects else ""
        record = replace(
            self._resources.ended(self._record.tallied(counted), status, reason, kind),
            failures={"failed": reason} if reason else {},
        ).noted(f"{'to' if self._flow == BACKUP else 'from'} {self._run.outside.namespace.uri}")
        self._resources.save_record(self._folder.record, record)
        if failed.objects:
            raise StorageError(
                f"{failed.objects} of {counted['garbage'].objects} objects could not be copied ({reason}). The others "
                f"are there and verified, nothing was deleted. Give the {self._flow} again to go on.",
                kind=_COPIES_FAILED,
            )
        return record


def _planned_parts(store: ObjectStore, plan: Plan) -> list[Part]:
    if is_untouched(store, plan):
        return list(plan.files)
    # Somebody changed the files: what lies there now is copied, row by row, and harms nobody.
    return list_parts(store, mark_folder(plan.mark_id))


def list_parts(store: ObjectStore, folder: str) -> list[Part]:
    """The Parquet files of a list of addresses, with what they hold."""
    parts = []
    for key in mark_files(store, folder):
        rows = read_mark(store.read(key))
        parts.append(Part(key, rows.num_rows, sum_of(rows, "size_bytes")))
    return parts
