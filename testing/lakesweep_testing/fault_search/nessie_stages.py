"""Runs on a Nessie catalog of Iceberg tables in memory, whose live sets are in a SQLite file."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.client_properties import ClientProperties
from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy
from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.deferred import delete_deferred
from lakesweep.collector.nessie.expire import expire
from lakesweep.collector.nessie.identify import mark_live
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.phases import Phases
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.domain.live_sets import LiveSetId, LiveSetStatus
from lakesweep.domain.location import Location
from lakesweep.errors import PartlySweptError
from lakesweep.storage.memory import MemoryContainer, memory_container
from lakesweep_testing.embedded import MovableClock
from lakesweep_testing.fault_search.troubles import (
    QUICK,
    Clocks,
    Fault,
    Operation,
    Troubles,
)
from lakesweep_testing.nessie_scene import LONG_AGO, NessieScene, mark_request

__all__ = ["NESSIE_RUNS", "NessieStage"]

POLICY = "1"  # what the last commit of each reference has
NEARLY_OLD = timedelta(hours=22)  # old by a clock that is hours off


class _Catalog(NessieScene):
    """Tables in memory: expired states, orphans, a state that comes back to life, a file that is nearly old enough."""

    def __init__(self, clock: MovableClock) -> None:
        self.name = f"faults-{uuid.uuid4().hex[:12]}"
        self.container = memory_container(self.name)
        self.folder = tempfile.TemporaryDirectory()
        self.database = Path(self.folder.name) / "sets.db"
        super().__init__(Path(self.folder.name), live_sets=self.opened())
        self.live_sets.create_schema(SchemaStrategy.CREATE)
        self.storage = QUICK
        self.clock = clock
        self.written_at = clock() - LONG_AGO
        self.nessie.state.now = self.written_at
        self.returning = self.table("returning")
        self.returning.append("x.parquet")
        self.returning_commit = self.nessie.head()
        self.returning.remove("x.parquet")
        self.orders = self.table("orders")
        self.orders.append("a.parquet", "b.parquet")
        self.orders.remove("a.parquet")
        for number in range(2):
            self.orders.iceberg.write_orphan(f"orphan-{number}.parquet")
        self.view("seen")
        self.kept = {self.orders.iceberg.write_orphan("nearly-old.parquet")}
        self.date_nearly_old()

    def opened(self) -> LiveSetStore:
        """The live sets, in a new process's view of their database."""
        return open_live_sets(f"sqlite:///{self.database}")

    def date_nearly_old(self) -> None:
        for uri in self.kept:
            data = self.container.objects[self.key_of(uri)].data
            before, self.written_at = self.written_at, self.clock() - NEARLY_OLD
            self.write(uri, data)
            self.written_at = before

    def uri(self, name: str) -> str:
        return f"mem://{self.name}/lake/{name}"

    def key_of(self, uri: str) -> str:
        return uri.removeprefix(f"mem://{self.name}/")

    def write(self, uri: str, data: bytes) -> None:
        key = self.key_of(uri)
        stored = self.container.store(key, data)
        self.container.objects[key] = replace(stored, last_modified=self.written_at)

    def files(self) -> set[str]:
        return {
            f"mem://{self.name}/{k}" for k in list(self.container.objects) if k.startswith("lake/")
        }

    def change(self) -> None:
        """What users do between two runs: by what was read before, live files look like garbage."""
        self.clock.advance(timedelta(minutes=30))
        self.nessie.create_branch("revived", hash=self.returning_commit)
        self.orders.append("c.parquet")

    def live(self, *, is_changed: bool) -> set[str]:
        """By the rules: the last state of each table, and that which a branch brought back."""
        files = set(self.kept)
        if is_changed:
            files |= self.returning.live_files(self.returning.states[0])
        for table in (self.orders, self.returning):
            files |= table.live_files(table.states[-1])
        return files | {uri for uri in self.files() if "/seen/" in uri}


class NessieStage:
    """One kind of run on a catalog."""

    def __init__(self, run: str) -> None:
        self.name = f"Nessie: {run}"
        self._run = run
        self._act = NESSIE_RUNS[run]
        clock = MovableClock()
        self._clocks = Clocks(clock)
        self.scene = _Catalog(clock)
        self.scene.container.clock = self._clocks.of("store")
        self._stack = ExitStack()
        self._now = Troubles(self._clocks)
        self._marked = LiveSetId("")
        nessie = self.scene.nessie
        self.client = self._stack.enter_context(
            NessieClient(
                nessie.uri,
                ClientProperties({}),
                retries=2,
                sleep=lambda seconds: None,
                http_transport=httpx.MockTransport(
                    lambda request: self._now.answer(request, nessie.transport.handle_request)
                ),
            )
        )
        self._stale: Mapping[str, MemoryContainer] = {}
        self._stale_answers: Mapping[str, httpx.Response] = {}
        self._prepare()

    def close(self) -> None:
        self._stack.close()
        self.scene.live_sets.close()
        self.scene.folder.cleanup()

    def _prepare(self) -> None:
        """Bring the catalog to where the run begins, and keep what was true before the last changes."""
        scene = self.scene
        before = self.troubles()
        with self._through(before) as context:
            self.live_set_id = self.mark(context)
            if self._run == "deferred deletes":
                expire(context, ExpireRequest(self.live_set_id, defer=True), self.client)
            elif self._run == "gc, again":
                expire(context, ExpireRequest(self.live_set_id), self.client)
        live_at_mark = scene.live(is_changed=False)
        first = MemoryContainer()
        first.objects = dict(scene.container.objects)
        self._stale, self._stale_answers = {scene.name: first}, before.answers
        if self._run == "gc, again":
            # A day later: one more state is cut off, and one more orphan is old.
            scene.clock.advance(timedelta(days=2))
            scene.orders.remove("b.parquet")
            scene.orders.iceberg.write_orphan("later.parquet")
            scene.date_nearly_old()
            self._is_changed = False
        else:
            scene.change()
            self._is_changed = True
        self._must_stay = {
            uri: scene.container.objects[scene.key_of(uri)].data
            for uri in scene.live(is_changed=self._is_changed)
        }
        # By its own mark, what was live then stays; what is live now stays by any.
        kept = live_at_mark if self._run in _BY_EARLIER_MARK else set()
        self._garbage = scene.files() - set(self._must_stay) - kept
        if self._run == "expire, gone on with":
            self._expire_partly()
        self._first_state = dict(scene.container.objects)
        scene.live_sets.close()
        self._first_sets = scene.database.read_bytes()
        self._first_time = scene.clock.now
        self._left_before = self._garbage & scene.files()

    def _expire_partly(self) -> None:
        """Break off an expiry when it has deleted some, and before it has said so."""
        troubles = self.troubles(Fault.ERROR)
        troubles.at_write = "/gone/"
        try:
            with self._through(troubles) as context:
                expire(context, ExpireRequest(self.live_set_id), self.client)
        except PartlySweptError:
            return
        raise AssertionError("the expiry was not broken off")

    def mark(self, context: NessieContext) -> LiveSetId:
        request = mark_request(POLICY, None, context.clock(), False, None)
        marked = mark_live(self.client, context.live_sets, request, Phases("mark"), context.clock)
        self._marked = marked.live_set_id
        return marked.live_set_id

    @contextmanager
    def _through(self, troubles: Troubles) -> Iterator[NessieContext]:
        self._now = troubles
        with troubles.around():
            yield replace(
                self.scene.context(),
                work_location=Location.parse(f"mem://{self.scene.name}/work"),
                clock=self._clocks.of("driver"),
                files_in_flight=1,
            )

    # -- a run with a fault

    def troubles(self, fault: Fault | None = None, at: int = -1) -> Troubles:
        return Troubles(self._clocks, fault, at, "", self._stale, self._stale_answers)

    def rewind(self) -> None:
        scene = self.scene
        scene.container.objects.clear()
        scene.container.objects.update(self._first_state)
        scene.clock.now = self._first_time
        scene.live_sets.close()
        scene.database.write_bytes(self._first_sets)
        scene.live_sets = scene.opened()
        self._marked = self.live_set_id

    def act(self, troubles: Troubles) -> RunRecord | None:
        with self._through(troubles) as context:
            return self._act(self, context)

    def may_go_unseen(self, operation: Operation) -> bool:
        # What a folder does not show, or a look does not find, stays. So does all of a table that is not told of.
        # A head of before, beside the one of now, keeps what it had.
        if operation.kind == "http":
            return self._run == "identify" or "/trees?" in operation.name
        return operation.kind in ("list", "folder", "stat") and self._is_in_lake(operation.name)

    def _is_in_lake(self, name: str) -> bool:
        """Whether a name is one of the tables' store, and not of our own folder, whose names begin with a set's id."""
        return not any(name.startswith(one.id) for one in self.scene.live_sets.all())

    def deleted(self) -> set[str]:
        return self._left_before - self.scene.files()

    def loss(self) -> str:
        objects = self.scene.container.objects
        for uri, data in self._must_stay.items():
            stored = objects.get(self.scene.key_of(uri))
            if stored is None:
                return f"{uri} is gone"
            if stored.data != data:
                return f"{uri} was changed"
        return ""

    def wrong(self, record: RunRecord | None) -> str:
        if record is None:
            return self._wrong_live_set()
        left = self._garbage & self.scene.files()
        if self._run == "expire, deferring":
            recorded = {file.uri for file in self.scene.live_sets.deferred(self.live_set_id)}
            # What became live since the mark is on the list, and taken off it before anything is deleted.
            is_right = record.status is RunStatus.MARKED and recorded - {*self._must_stay} == left
            return "" if is_right else f"{record.status}: recorded {sorted(recorded)}"
        if record.status is not RunStatus.SWEPT:
            return f"the record says {record.status}"
        if left:
            return f"left: {sorted(left)}"
        told = record.objects["deleted"] + record.objects["already_gone"]
        if told != len(self._left_before) and self._run != "expire, gone on with":
            return f"{len(self._left_before)} were deleted, the record says {told}"
        untold = self._left_before - self._on_record()
        return f"not in the ledger: {sorted(untold)}" if untold else ""

    def _wrong_live_set(self) -> str:
        """What a finished mark has wrong: by it, every file that is live must be."""
        live_sets = self.scene.live_sets
        known = {one.metadata_location for one in live_sets.contents(self._marked)}
        tables = (self.scene.returning, self.scene.orders)
        needed = {table.states[-1].metadata_location for table in tables}
        if self._is_changed:
            needed.add(self.scene.returning.states[0].metadata_location)
        return f"not in the live set: {sorted(needed - known)}" if needed - known else ""

    def _on_record(self) -> set[str]:
        """Every file that a ledger names as deleted."""
        return {
            address
            for key, stored in self.scene.container.objects.items()
            if "/gone/" in key and key.endswith(".parquet")
            for address in pq.read_table(pa.BufferReader(stored.data)).column("address").to_pylist()
        }

    def ledger_lies(self) -> str:
        there = self._on_record() & self.scene.files()
        return f"on record as deleted, and there: {sorted(there)}" if there else ""

    def recover(self) -> str:
        objects = self.scene.container.objects
        for key in [key for key in objects if "/lease/" in key]:
            del objects[
                key
            ]  # of a run that could not give it back; its owner is this process, which lives on
        with self._through(self.troubles()) as context:
            if self._run == "identify" and self._marked != self.live_set_id:
                expire(context, ExpireRequest(self._marked), self.client)
            if self._run in ("expire", "expire, gone on with"):
                status = context.live_sets.get(self.live_set_id).status
                if status is not LiveSetStatus.EXPIRY_SUCCESS:
                    expire(context, ExpireRequest(self.live_set_id), self.client)
            if self._run == "expire, deferring":
                status = context.live_sets.get(self.live_set_id).status
                if status is not LiveSetStatus.EXPIRY_SUCCESS:  # else only the answer was lost
                    _defer(self, context)
                _deferred(self, context)
            again = self.mark(context)
            if complaint := self._wrong_live_set():
                return complaint
            expire(context, ExpireRequest(again), self.client)
        left = self._garbage & self.scene.files()
        return f"left: {sorted(left)}" if left else self.ledger_lies()


_Act = Callable[[NessieStage, NessieContext], RunRecord | None]


def _identify(stage: NessieStage, context: NessieContext) -> None:
    stage.mark(context)


def _expire(stage: NessieStage, context: NessieContext) -> RunRecord:
    return expire(context, ExpireRequest(stage.live_set_id), stage.client)


def _defer(stage: NessieStage, context: NessieContext) -> RunRecord:
    return expire(context, ExpireRequest(stage.live_set_id, defer=True), stage.client)


def _gc(stage: NessieStage, context: NessieContext) -> RunRecord:
    return expire(context, ExpireRequest(stage.mark(context)), stage.client)


def _deferred(stage: NessieStage, context: NessieContext) -> RunRecord:
    return delete_deferred(context, ExpireRequest(stage.live_set_id), stage.client)


NESSIE_RUNS: Mapping[str, _Act] = {
    "identify": _identify,
    "expire": _expire,
    "gc": _gc,
    "gc, again": _gc,
    "expire, deferring": _defer,
    "deferred deletes": _deferred,
    "expire, gone on with": _expire,
}
_BY_EARLIER_MARK = ("expire", "expire, deferring", "deferred deletes", "expire, gone on with")
