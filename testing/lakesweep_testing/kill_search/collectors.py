"""Drivers and tasks of collections, killed after each of their writes."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy
from lakesweep.collector import sweep as sweep_module
from lakesweep.collector import target as target_module
from lakesweep.collector.lakefs.between_runs.history import list_runs
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.nessie import places as places_module
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.location import Location
from lakesweep.storage import ObjectStore, StorageOptions, open_store
from lakesweep_testing.dying import ROWS_PER_CHUNK, dying_store
from lakesweep_testing.forking import ForkingEngine
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.kill_search.kills import Kills
from lakesweep_testing.killed_lake import KilledLake
from lakesweep_testing.nessie_scene import NessieScene
from lakesweep_testing.scene import assert_adds_up

__all__ = ["LAKEFS_RUNS", "go_on", "kill_collections", "kill_expiries"]

LAKEFS_RUNS = ("mark", "sweep", "gc", "gc with backup")


def kill_collections(run: str, who: str, share: float, seed: int) -> Kills:
    """Kill the driver, or a task, of a run on a lakeFS repository after each write; then go on as a user would."""
    kills = Kills(f"{who} of lakeFS", run, share, seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        lake = KilledLake(folder, stack)
        more = {"backup_to": lake.backup.as_uri()} if run == "gc with backup" else {}
        if run == "sweep":
            more["mark_id"] = run_mark(lake.context(), MarkRequest()).mark_id
            lake.keep_as_is()
        order = lake.order("gc" if run == "gc with backup" else run, who=who, **more)
        lake.rewind()
        whole = lake.collector.run(order)
        assert whole.status == 0, f"{run} without a kill ended with {whole.status}"
        left = lake.left()
        for number in kills.moments(whole.changes):
            with kills.after(number):
                lake.rewind()
                killed = lake.collector.run(order, die_after=number)
                lake.assert_live()
                if who == "executor":
                    assert killed.status == 0, f"the run ended with {killed.status}"
                    assert lake.left() == left, f"{lake.left()} of the garbage is left, not {left}"
                else:
                    assert killed.was_killed, f"it ended with {killed.status}"
                    go_on(lake)
    return kills


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
    run_gc(context, MarkRequest(flow=Flow.CLEAN), SweepRequest())
    assert lake.left() == 0, "a later run left garbage"
    lake.assert_live()
    named = {str(lake.namespace / address) for address in lake.recorded_deletions()}
    assert named == {str(file) for file in lake.garbage}, "the ledger does not name every delete"


def kill_expiries(who: str, share: float, seed: int) -> Kills:
    """Kill the driver, or a task, of an expiry of a Nessie catalog after each write; then go on as a user would."""
    kills = Kills(f"{who} of Nessie", "expire", share, seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root, counter = folder / "now", folder / "changes"
        engine = ForkingEngine() if who == "executor" else InProcessEngine()
        scene = stack.enter_context(NessieScene(root, engine=engine))
        database = f"sqlite:///{root}/sets.db"
        scene.live_sets = open_live_sets(database)
        scene.live_sets.create_schema(SchemaStrategy.CREATE)
        orders = scene.table("orders")
        orders.append("a.parquet")
        for number in range(4):
            orders.iceberg.write_orphan(f"{number}.parquet")
        marked = scene.mark()
        scene.live_sets.close()
        kept = shutil.copytree(root, folder / "kept", copy_function=shutil.copy2)

        def rewind() -> None:
            shutil.rmtree(root)
            shutil.copytree(kept, root, copy_function=shutil.copy2)

        def expire() -> None:
            with open_live_sets(database) as scene.live_sets:
                scene.expire(marked, ask_nessie=True)

        def is_killed(number: int | None) -> bool:
            counter.write_text("0")
            return _killed(expire, counter, number, who)

        assert not is_killed(None)
        for number in kills.moments(int(counter.read_text())):
            with kills.after(number):
                rewind()
                assert is_killed(number) == (who == "driver"), (
                    "the wrong process was killed, or none"
                )
                assert int(counter.read_text()) >= number, "nothing was killed"
                assert orders.live_files() <= scene.files(), "a live file is gone"
                with open_live_sets(database) as scene.live_sets:
                    status = scene.live_sets.get(marked.live_set_id).status
                is_over = status.endswith("SUCCESS") and not status.startswith("IDENTIFY")
                # A task whose process died is run again, and the run goes on.
                assert is_over or who == "driver", f"the expiry ended as {status}"
                if not is_over:
                    expire()
                assert scene.files() == orders.live_files(), (
                    "other files than the live ones are there"
                )
    return kills


def _killed(act: Callable[[], None], counter: Path, die_after: int | None, who: str) -> bool:
    """Whether a process that does this is killed; it, or one of its tasks, dies after so many changes to a store."""
    child = os.fork()
    if not child:
        but_not = os.getpid() if who == "executor" else None

        def opened(root: Location, options: StorageOptions | None = None) -> ObjectStore:
            return dying_store(open_store(root, options), counter, die_after, but_not)

        with (
            patch.object(target_module, "open_store", opened),
            patch.object(places_module, "open_store", opened),
            patch.object(sweep_module, "_ROWS_PER_CHUNK", ROWS_PER_CHUNK),
        ):
            act()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), f"it ended with {code}"
    return code != 0
