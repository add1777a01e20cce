"""`kill -9` of the driver after any change that it makes to the store, then `runs resume`.

No key is lost track of, none is deleted that the plan does not name, and the totals add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lakesweep.collector.lakefs.between_runs.history import list_runs, load_run
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError
from lakesweep_testing.killed_lake import EACH, REPOSITORY, KilledLake
from lakesweep_testing.scene import assert_adds_up


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KilledLake]:
    with ExitStack() as stack:
        yield KilledLake(tmp_path_factory.mktemp("killed"), stack)


@pytest.fixture(scope="module")
def mark_id(lake: KilledLake) -> str:
    """One mark, whose sweep is killed again and again."""
    lake.rewind()
    marked = run_mark(lake.context(), MarkRequest())
    assert marked.objects["garbage"] == 2 * EACH
    lake.keep_as_is()
    return marked.mark_id


def partly_swept(context: RunContext) -> list[RunRecord]:
    runs = [run for run in list_runs(context.store) if isinstance(run, RunRecord)]
    return [run for run in runs if run.status is RunStatus.PARTLY_SWEPT]


def has_swept(context: RunContext) -> bool:
    """Whether a run came to its end, and only its lease was not given back."""
    runs = [run for run in list_runs(context.store) if isinstance(run, RunRecord)]
    return any(run.status is RunStatus.SWEPT for run in runs)


@pytest.mark.search
@pytest.mark.parametrize("with_backup", [False, True], ids=["plain", "with backup"])
def test_sweep_killed_after_any_change_is_resumed_and_adds_up(
    lake: KilledLake, mark_id: str, with_backup: bool
) -> None:
    """Lease, record, intent, each single delete, each outcome: whichever is the last thing it did."""
    lake.rewind()
    more = {"backup_to": lake.backup.as_uri()} if with_backup else {}
    request = SweepRequest(backup_to=Location.parse(lake.backup.as_uri()) if with_backup else None)
    order = lake.order("sweep", mark_id=mark_id, **more)
    whole = lake.collector.run(order)
    assert whole.status == 0
    assert whole.changes > 2 * EACH
    assert lake.left() == 0
    # `make safety` kills it after every change; here after some, and with a backup there are many more of them.
    for die_after in range(1, whole.changes, 10 if with_backup else 5):
        lake.rewind()
        killed = lake.collector.run(order, die_after=die_after)
        assert killed.was_killed
        lake.assert_live()
        before = lake.left()
        context = lake.context()
        if load_run(context.store, REPOSITORY, mark_id).status is RunStatus.MARKED:
            assert before == 2 * EACH, "nothing goes before the record says that a sweep began"
            record = run_sweep(context, mark_id, request)
        else:
            record = run_resume(context, mark_id, request)
        assert record.status is RunStatus.SWEPT, f"killed after change {die_after}"
        assert lake.left() == 0
        assert_adds_up(record)
        assert record.objects["deleted"] + record.objects["already_gone"] == 2 * EACH
        named = {str(lake.namespace / address) for address in lake.recorded_deletions()}
        assert named == {str(file) for file in lake.garbage}, "every key has its outcome"
        lake.assert_live()
        if with_backup:
            copies = {
                str(f.relative_to(lake.backup)) for f in lake.backup.rglob("*") if f.is_file()
            }
            assert copies == {str(f.relative_to(lake.namespace)) for f in lake.garbage}


@pytest.mark.search
def test_collection_killed_after_any_change_leaves_nothing_behind_that_hurts(
    lake: KilledLake,
) -> None:
    """Killed while it marks or sweeps: the next run works, and what was begun is resumed."""
    lake.rewind()
    whole = lake.collector.run(lake.order("gc"))
    assert whole.status == 0
    for die_after in range(1, whole.changes, 20):
        lake.rewind()
        assert lake.collector.run(lake.order("gc"), die_after=die_after).was_killed
        lake.assert_live()
        context = lake.context()
        begun = partly_swept(context)
        if lake.left() < 2 * EACH:
            is_over = lake.left() == 0 and has_swept(context)
            assert begun or is_over, "what was deleted is a run to resume"
        for run in begun:
            assert_adds_up(run_resume(lake.context(), run.run_id, SweepRequest()))
            assert lake.left() == 0
        run_gc(lake.context(), MarkRequest(flow=Flow.CLEAN), SweepRequest())
        assert lake.left() == 0
        lake.assert_live()


@pytest.mark.search
def test_collection_whose_tasks_are_killed_ends_as_ever(lake: KilledLake) -> None:
    """A task that died after a write is run again, as Spark does it: nothing goes twice, and nothing is left."""
    lake.rewind()
    order = lake.order("gc", who="executor")
    writes = lake.collector.run(order).changes
    for die_after in (1, writes // 2, writes):
        lake.rewind()
        assert lake.collector.run(order, die_after=die_after).status == 0
        assert lake.left() == 0
        lake.assert_live()
        runs = [run for run in list_runs(lake.context().store) if isinstance(run, RunRecord)]
        # Beside it there may be the mark that other stories of this lake begin with.
        (run,) = (run for run in runs if run.status is not RunStatus.MARKED)
        assert run.status is RunStatus.SWEPT
        assert_adds_up(run)


def test_resuming_a_sweep_with_a_backup_asks_for_the_backup_again(
    lake: KilledLake, mark_id: str
) -> None:
    """What was to be copied first is never deleted without its copy because somebody forgot the flag."""
    lake.rewind()
    order = lake.order("sweep", mark_id=mark_id, backup_to=lake.backup.as_uri())
    whole = lake.collector.run(order)
    lake.rewind()
    lake.collector.run(order, die_after=whole.changes // 2 + 4)
    context = lake.context()
    (begun,) = partly_swept(context)
    with pytest.raises(ConfigError, match="--backup-to"):
        run_resume(context, begun.run_id, SweepRequest())
