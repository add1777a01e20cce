"""The shared sweep calls every guard itself: a catalog that answers anything at all can't leave one out."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from lakesweep.collector import guards
from lakesweep.collector.catalog import Authorised, SweepTexts
from lakesweep.collector.guards import ClockReading, confirmation_of
from lakesweep.collector.lakefs.deletion import ObjectDeletion
from lakesweep.collector.lakefs.paths import RunFolder
from lakesweep.collector.lease import Lease
from lakesweep.collector.parts import Part, PartWriter
from lakesweep.collector.phases import Phases
from lakesweep.collector.plan import Plan, planned_files
from lakesweep.collector.record import RunRecord, RunStatus, decode_record
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.collector.sweep import Sweep
from lakesweep.collector.sweep_progress import KeptRows, SweepProgress
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import (
    ConfigError,
    LakesweepError,
    PartlySweptError,
    StorageError,
    UnexpectedError,
    UnsafeToSweepError,
)
from lakesweep.formats.tables import MARK_SCHEMA
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

OBJECTS = 5
RUN = RunFolder(RunId("run"))


class FolderCatalog:
    """The smallest catalog there can be: what a plan names is garbage, except what is said to be live."""

    kept_outcomes: ClassVar[frozenset[str]] = frozenset()
    slow_step_advice: ClassVar[Mapping[str, str]] = {"delete": "Wait."}
    texts = SweepTexts("folder", "mark m", "object", "begun", "Run it again.")
    files = RUN
    is_plan_untouched = True

    def __init__(self, plan: Plan, parts: list[Part]) -> None:
        self.blast_radius = plan.blast_radius
        self.parts = parts
        self.revived: tuple[Part, ...] = ()
        self.server_is_off_by = timedelta(0)
        self.looks = 0

    def gone_folder(self, time: datetime) -> str:
        return f"{RUN.root}gone/"

    def clock_readings(self, store_time: datetime) -> Iterator[ClockReading]:
        if self.server_is_off_by:
            yield ClockReading(store_time, "a server", store_time + self.server_is_off_by)

    def put_up_fence(self, until: datetime) -> None:
        """There is none."""

    def lift_fence(self) -> None:
        """There is none."""

    def look_again(self, before: Sequence[Part] | None) -> Authorised:
        self.looks += 1
        parts = [part for part in before or self.parts if part not in self.revived]
        return Authorised(parts, kept=KeptRows(revived_parts=self.revived))

    def deleter(self) -> ObjectDeletion:
        return ObjectDeletion(root_names=False)

    def stopped(self, reason: str, progress: SweepProgress) -> str:
        return f"stopped: {reason}"

    def described(self, record: RunRecord, progress: SweepProgress) -> RunRecord:
        return record

    def concluded(
        self, record: RunRecord, progress: SweepProgress, failure: LakesweepError | None
    ) -> RunRecord:
        return record


class Folder:
    """A folder with objects that a plan names, and a sweep of it."""

    def __init__(self) -> None:
        location = Location.parse(f"mem://sweep-{uuid.uuid4().hex}/ns")
        self.resources = Resources(
            Target(location, StorageOptions()), InProcessEngine(), Phases("folder"), utc_now
        )
        self.store = self.resources.store
        parts = [self._part(range(3)), self._part(range(3, OBJECTS))]
        self.plan = Plan(
            repository="folder",
            namespace=location.uri,
            run_id=RUN.run_id,
            mark_id=MarkId("m"),
            what="all",
            cutoff=datetime(2026, 1, 1, tzinfo=UTC),
            live=Tally(1, 1),
            garbage=Tally(OBJECTS, OBJECTS),
            files=planned_files(self.store, parts),
        )
        self.catalog = FolderCatalog(self.plan, parts)
        self.request = SweepRequest()

    def _part(self, numbers: range) -> Part:
        keys = [f"data/gaaaaaaaaaaaaaaaaaa0/c{n:018d}0" for n in numbers]
        rows = [{"address": self.store.write(key, b"x").key, "size_bytes": 1} for key in keys]
        writer = PartWriter(self.store, "marked/", "part", MARK_SCHEMA)
        writer.add(pa.RecordBatch.from_pylist(rows, schema=MARK_SCHEMA))
        return writer.close()[0]

    def sweep(self, status: RunStatus = RunStatus.MARKED) -> RunRecord:
        started = datetime.now(UTC)
        record = RunRecord("folder", "run", "m", "all", "clean", status, started, self.plan.id)
        with Lease(self.store, "folder", "sweep") as lease:
            args = (self.catalog, self.resources, self.plan, record, self.request, lease)
            return Sweep(*args).run()

    def left(self) -> int:
        return len(list(self.store.keys("data/")))

    def saved(self) -> RunRecord:
        return decode_record(self.store.read(RUN.record), "saved")


@pytest.fixture
def folder() -> Folder:
    return Folder()


def test_a_catalog_of_few_lines_gets_a_sweep_with_its_ledger_and_record(folder: Folder) -> None:
    """What came back to life is kept and named; the rest goes, and every outcome is durable."""
    folder.catalog.revived = (folder.catalog.parts[0],)
    record = folder.sweep()
    assert record.status is folder.saved().status is RunStatus.SWEPT
    assert (folder.left(), record.objects["deleted"], len(record.revived)) == (3, OBJECTS - 3, 3)
    assert list(folder.store.keys(RUN.ledger))
    assert list(folder.store.keys(f"{RUN.root}gone/"))


def long_requests(folder: Folder) -> None:
    storage = StorageOptions(request_timeout_seconds=170)
    target = replace(folder.resources.target, storage=storage)
    folder.resources = replace(folder.resources, target=target)


def lowered_age(folder: Folder) -> None:
    folder.plan = replace(folder.plan, is_min_age_lowered=True)


def other_confirmation(folder: Folder) -> None:
    folder.request = SweepRequest(confirm="another")


def clocks_apart(folder: Folder) -> None:
    folder.catalog.server_is_off_by = timedelta(hours=1)


def this_machine_apart(folder: Folder) -> None:
    folder.resources = replace(folder.resources, clock=lambda: utc_now() + timedelta(hours=1))


def large_plan(folder: Folder) -> None:
    folder.catalog.blast_radius = replace(folder.catalog.blast_radius, garbage=Tally(10**6, 1))


def widened_plan(folder: Folder) -> None:
    folder.catalog.is_plan_untouched = False
    folder.catalog.blast_radius = replace(folder.catalog.blast_radius, garbage=Tally(1, 1))
    folder.request = SweepRequest(confirm=folder.plan.id)


def measured_again(folder: Folder) -> None:
    folder.catalog.blast_radius = replace(folder.catalog.blast_radius, garbage=Tally(1, 1))


@pytest.mark.parametrize(
    ("trouble", "kind", "looks"),
    [
        (long_requests, "long-requests", 0),
        (lowered_age, "min-age-lowered", 0),
        (other_confirmation, "other-plan", 0),
        (large_plan, "blast-radius", 0),
        (clocks_apart, "clock-skew", 0),
        (this_machine_apart, "clock-skew", 0),
        (widened_plan, "blast-radius", 1),
        (measured_again, "blast-radius", 1),
    ],
)
def test_guards_refuse_before_the_first_delete(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Callable[[Folder], None],
    kind: str,
    looks: int,
) -> None:
    """Nothing is deleted, and no note says that deletes began."""
    if looks:
        monkeypatch.setattr(guards, "SMALL_PLAN_OBJECTS", 2)
    trouble(folder)
    with pytest.raises((ConfigError, UnsafeToSweepError)) as refused:
        folder.sweep()
    assert (refused.value.kind, folder.catalog.looks) == (kind, looks)
    assert folder.left() == OBJECTS


class LossyEngine(InProcessEngine):
    """Loses the last row of every answer."""

    def collect(self, scatter: Scatter) -> Any:
        rows = super().collect(scatter)
        return rows.slice(0, rows.num_rows - 1)


def test_a_row_without_an_outcome_ends_the_sweep(folder: Folder) -> None:
    """Some was deleted, nobody knows how much, and the record says so."""
    folder.resources = replace(folder.resources, engine=LossyEngine())
    with pytest.raises(PartlySweptError, match="have an outcome") as stopped:
        folder.sweep()
    assert stopped.value.kind == "not-conserved"
    assert folder.saved().status is RunStatus.PARTLY_SWEPT


class RefusingEngine(InProcessEngine):
    """Its store refuses the first rows of each round, slowly; for the others no time is left."""

    rounds = 0

    def collect(self, scatter: Scatter) -> Any:
        self.rounds += 1
        assert self.rounds < 10, "the sweep does not end"
        fates = {"denied": 3, "not_tried": OBJECTS - 3}
        rows = [
            {"chunk": "c", "outcome": fate, "objects": n, "bytes": n, "example": f"{fate} one"}
            for fate, n in fates.items()
        ]
        return pa.Table.from_pylist(rows, schema=scatter.schema)


def test_a_sweep_ends_where_refusals_take_all_of_its_time(folder: Folder) -> None:
    """A store that keeps its objects (a retention policy, a lock) would be asked round after round, for ever."""
    engine = RefusingEngine()
    folder.resources = replace(folder.resources, engine=engine)
    with pytest.raises(StorageError, match="denied: denied one") as ended:
        folder.sweep()
    assert (ended.value.kind, ended.value.exit_status) == ("refused-deletes", 3)
    assert engine.rounds == guards.TRIES
    saved = folder.saved()
    assert (saved.status, saved.kind) == (RunStatus.FAILED, "refused-deletes")
    assert saved.objects["failed"] == 3


class BrokenOffEngine(InProcessEngine):
    """Loses its driver's job before any task has run; the tasks are elsewhere, and still there."""

    def __init__(self, process_tree: str, stop: BaseException) -> None:
        super().__init__()
        self._process_tree, self._stop = process_tree, stop
        self.broken_off: list[Scatter] = []

    @property
    def process_tree(self) -> str:
        return self._process_tree

    def collect(self, scatter: Scatter) -> Any:
        self.broken_off.append(scatter)
        raise self._stop


@pytest.mark.parametrize("stop", [UnexpectedError("an executor is lost"), KeyboardInterrupt()])
def test_a_round_that_broke_off_leaves_its_lease_to_run_out(
    folder: Folder, stop: BaseException
) -> None:
    """Its tasks on other machines may delete until their time is over, also what a restore would bring back."""
    engine = BrokenOffEngine("", stop)
    folder.resources = replace(folder.resources, engine=engine)
    with pytest.raises((PartlySweptError, KeyboardInterrupt)):
        folder.sweep()
    restore = Lease(folder.store, "folder", "restore")
    with pytest.raises(UnsafeToSweepError, match="until its lease runs out") as refused, restore:
        pass
    assert refused.value.kind == "lease-held"
    (round_before,) = engine.broken_off
    InProcessEngine().collect(round_before)
    assert not folder.left(), "the tasks could delete all that time"


class TwiceTriedEngine(InProcessEngine):
    """Tries some tasks of a cluster twice, and takes the second answer: the first attempts may go on somewhere."""

    process_tree = ""

    def __init__(self, tried_twice: int) -> None:
        super().__init__()
        self._tried_twice = tried_twice

    def collect(self, scatter: Scatter) -> Any:
        if self._tried_twice:
            list(scatter.work(iter(scatter.items[: self._tried_twice])))
        return super().collect(scatter)


@pytest.mark.parametrize("tried_twice", [0, 1])
def test_a_lost_attempt_of_a_task_keeps_the_lease_until_it_runs_out(
    folder: Folder, tried_twice: int
) -> None:
    """An executor that nobody hears of may still delete, also what a restore would bring back."""
    folder.resources = replace(folder.resources, engine=TwiceTriedEngine(tried_twice))
    assert folder.sweep().status is RunStatus.SWEPT
    restore = Lease(folder.store, "folder", "restore")
    if not tried_twice:
        with restore:
            return
    with pytest.raises(UnsafeToSweepError, match="until its lease runs out"), restore:
        pass


def test_attempts_of_an_earlier_sweep_are_not_those_of_this_one(folder: Folder) -> None:
    """A ledger keeps the intents of all rounds, and there may be millions: a round reads its own alone."""
    folder.resources = replace(folder.resources, engine=TwiceTriedEngine(0))
    for number in range(9):
        folder.store.write(f"{RUN.ledger}{number}.intent.json", b"{}")
    folder.sweep(RunStatus.PARTLY_SWEPT)
    with Lease(folder.store, "folder", "restore"):
        pass


def test_a_round_that_broke_off_frees_its_lease_where_its_tasks_are_watched(
    folder: Folder,
) -> None:
    """Tasks of this machine carry a mark, by which whoever comes next finds them."""
    engine = BrokenOffEngine("driver-only", UnexpectedError("broken"))
    folder.resources = replace(folder.resources, engine=engine)
    with pytest.raises(PartlySweptError):
        folder.sweep()
    with Lease(folder.store, "folder", "restore"):
        pass


def test_a_sweep_that_goes_on_and_is_refused_stays_partly_swept(folder: Folder) -> None:
    """What an earlier sweep deleted stays true."""
    folder.catalog.server_is_off_by = timedelta(hours=1)
    with pytest.raises(PartlySweptError, match="stopped: The clock of"):
        folder.sweep(RunStatus.PARTLY_SWEPT)
    assert folder.saved().status is RunStatus.PARTLY_SWEPT


@pytest.mark.parametrize("status", list(RunStatus))
def test_only_deletes_of_this_plan_that_began_confirm_it(status: RunStatus) -> None:
    """A refused run, or one of another plan, confirms nothing; the user's word goes before."""
    run = RunRecord("r", "run", "m", "all", "clean", status, datetime.now(UTC), plan_id="p")
    has_begun = status in (RunStatus.PARTLY_SWEPT, RunStatus.SWEPT)
    assert confirmation_of("p", None, run) == ("p" if has_begun else None)
    assert confirmation_of("p", None, replace(run, plan_id="q")) is None
    assert confirmation_of("p", "x", run) == "x"
