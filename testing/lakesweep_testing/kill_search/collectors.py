"""Drivers and tasks of collections, killed after each of their writes."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy
from lakesweep.collector.lakefs.backup_restore import run_backup, run_restore
from lakesweep.collector.lakefs.between_runs.history import list_runs
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.nessie.identify import Marked
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.target import Target
from lakesweep.domain.live_sets import LiveSetStatus
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError
from lakesweep.storage import StorageOptions
from lakesweep_testing.dying import LastChange, dying_stores
from lakesweep_testing.forking import ForkingEngine
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.kill_search.kills import Kills
from lakesweep_testing.killed_lake import KilledLake
from lakesweep_testing.meddled_database import COMMIT, DatabaseCall, through_database
from lakesweep_testing.nessie_scene import NessieScene
from lakesweep_testing.scene import assert_adds_up

__all__ = ["LAKEFS_RUNS", "NESSIE_RUNS", "go_on", "kill_collections", "kill_nessie_runs"]

LAKEFS_RUNS = ("mark", "sweep", "gc", "gc with backup", "backup", "restore", "resume")
_Copying = Callable[[RunContext, str, Target], RunRecord]
_COPIES: Mapping[str, _Copying] = {"backup": run_backup, "restore": run_restore}
# A mark has no tasks.
NESSIE_RUNS = {
    "identify": ("driver",),
    **dict.fromkeys(("expire", "expire, gone on with", "deferred deletes"), ("driver", "executor")),
}


def kill_collections(run: str, who: str, share: float, seed: int) -> Kills:
    """Kill the driver, or a task, of a run on a lakeFS repository after each write; then go on as a user would."""
    kills = Kills(f"{who} of lakeFS", run, share, seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lake = KilledLake(folder, stack)
        order = _prepare(lake, run, who)
        lake.rewind()
        whole = lake.collector.run(order)
        assert whole.status == 0, f"{run} without a kill ended with {whole.status}"
        end = lake.there(), lake.copies()
        for number in kills.moments(whole.changes):
            with kills.after(number):
                lake.rewind()
                killed = lake.collector.run(order, die_after=number)
                lake.assert_live()
                if who == "executor":
                    assert killed.status == 0, f"the run ended with {killed.status}"
                    assert (lake.there(), lake.copies()) == end, "other files are left, or copied"
                else:
                    assert killed.was_killed, f"it ended with {killed.status}"
                    if run in _COPIES:
                        _copy_again(lake, run, str(order["mark_id"]))
                        assert (lake.there(), lake.copies()) == end, "not all was copied"
                    if run != "restore":
                        go_on(lake)
    return kills


def _prepare(lake: KilledLake, run: str, who: str) -> dict[str, object]:
    """Bring the repository to where the run begins; the order to run it."""
    to = {"backup_to": lake.backup.as_uri()}
    if run in ("mark", "gc"):
        return lake.order(run, who=who)
    if run == "gc with backup":
        return lake.order("gc", who=who, **to)
    mark_id = run_mark(lake.context(), MarkRequest()).mark_id
    if run == "restore":
        run_backup(lake.context(), mark_id, _outside(lake))
        run_sweep(lake.context(), mark_id, SweepRequest())
    lake.keep_as_is()
    if run == "resume":
        sweep = lake.order("sweep", mark_id=mark_id)
        deaths = count(1)
        while not 0 < lake.left() < len(lake.garbage):
            lake.rewind()
            assert lake.collector.run(sweep, die_after=next(deaths)).was_killed
        lake.keep_as_is()
    return lake.order(run, who=who, mark_id=mark_id, **(to if run in _COPIES else {}))


def _outside(lake: KilledLake) -> Target:
    return Target(Location.parse(lake.backup.as_uri()), StorageOptions(local_fsync=False))


def _copy_again(lake: KilledLake, run: str, mark_id: str) -> None:
    """Give a backup or restore again; a collection after a restore takes nothing of what is back."""
    record = _COPIES[run](lake.context(), mark_id, _outside(lake))
    assert record.status in (RunStatus.BACKED_UP, RunStatus.RESTORED)
    if run == "restore":
        run_gc(lake.context(), MarkRequest(flow=Flow.CLEAN), SweepRequest())
    lake.assert_live()


def go_on(lake: KilledLake) -> None:
    """Resume what was begun, then collect: all garbage is gone, and all that is live is there."""
    context = lake.context()
    before = lake.left()
    runs = [run for run in list_runs(context.store) if isinstance(run, RunRecord)]
    begun = [run for run in runs if run.status is RunStatus.PARTLY_SWEPT]
    is_over = any(run.status is RunStatus.SWEPT for run in runs)
    assert begun or is_over or before == len(lake.garbage), "what was deleted is no run to resume"
    for run in begun:
        to = Location.parse(run.backup_to) if run.backup_to else None
        resumed = run_resume(context, run.run_id, SweepRequest(backup_to=to))
        assert_adds_up(resumed)
        assert lake.left() == 0, "a resumed run left garbage"
        assert not to or len(lake.copies()) == len(lake.garbage), "not all was copied"
    run_gc(context, MarkRequest(flow=Flow.CLEAN), SweepRequest())
    assert lake.left() == 0, "a later run left garbage"
    lake.assert_live()
    named = {str(lake.namespace / address) for address in lake.recorded_deletions()}
    assert named == {str(file) for file in lake.garbage}, "the ledger does not name every delete"


def kill_nessie_runs(run: str, who: str, share: float, seed: int) -> Kills:
    """Kill the driver, or a task, of a run on a Nessie catalog after each write; then go on as a user would.

    Writes are changes to a store, and to the database of live sets: each statement that changes rows, and each commit.
    """
    kills = Kills(f"{who} of Nessie", run, share, seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        catalog = _KilledCatalog(folder, stack, who)
        catalog.prepare(run)
        assert not catalog.is_killed(None)
        for number in kills.moments(catalog.changes):
            with kills.after(number):
                catalog.rewind()
                assert catalog.is_killed(number) == (who == "driver"), (
                    "the wrong process was killed, or none"
                )
                assert catalog.changes >= number, "nothing was killed"
                assert catalog.live <= catalog.scene.files(), "a live file is gone"
                catalog.go_on(is_over=who == "executor")
    return kills


def _keep(source: str, target: str) -> None:
    """A hard link keeps a file what it is, its place on the disk included; a database is written in place."""
    (shutil.copy2 if "sets.db" in source else os.link)(source, target)


class _KilledCatalog:
    """A Nessie catalog and live sets in a SQLite file, whose collectors are killed."""

    def __init__(self, folder: Path, stack: ExitStack, who: str) -> None:
        self._root, self._kept, self._counter = folder / "now", folder / "kept", folder / "changes"
        engine = ForkingEngine() if who == "executor" else InProcessEngine()
        self._who = who
        self._marked: Marked | None = None
        self.scene = stack.enter_context(NessieScene(self._root, engine=engine))
        self._database = f"sqlite:///{self._root}/sets.db"
        orders = self.scene.table("orders")
        orders.append("a.parquet")
        self.live = orders.live_files()
        self._garbage = {orders.iceberg.write_orphan(f"{number}.parquet") for number in range(4)}
        with self._opened():
            self.scene.live_sets.create_schema(SchemaStrategy.CREATE)

    @contextmanager
    def _opened(self) -> Iterator[None]:
        with open_live_sets(self._database) as self.scene.live_sets:
            yield

    def prepare(self, run: str) -> None:
        """Bring the catalog to where the run begins."""
        self.act: Callable[[], object] = self.scene.mark
        if run != "identify":
            with self._opened():
                self._marked = marked = self.scene.mark()
                if run == "deferred deletes":
                    self.scene.defer(marked)
            delete = self.scene.delete_deferred if run == "deferred deletes" else self.scene.expire
            self.act = partial(delete, marked, ask_nessie=True)
        self._keep_as_is()
        if run == "expire, gone on with":
            deaths, engine = count(1), self.scene.engine
            self.scene.engine = InProcessEngine()
            while not 0 < len(self._garbage & self.scene.files()) < len(self._garbage):
                self.rewind()
                self.is_killed(next(deaths), "driver")
            self.scene.engine = engine
            self._keep_as_is()

    def _keep_as_is(self) -> None:
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(self._root, self._kept, copy_function=_keep)

    def rewind(self) -> None:
        shutil.rmtree(self._root)
        shutil.copytree(self._kept, self._root, copy_function=_keep)

    def _expire_marks(self) -> None:
        """A mark that came to its end can be expired; any other is refused."""
        for found in self.scene.live_sets.all():
            is_whole = found.status is LiveSetStatus.IDENTIFY_SUCCESS
            try:
                self.scene.expire(found.id, ask_nessie=True)
                assert is_whole, "a mark that did not come to its end was believed"
            except ConfigError:
                assert not is_whole, "a mark that came to its end was refused"

    def _act_again(self, marked: Marked) -> None:
        """Give the command again; an expiry that had already stored its end is refused, as that of any expired set."""
        status = self.scene.live_sets.get(marked.live_set_id).status
        try:
            self.act()
        except ConfigError:
            assert status is LiveSetStatus.EXPIRY_SUCCESS, "an expiry that was killed is refused"

    def go_on(self, *, is_over: bool) -> None:
        """Give the killed command again: then all garbage is gone and on record, and all that is live is there."""
        if not is_over:
            with self._opened():
                if self._marked is None:
                    self._expire_marks()
                    self.scene.expire(self.scene.mark(), ask_nessie=True)
                else:
                    self._act_again(self._marked)
        assert self.scene.files() == self.live, "other files than the live ones are there"
        with self._opened():
            statuses = {one.status for one in self.scene.live_sets.all()}
        assert LiveSetStatus.EXPIRY_SUCCESS in statuses, f"the sets are {sorted(statuses)}"
        files = self.scene.work.glob("**/gone/**/*.parquet")
        named = {uri for file in files for uri in pq.read_table(file)["address"].to_pylist()}
        assert named == self._garbage, "the ledger does not name every delete"

    @property
    def changes(self) -> int:
        return int(self._counter.read_text())

    def is_killed(self, die_after: int | None, who: str = "") -> bool:
        """Whether a process that does the run is killed; it, or one of its tasks, dies after so many changes."""
        self._counter.write_text("0")
        child = os.fork()
        if not child:
            but_not = os.getpid() if (who or self._who) == "executor" else None
            last = LastChange(self._counter, die_after, but_not)

            def count_changes(call: DatabaseCall) -> None:
                call.carry_out()
                if call.kind == COMMIT or call.name.startswith(("INSERT", "UPDATE", "DELETE")):
                    last.changed()

            status = 1
            try:
                with dying_stores(last), through_database(count_changes), self._opened():
                    self.act()
                status = 0
            except Exception:  # noqa: BLE001 - what stands behind in this process is the parent's
                sys.stderr.write(traceback.format_exc())
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, -signal.SIGKILL), f"it ended with {code}"
        return code != 0
