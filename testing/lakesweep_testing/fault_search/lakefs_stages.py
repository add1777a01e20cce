"""Runs on a lakeFS repository: of the embedded lake, and of a server that promises no more than a real one."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.transport import Timeouts
from lakesweep.collector.lakefs.backup_restore import run_backup, run_restore
from lakesweep.collector.lakefs.between_runs.history import list_runs
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.paths import EVENTS, GC
from lakesweep.collector.lakefs.request import Flow
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.target import Target
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.domain.location import Location
from lakesweep.errors import PartlySweptError
from lakesweep.storage.memory import MemoryContainer, memory_container
from lakesweep_testing.embedded import EmbeddedLake
from lakesweep_testing.fault_search.troubles import (
    QUICK,
    Clocks,
    Fault,
    Operation,
    Troubles,
)
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.scene import AGED, Scene, assert_adds_up
from lakesweep_testing.trouble import MeddlingTransport, as_a_real_server

__all__ = ["LAKEFS_RUNS", "LakeStage"]

CLEAN = replace(AGED, flow=Flow.CLEAN)
# Files of collectors, and the one that a server writes anew at every dump of its refs.
_MAY_CHANGE = (f"ns/{GC}", "ns/_lakefs/refs_manifest")
NEARLY_OLD = timedelta(hours=23)  # old by a clock that is hours off


class _Repository(Scene):
    """A scene with a commit that comes back to life, and an object that is nearly old enough."""

    def _write_history(self, each: int) -> None:
        self.garbage["returning"] = self.upload("main", "returning")
        self.returning_commit = self.user.commit("main")
        self.lake.clock.advance(timedelta(days=1))
        self.user.delete("main", "returning")
        self.user.commit("main")
        super()._write_history(each)
        self.put_nearly_old()

    def put_nearly_old(self) -> None:
        key = f"{self.live['base'].rsplit('/', 1)[0]}/bc00000000000000000g"
        self.live["nearly old"] = self.put(key, b"x", days_ago=NEARLY_OLD / timedelta(days=1))

    def change(self) -> None:
        """What users do between two runs: by what was read before, live objects look like garbage."""
        self.user.branch("revived", self.returning_commit)
        self.live["returning"] = self.garbage.pop("returning")
        self.user.commit("main")  # what was staged
        self.user.link("main", "pending", self.pending_uri, 5)

    def make_garbage(self) -> None:
        """Garbage that the last run has not seen, and that is old by now; what was staged is committed."""
        self.user.branch("short-lived", "main")
        for number in range(2):
            self.garbage[f"later-{number}"] = self.upload("short-lived", f"later-{number}")
        self.user.reset("short-lived")
        self.user.commit("main")
        self.user.link("main", "pending", self.pending_uri, 5)
        self.garbage["young"] = self.live.pop("young")
        self.lake.clock.advance(timedelta(days=2))
        self.put_nearly_old()


class LakeStage:
    """One kind of run on a repository."""

    def __init__(self, lake: EmbeddedLake, run: str, *, is_embedded: bool) -> None:
        self.name = f"{'embedded lake' if is_embedded else 'lakeFS server'}: {run}"
        self._act = LAKEFS_RUNS[run]
        self._run = run
        self._clocks = Clocks(lake.clock)
        self._now = Troubles(self._clocks)
        self.mark_id = ""
        self._stack = ExitStack()
        self.scene = _Repository(lake, f"faults-{uuid.uuid4().hex[:12]}", each=2)
        self.scene.container.clock = self._clocks.of("store")
        self._outside = f"outside-{uuid.uuid4().hex[:12]}"
        self.backup = Target(Location.parse(f"mem://{self._outside}/backup"), QUICK)
        kind = MeddlingTransport if is_embedded else as_a_real_server
        self._client = self._stack.enter_context(
            LakeFSClient(
                lake.server.endpoint,
                lake.server.access_key_id,
                lake.server.secret_access_key,
                timeouts=Timeouts(connect=60, read=60),
                retries=2,
                sleep=lambda seconds: time.sleep(min(seconds, 0.0005)),
                http_transport=kind(lambda request, send: self._now.answer(request, send)),
            )
        )
        self._stale: Mapping[str, MemoryContainer] = {}
        self._stale_answers: Mapping[str, httpx.Response] = {}
        self._prepare()

    def close(self) -> None:
        self._stack.close()
        self.scene.close()

    def _prepare(self) -> None:
        """Bring the repository to where the run begins, and keep what was true before the last changes."""
        written = set(self.scene.container.objects)
        before = self.troubles()
        with self._through(before) as context:
            if self._run == "gc, optimised":
                self.mark_id = run_gc(context, AGED, SweepRequest()).mark_id
            else:
                self.mark_id = run_mark(context, AGED).mark_id
        first = MemoryContainer()
        first.objects = dict(self.scene.container.objects)
        self._stale, self._stale_answers = {self.scene.name: first}, before.answers
        if self._run == "gc, optimised":
            self.scene.make_garbage()
        else:
            self.scene.change()
        written |= set(self.scene.container.objects) - set(first.objects)
        garbage = {f"ns/{address}" for address in self.scene.garbage.values()}
        self._written = {k: o.data for k, o in self.scene.container.objects.items() if k in written}
        self._must_stay = {k for k in written - garbage if not k.startswith(_MAY_CHANGE)}
        with self._through(self.troubles()) as context:
            if self._run == "restore":
                run_backup(context, self.mark_id, self.backup)
                run_sweep(context, self.mark_id, SweepRequest())
        if self._run == "resume":
            self._sweep_partly()
        self._kept_outside = dict(memory_container(self._outside).objects)
        self.scene.keep_as_is()
        self._gone_before = self._gone()

    def _sweep_partly(self) -> None:
        """Break off a sweep when it has deleted some, and before it has said so."""
        troubles = self.troubles(Fault.ERROR)
        troubles.at_write = "-gone-"
        try:
            with self._through(troubles) as context:
                run_sweep(context, self.mark_id, SweepRequest())
        except PartlySweptError:
            return
        raise AssertionError("the sweep was not broken off")

    @contextmanager
    def _through(self, troubles: Troubles) -> Iterator[RunContext]:
        self._now = troubles
        with troubles.around():
            yield open_repository(
                self._client,
                self.scene.name,
                QUICK,
                InProcessEngine(),
                margins=SAFETY_FULL,
                clock=self._clocks.of("driver"),
            )

    # -- a run with a fault

    def troubles(self, fault: Fault | None = None, at: int = -1) -> Troubles:
        return Troubles(self._clocks, fault, at, "", self._stale, self._stale_answers)

    def rewind(self) -> None:
        self.scene.rewind()
        outside = memory_container(self._outside)
        outside.objects.clear()
        outside.objects.update(self._kept_outside)

    def act(self, troubles: Troubles) -> RunRecord:
        with self._through(troubles) as context:
            return self._act(self, context)

    def may_go_unseen(self, operation: Operation) -> bool:
        is_of_data = operation.name == "" or operation.name.startswith("data/")
        return operation.kind in ("list", "folder", "first-key") and is_of_data

    def deleted(self) -> set[str]:
        return self._gone() - self._gone_before

    def _gone(self) -> set[str]:
        return set(self.scene.garbage) - self.scene.left()

    def loss(self) -> str:
        objects = self.scene.container.objects
        for key in self._must_stay:
            if key not in objects:
                return f"{key} is gone"
            if objects[key].data != self._written[key]:
                return f"{key} was changed"
        return ""

    def wrong(self, record: RunRecord | None) -> str:
        assert record is not None
        if record.status is not _GOOD_END[self._run]:
            return f"the record says {record.status}"
        scene, expected = self.scene, set(self.scene.garbage)
        if self._run == "mark":
            named, expected = scene.marked(record.mark_id), set()
            if named != set(scene.garbage.values()):
                return f"the mark names {sorted(named)}"
        if self._run in ("backup", "restore"):
            expected = set()
        if self._run in ("backup", "gc with backup") and (missing := self._not_copied()):
            return f"not copied: {missing}"
        if self._gone() != expected:
            return f"gone: {sorted(self._gone())}, expected: {sorted(expected)}"
        if self._run in _DELETING:
            try:
                assert_adds_up(record)
            except AssertionError as error:
                return f"does not add up: {error}"
            told = record.objects["deleted"] + record.objects["already_gone"]
            found = len(expected) - (len(self._gone_before) if self._run != "resume" else 0)
            if told != found:
                return f"{found} were deleted, the record says {told}"
            on_record = self._on_record()
            untold = {n for n in expected if scene.garbage[n] not in on_record}
            return f"not in the ledger: {untold}" if untold else ""
        return ""

    def _not_copied(self) -> set[str]:
        copies = memory_container(self._outside).objects
        return {
            name
            for name, address in self.scene.garbage.items()
            if f"backup/{address}" not in copies
            or copies[f"backup/{address}"].data != self._written[f"ns/{address}"]
        }

    def _on_record(self) -> set[str]:
        """Every address that an event names as deleted."""
        # A request that was given up may still arrive, and writes while this reads.
        objects = list(self.scene.container.objects.items())
        return {
            address
            for key, stored in objects
            if key.startswith(f"ns/{EVENTS}") and "-gone-" in key and key.endswith(".parquet")
            for address in pq.read_table(pa.BufferReader(stored.data)).column("address").to_pylist()
        }

    def ledger_lies(self) -> str:
        if self._run == "restore":
            return ""  # what was deleted is back
        there = self._on_record() & self.scene.present_keys()
        return f"on record as deleted, and there: {sorted(there)}" if there else ""

    def recover(self) -> str:
        scene = self.scene
        scene.release_lease()
        with self._through(self.troubles()) as context:
            if self._run in ("backup", "restore"):
                return self.wrong(self._act(self, context))
            for run in list_runs(context.store):
                if isinstance(run, RunRecord) and run.status is RunStatus.PARTLY_SWEPT:
                    to = self.backup.namespace if run.backup_to else None
                    resumed = run_resume(context, run.run_id, SweepRequest(backup_to=to))
                    if resumed.status is not RunStatus.SWEPT:
                        return f"resumed: {resumed.status}"
            run_gc(context, CLEAN, SweepRequest())
        return f"left: {sorted(scene.left())}" if scene.left() else self.ledger_lies()


_Act = Callable[[LakeStage, RunContext], RunRecord]


def _gc(stage: LakeStage, context: RunContext) -> RunRecord:
    return run_gc(context, AGED, SweepRequest())


def _gc_with_backup(stage: LakeStage, context: RunContext) -> RunRecord:
    return run_gc(context, AGED, SweepRequest(backup_to=stage.backup.namespace))


LAKEFS_RUNS: Mapping[str, _Act] = {
    "mark": lambda stage, context: run_mark(context, AGED),
    "sweep": lambda stage, context: run_sweep(context, stage.mark_id, SweepRequest()),
    "gc": _gc,
    "gc, optimised": _gc,
    "gc with backup": _gc_with_backup,
    "resume": lambda stage, context: run_resume(context, stage.mark_id, SweepRequest()),
    "backup": lambda stage, context: run_backup(context, stage.mark_id, stage.backup),
    "restore": lambda stage, context: run_restore(context, stage.mark_id, stage.backup),
}
_DELETING = ("sweep", "gc", "gc, optimised", "gc with backup", "resume")
_GOOD_END = {
    "mark": RunStatus.MARKED,
    **dict.fromkeys(_DELETING, RunStatus.SWEPT),
    "backup": RunStatus.BACKED_UP,
    "restore": RunStatus.RESTORED,
}
