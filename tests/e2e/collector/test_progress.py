"""What tasks report while they work is what their phases find in the end, and no result depends on it."""

from __future__ import annotations

import pytest

from lakesweep.collector.lakefs.collect import run_gc
from lakesweep.collector.lakefs.paths import REPORTS
from lakesweep.collector.phases import reporting_engine
from lakesweep.collector.record import RunRecord
from lakesweep.collector.report_files import FileMailbox
from lakesweep.collector.request import SweepRequest
from lakesweep.progress import Display, PhaseProgress, PhaseSnapshot, ProgressSnapshot
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import with_resources


class Kept:
    """A sink that keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[ProgressSnapshot] = []

    def show(self, snapshot: ProgressSnapshot) -> None:
        self.shown.append(snapshot)


class Elsewhere(InProcessEngine):
    """An engine of whose tasks nobody knows where they run."""

    @property
    def process_tree(self) -> str:
        return ""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, PhaseSnapshot]:
    """The last snapshot of each phase before its real numbers were known."""
    seen: dict[str, PhaseSnapshot] = {}
    end = PhaseProgress.end

    def ending(phase: PhaseProgress, items: int, size_bytes: int) -> None:
        seen[phase.name] = phase.snapshot()
        end(phase, items, size_bytes)

    monkeypatch.setattr(PhaseProgress, "end", ending)
    return seen


def facts(record: RunRecord) -> object:
    """What a run found and did."""
    return record.status, record.objects, record.bytes, record.notes


def test_tasks_tell_what_their_phases_find(scene: Scene, told: dict[str, PhaseSnapshot]) -> None:
    """Objects and bytes, of the listing and of the deletes, with totals where there are some."""
    kept = Kept()
    record = run_gc(scene.context(display=Display([kept])), AGED, SweepRequest())
    listed, deleted = record.objects["listed"], record.objects["deleted"]
    assert (told["list"].items, told["list"].size_bytes) == (listed, record.bytes["listed"])
    assert (told["delete"].items, told["delete"].total) == (deleted, deleted)
    assert told["delete"].size_bytes == told["delete"].total_bytes == record.bytes["deleted"]
    assert told["judge"].items > 0
    ended = {phase.name: phase for phase in kept.shown[-1].phases}
    assert ended["delete"].items == deleted
    assert not any(phase.is_running for phase in ended.values())
    by_name = {phase.name: phase for phase in record.phases}
    assert (by_name["delete"].items, by_name["delete"].bytes) == (deleted, record.bytes["deleted"])


def test_a_run_is_the_same_whether_its_progress_is_shown_or_lost(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shown to nobody, to somebody, over files, and with every report lost."""
    unseen = facts(run_gc(scene.context(), AGED, SweepRequest()))
    scene.rewind()
    assert facts(run_gc(scene.context(display=Display([Kept()])), AGED, SweepRequest())) == unseen
    scene.rewind()
    context = scene.context(engine=Elsewhere(), display=Display([Kept()]))
    assert facts(run_gc(context, AGED, SweepRequest())) == unseen
    assert [key for key in scene.present_keys() if key.startswith(REPORTS)] == []
    scene.rewind()
    monkeypatch.setattr("lakesweep.progress.loopback.LoopbackChannel._send", lambda *_: 1 / 0)
    assert facts(run_gc(scene.context(display=Display([Kept()])), AGED, SweepRequest())) == unseen


def test_reports_that_a_killed_run_left_are_tidied_up(scene: Scene) -> None:
    """By the next run, with its other leftovers."""
    scene.put(f"{REPORTS}killed/task.json", b"{}")
    scene.gc()
    assert f"{REPORTS}killed/task.json" not in scene.present_keys()


def test_tasks_elsewhere_report_through_the_runs_own_folder(
    scene: Scene, told: dict[str, PhaseSnapshot]
) -> None:
    """Every task that has the time leaves a file, and none is there in the end."""
    context = scene.context(display=Display([Kept()]))
    engine = reporting_engine(
        Elsewhere(),
        context.resources.phases,
        lambda: FileMailbox(context.resources.target, REPORTS, 0.0),
    )
    record = run_gc(with_resources(context, engine=engine), AGED, SweepRequest())
    assert told["list"].items == record.objects["listed"]
    assert told["delete"].items == record.objects["deleted"]
    assert [key for key in scene.present_keys() if key.startswith(REPORTS)] == []
