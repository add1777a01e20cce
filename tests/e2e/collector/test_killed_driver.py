"""`kill -9` of the driver after any change that it makes to the store, then `runs resume`.

No key is lost track of, none is deleted that the plan does not name, and the totals add up.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.history import list_runs, load_run
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError
from lakesweep.lake.server import LakeServer
from lakesweep.storage import StorageOptions
from lakesweep_testing.dying import DyingCollector
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.scene import assert_adds_up
from lakesweep_testing.user import User

REPOSITORY = "killed"
EACH = 2


class Lake:
    """A lake on local files, on the machine's clock; the state before any trouble is kept, to go back to."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.root = folder / "lake"
        self.namespace = self.root / REPOSITORY
        self.backup = folder / "backup"
        server = stack.enter_context(LakeServer(self.root))
        self.server = (server.endpoint, server.access_key_id, server.secret_access_key)
        api = stack.enter_context(
            httpx.Client(base_url=server.endpoint, auth=self.server[1:], timeout=60)
        )
        self.client = stack.enter_context(LakeFSClient(*self.server))
        self.collector = stack.enter_context(DyingCollector())
        self.user = User.create(api, REPOSITORY, f"local://{REPOSITORY}")
        self.live: set[Path] = set()
        self.garbage: set[Path] = set()
        self._write_history()
        self._kept = folder / "kept"
        self.keep_as_is()

    def _write_history(self) -> None:
        self.user.set_rules(5)
        self.live.add(self.upload("base"))
        expired = [self.upload(f"expired-{n}") for n in range(EACH)]
        self.user.commit("main", days=40)
        for number in range(EACH):
            self.user.delete("main", f"expired-{number}")
        self.user.commit("main", days=30)
        orphans = [self.upload(f"orphan-{n}") for n in range(EACH)]
        self.user.reset("main")
        self.live.add(self.upload("staged"))
        self.garbage |= {*expired, *orphans}

    def upload(self, path: str) -> Path:
        address = self.user.upload("main", path)
        file = self.root / address.removeprefix("local://")
        at = (datetime.now(UTC) - timedelta(days=3)).timestamp()
        os.utime(file, (at, at))
        return file

    def keep_as_is(self) -> None:
        shutil.rmtree(self._kept, ignore_errors=True)
        # Hard links keep each file what it is, its times and its place on the disk included.
        shutil.copytree(self.namespace, self._kept, copy_function=os.link)

    def rewind(self) -> None:
        shutil.rmtree(self.namespace)
        shutil.copytree(self._kept, self.namespace, copy_function=os.link)
        shutil.rmtree(self.backup, ignore_errors=True)

    def context(self) -> RunContext:
        return open_repository(
            self.client,
            REPOSITORY,
            StorageOptions(local_fsync=False),
            InProcessEngine(),
            namespace_root=str(self.root),
        )

    def order(self, do: str, **more: str) -> dict[str, object]:
        return {
            "do": do,
            "server": self.server,
            "repository": REPOSITORY,
            "namespace_root": str(self.root),
            **more,
        }

    def left(self) -> int:
        return sum(file.exists() for file in self.garbage)

    def assert_live(self) -> None:
        assert all(file.exists() for file in self.live)

    def recorded_deletions(self) -> list[str]:
        """Every address that the events name as deleted, with repetitions."""
        folder = self.namespace / "_lakefs/retention/gc/lakesweep/events"
        files = folder.glob("*-gone-*/*.parquet")
        return [a for file in files for a in pq.read_table(file).column("address").to_pylist()]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with ExitStack() as stack:
        yield Lake(tmp_path_factory.mktemp("killed"), stack)


@pytest.fixture(scope="module")
def mark_id(lake: Lake) -> str:
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


@pytest.mark.parametrize("with_backup", [False, True], ids=["plain", "with backup"])
def test_sweep_killed_after_any_change_is_resumed_and_adds_up(
    lake: Lake, mark_id: str, with_backup: bool
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
    # A plain sweep is killed after every change; with a backup there are many more, and a third of them tell enough.
    for die_after in range(1, whole.changes, 3 if with_backup else 1):
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


def test_collection_killed_after_any_change_leaves_nothing_behind_that_hurts(lake: Lake) -> None:
    """Killed while it marks or sweeps: the next run works, and what was begun is resumed."""
    lake.rewind()
    whole = lake.collector.run(lake.order("gc"))
    assert whole.status == 0
    for die_after in range(1, whole.changes, 5):
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


def test_resuming_a_sweep_with_a_backup_asks_for_the_backup_again(lake: Lake, mark_id: str) -> None:
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
