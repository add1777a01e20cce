"""Files of our own: bounded after many runs, and never one that somebody still needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from statistics import fmean

import pytest

from lakesweep.collector.lakefs.backup_restore import run_backup, run_listed, run_restore
from lakesweep.collector.lakefs.between_runs import compaction, saved
from lakesweep.collector.lakefs.between_runs.history import list_runs
from lakesweep.collector.lakefs.between_runs.pruning import prune_own_files
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.paths import GC, RunFolder
from lakesweep.collector.lakefs.request import Flow, What
from lakesweep.collector.phases import Phases
from lakesweep.collector.record import BACKUP, RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.run_files import RunId
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.errors import PartlySweptError
from lakesweep.formats.refs_dump import MANIFEST_KEY
from lakesweep.formats.sstable import open_table
from lakesweep.storage import StorageOptions
from lakesweep.storage.values import NO_TERMS, DeleteOutcome, DeleteStatus, DeleteTerms
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import MeddlingBackend

MakeScene = Callable[..., Scene]
DAY = timedelta(days=1)
# Clean runs and the cache of ranges come in cycles: the first one fills up, then two and two more are compared.
CYCLE = 5
SETTLED, RUNS = CYCLE, 5 * CYCLE
KEPT = 5


class DenyingBackend(MeddlingBackend):
    """Does not let one key be deleted."""

    denied: str

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> list[DeleteOutcome]:
        outcomes = self.inner.delete([key for key in keys if key != self.denied], terms)
        refused = [k for k in keys if k == self.denied]
        return [*outcomes, *(DeleteOutcome(k, DeleteStatus.DENIED, "no") for k in refused)]


def _context(scene: Scene, keep_runs: int = KEPT) -> RunContext:
    return replace(scene.context(), keep_runs=keep_runs)


def _ours(scene: Scene) -> set[str]:
    """Keys that collections leave: below the folder of collections, and dumps beside the repository's ranges."""
    return {key for key in scene.present_keys() if key.startswith("_lakefs/")}


@pytest.mark.search
def test_after_five_cycles_there_are_no_more_files_than_after_three(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run makes garbage, commits and a dump of its own, and leaves as much as it removes."""
    monkeypatch.setattr(compaction, "MOST_SMALL_FILES", 4)
    monkeypatch.setattr(saved, "CLEAN_EVERY", CYCLE)
    scene = make_scene(each=1)
    files: list[int] = []
    for number in range(RUNS):
        scene.upload("main", "orphan")
        scene.user.delete("main", "orphan")
        scene.upload("main", "base", f"version {number}")
        scene.lake.clock.advance(3 * DAY)
        scene.user.commit("main")
        before = _metadata_of_commits(scene)
        record = run_gc(_context(scene), AGED, SweepRequest())
        assert record.status is RunStatus.SWEPT
        assert record.objects["deleted"] >= 1
        files.append(len(_ours(scene)) - before)
    middle = (SETTLED + RUNS) // 2
    # Whole cycles have the same mean, give or take a twentieth: a file that every third run leaves is noticed.
    assert fmean(files[middle:]) <= 1.08 * fmean(files[SETTLED:middle])
    assert len(list_runs(scene.store)) <= KEPT + 1


def _metadata_of_commits(scene: Scene) -> int:
    """Files of commits: they grow with every commit, and are none of ours."""
    return len([key for key in _ours(scene) if not key.startswith(GC)])


def _collect_often(scene: Scene, times: int = 3) -> RunRecord:
    """Runs that keep one run only; the last one's record."""
    for _ in range(times):
        scene.upload("main", "orphan")
        scene.user.delete("main", "orphan")
        scene.lake.clock.advance(3 * DAY)
        record = run_gc(_context(scene, keep_runs=1), AGED, SweepRequest())
    return record


def test_an_optimised_run_still_has_what_it_builds_on(make_scene: MakeScene) -> None:
    """The run that was swept last stays whole, also when newer runs only marked."""
    scene = make_scene()
    swept = run_gc(_context(scene, keep_runs=1), AGED, SweepRequest())
    for _ in range(3):
        scene.lake.clock.advance(timedelta(hours=1))
        run_mark(_context(scene, keep_runs=1), replace(AGED, what=What.COMMITTED))
    scene.lake.clock.advance(3 * DAY)
    record = run_gc(_context(scene, keep_runs=1), AGED, SweepRequest())
    assert record.flow == Flow.OPTIMIZED
    assert any(note.endswith(f"is known from run {swept.run_id}") for note in record.notes)
    assert scene.live["young"] not in scene.present_keys()  # it was young then, and carried


def test_a_mark_can_be_swept_after_its_working_files_went(make_scene: MakeScene) -> None:
    """A listing is read once; what was young at the mark is carried by its sweep."""
    scene = make_scene()
    marked = run_mark(_context(scene), AGED)
    folder = RunFolder(RunId(marked.run_id))
    assert not [key for key in scene.present_keys() if key.startswith(folder.listing)]
    assert scene.sweep(marked.mark_id).status is RunStatus.SWEPT
    scene.lake.clock.advance(3 * DAY)
    record = run_gc(_context(scene), AGED, SweepRequest())
    assert record.flow == Flow.OPTIMIZED
    assert scene.live["young"] not in scene.present_keys()


def test_a_sweep_that_was_interrupted_can_be_resumed_after_any_number_of_runs(
    make_scene: MakeScene,
) -> None:
    """Its mark, its record and the files of its deletions stay."""
    scene = make_scene()
    marked = run_mark(_context(scene), AGED)
    wrap = type("Denying", (DenyingBackend,), {"denied": scene.garbage["orphan-1"]}).wrap()
    with pytest.raises(PartlySweptError):
        run_sweep(scene.context(wrap=wrap), marked.mark_id, SweepRequest())
    _collect_often(scene)
    resumed = run_resume(_context(scene), marked.run_id, SweepRequest())
    assert resumed.status is RunStatus.SWEPT
    assert resumed.objects["deleted"] + resumed.objects["already_gone"] == len(scene.garbage)


def test_what_was_backed_up_can_be_restored_after_any_number_of_runs(
    make_scene: MakeScene,
) -> None:
    """A restore asks the mark what there is; marks without a backup go."""
    scene = make_scene()
    outside = Target(Location.parse(f"mem://{scene.name}-outside/x"), StorageOptions())
    marked = run_mark(_context(scene), AGED)
    run_backup(_context(scene), marked.mark_id, outside)
    scene.sweep(marked.mark_id)
    orphan = scene.upload("main", "another")
    scene.user.delete("main", "another")
    scene.lake.clock.advance(3 * DAY)
    copied = run_gc(_context(scene), AGED, SweepRequest(backup_to=outside.namespace))
    _collect_often(scene)
    run_restore(_context(scene), marked.mark_id, outside)
    assert set(scene.garbage.values()) <= scene.present_keys()
    run_restore(_context(scene), copied.mark_id, outside)
    assert orphan in scene.present_keys()


def test_copies_of_a_sweep_that_ended_in_a_second_try_can_be_restored(
    make_scene: MakeScene,
) -> None:
    """The try that ended it had nothing left to copy, but the one before had copied and deleted."""
    scene = make_scene()
    outside = Target(Location.parse(f"mem://{scene.name}-outside/x"), StorageOptions())
    request = SweepRequest(backup_to=outside.namespace)
    marked = run_mark(_context(scene), AGED)
    wrap = type("Denying", (DenyingBackend,), {"denied": scene.garbage["expired-1"]}).wrap()
    with pytest.raises(PartlySweptError):
        run_sweep(scene.context(wrap=wrap), marked.mark_id, request)
    scene.user.branch("back", scene.expired_commit)
    resumed = run_resume(_context(scene), marked.run_id, request)
    assert resumed.status is RunStatus.SWEPT
    assert scene.left() == {"expired-1"}
    _collect_often(scene)
    run_restore(_context(scene), marked.mark_id, outside)
    assert scene.left() == set(scene.garbage)


@pytest.mark.parametrize("ending", ["", "/", "/part-00000.parquet"])
def test_what_a_job_backed_up_can_be_restored_after_any_number_of_runs(
    make_scene: MakeScene, ending: str
) -> None:
    """A job without a server names the mark by its folder, or by the one file in it."""
    scene = make_scene()
    context = _context(scene)
    outside = Target(Location.parse(f"mem://{scene.name}-outside/x"), StorageOptions())
    marked = run_mark(context, AGED)
    namespace = context.resources.target
    lists = replace(namespace, namespace=Location.parse(marked.mark.rstrip("/") + ending))
    engine = InProcessEngine()
    run_listed(BACKUP, engine, Phases("job"), lists, namespace, outside)
    scene.sweep(marked.mark_id)
    _collect_often(scene)
    run_restore(_context(scene), marked.mark_id, outside)
    assert scene.left() == set(scene.garbage)


def test_runs_older_than_ninety_days_go_though_they_are_few(make_scene: MakeScene) -> None:
    """The newest stays whatever its age, and what is not ours stays."""
    scene = make_scene()
    old = run_gc(_context(scene), AGED, SweepRequest())
    theirs = [
        f"{GC}addresses/run_id=older-client/part-0.parquet",
        f"{GC}addresses/mark_id=somebody/part-0.parquet",
        f"{GC}uncommitted/somebody/uncommitted/part-0.parquet",
        f"{GC}commits/run_id=somebody/commits.csv",
        f"{GC}lakesweep/events/notes.txt",
    ]
    for key in theirs:
        scene.put(key, b"theirs", days_ago=300)
    scene.lake.clock.advance(95 * DAY)
    scene.upload("main", "orphan")
    scene.user.delete("main", "orphan")
    scene.lake.clock.advance(3 * DAY)
    new = run_gc(_context(scene, keep_runs=30), AGED, SweepRequest())
    assert new.status is RunStatus.SWEPT
    assert [run.run_id for run in list_runs(scene.store)] == [new.run_id]
    lasting = ("events/", "ranges/")  # what was deleted, and the cache of ranges
    left = [key for key in scene.present_keys() if old.run_id in key]
    assert not [key for key in left if not any(name in key for name in lasting)]
    assert set(theirs) <= scene.present_keys()


def test_a_dry_run_counts_what_would_go_and_removes_nothing(make_scene: MakeScene) -> None:
    """The same runs and files that the next pruning removes."""
    scene = make_scene()
    for _ in range(3):
        scene.lake.clock.advance(timedelta(hours=1))
        scene.mark()
    before = scene.present_keys()
    resources = scene.context().resources
    now = scene.lake.clock()
    would = prune_own_files(resources, 1, now, dry_run=True)
    assert scene.present_keys() == before
    assert len(would.runs) == 2
    assert prune_own_files(resources, 1, now) == would
    assert len(before - scene.present_keys()) == would.files


def test_a_users_own_dump_of_refs_stays_whole(make_scene: MakeScene) -> None:
    """Files are named by what they hold, so a dump of ours may be the user's own."""
    scene = make_scene()
    scene.lake.client.dump_refs(scene.name)
    manifest = scene.store.read(MANIFEST_KEY)
    files = {key for key in _ours(scene) if not key.startswith(GC)}
    scene.lake.clock.advance(DAY)
    _collect_often(scene)
    scene.upload("main", "base", "new")
    scene.user.commit("main")
    committed = {key for key in _ours(scene) if not key.startswith(GC)} - files
    _collect_often(scene)
    assert scene.store.read(MANIFEST_KEY) == manifest
    assert files <= scene.present_keys()
    left = {key for key in _ours(scene) if not key.startswith(GC)} - files - committed
    entities = [open_table(scene.store.read(key)).properties.user["entity"] for key in left]
    assert b"commit" not in entities


def test_a_users_dump_before_the_last_stays_whole(make_scene: MakeScene) -> None:
    """Its branches may stand again where they stood then, and a dump of ours has the same file of them."""
    scene = make_scene()
    before = scene.retained_commit
    scene.user.hard_reset("main", before)
    scene.lake.client.dump_refs(scene.name)
    files = {key for key in _ours(scene) if not key.startswith(GC)}
    scene.upload("main", "base", "new")
    scene.user.commit("main")
    scene.lake.client.dump_refs(scene.name)
    scene.user.hard_reset("main", before)
    scene.lake.clock.advance(DAY)
    _collect_often(scene)
    assert files <= scene.present_keys()


def test_a_repository_that_nobody_dumped_has_no_dump_after_a_run(make_scene: MakeScene) -> None:
    """A dump has served when it is read."""
    scene = make_scene()
    before = {key for key in _ours(scene) if not key.startswith(GC)}
    scene.gc()
    assert {key for key in _ours(scene) if not key.startswith(GC)} == before
    assert not [
        key for key in _ours(scene) if key.startswith((f"{GC}commits/", f"{GC}lakesweep/served"))
    ]
