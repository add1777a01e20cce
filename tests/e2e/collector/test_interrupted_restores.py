"""A restore that stops half-way has promised what it would bring back, and no sweep takes that away again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lakesweep.collector.lakefs.backup_restore import run_backup, run_restore
from lakesweep.collector.lakefs.collect import run_resume, run_sweep
from lakesweep.collector.lakefs.paths import EVENTS
from lakesweep.collector.lakefs.request import Flow, What
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.errors import UnsafeToSweepError
from lakesweep.storage import StorageOptions
from lakesweep_testing.scene import AGED, LEASES, Scene
from lakesweep_testing.trouble import MeddlingBackend, with_resources

MakeScene = Callable[..., Scene]


class KilledError(KeyboardInterrupt):
    """The driver ended here."""


def outside() -> Target:
    location = Location.parse(f"mem://outside-{uuid.uuid4().hex[:8]}/backup")
    return Target(location, StorageOptions(first_pause_seconds=0.001))


def killed_restore(scene: Scene, mark_id: str, backup: Target, *, after: int) -> set[str]:
    """Restores until so many objects have come back, then dies; the names of those."""
    written: list[str] = []

    def die(operation: str, key: str) -> None:
        if operation == "write" and key in scene.garbage.values():
            if len(written) >= after:
                raise KilledError
            written.append(key)

    with pytest.raises(KilledError):
        run_restore(scene.context(wrap=MeddlingBackend.wrap(die)), mark_id, backup)
    scene.release_lease()
    back = scene.left()
    assert back
    return back


@pytest.mark.parametrize("after", [1, 3])
def test_sweep_keeps_what_an_interrupted_restore_brought_back(scene: Scene, after: int) -> None:
    """An earlier mark names the same objects with their old dates; they are as young as the restore."""
    backup = outside()
    earlier = scene.mark(replace(AGED, mark_id="earlier"))
    swept = scene.mark(replace(AGED, mark_id="swept"))
    run_backup(scene.context(), swept.mark_id, backup)
    scene.sweep(swept.mark_id)
    assert not scene.left()
    back = killed_restore(scene, swept.mark_id, backup, after=after)
    scene.sweep(earlier.mark_id)
    assert scene.left() == back


def test_a_restore_from_a_machine_whose_clock_is_behind_keeps_its_promise(scene: Scene) -> None:
    """No run touches what was restored for the minimum age, by the store's clock: also what was found in its place."""
    backup = outside()
    marked = scene.mark()
    run_backup(scene.context(), marked.mark_id, backup)
    two_days_ago = scene.lake.clock.now - timedelta(days=2)
    behind = with_resources(scene.context(), clock=lambda: two_days_ago)
    assert run_restore(behind, marked.mark_id, backup).objects["already_there"]
    scene.gc(replace(AGED, flow=Flow.CLEAN))
    assert scene.left() == set(scene.garbage)


def test_a_restore_that_lost_its_lease_before_its_promise_brings_nothing_back(
    scene: Scene,
) -> None:
    """A sweep that took the lease over may have read all promises already, and would delete what comes back."""
    backup = outside()
    marked = scene.mark()
    run_backup(scene.context(), marked.mark_id, backup)
    scene.sweep(marked.mark_id)

    def take_over(operation: str, key: str) -> None:
        if operation == "write" and key.startswith(EVENTS):
            lease = {"owner": "o", "host": "h", "pid": 1, "purpose": "sweep", "released": False}
            scene.put(f"{LEASES}{10**11}.json", json.dumps(lease).encode())

    context = scene.context(wrap=MeddlingBackend.wrap(take_over))
    with pytest.raises(UnsafeToSweepError) as caught:
        run_restore(context, marked.mark_id, backup)
    assert caught.value.kind == "lease-lost"
    assert not scene.left()


def test_resumed_sweep_keeps_what_an_interrupted_restore_brought_back(scene: Scene) -> None:
    """The sweep died before it could tell of its deletes, so going on with it would delete the same keys again."""
    backup = outside()
    marked = scene.mark()
    run_backup(scene.context(), marked.mark_id, backup)

    def die(operation: str, key: str) -> None:
        if operation == "write" and key.startswith(EVENTS):
            raise KilledError

    with pytest.raises(KilledError):
        run_sweep(scene.context(wrap=MeddlingBackend.wrap(die)), marked.mark_id, SweepRequest())
    scene.release_lease()
    assert not scene.left()
    back = killed_restore(scene, marked.mark_id, backup, after=2)
    run_resume(scene.context(), marked.run_id, SweepRequest())
    assert scene.left() == back


@pytest.mark.parametrize("what", list(What))
def test_restore_protects_what_was_there_all_along(make_scene: MakeScene, what: What) -> None:
    """An object that a restore finds in its place is old in the store, and young by the restore's own time."""
    scene = make_scene()
    backup = outside()
    marked = scene.mark()
    run_backup(scene.context(), marked.mark_id, backup)
    restored = run_restore(scene.context(), marked.mark_id, backup)
    assert restored.objects["already_there"] == len(scene.garbage)
    clean = replace(AGED, what=what, flow=Flow.CLEAN)
    assert not scene.marked(scene.mark(clean).mark_id), "no mark names it"
    scene.sweep(marked.mark_id)
    assert scene.left() == set(scene.garbage), "no sweep deletes it"
    scene.lake.clock.advance(timedelta(hours=25))
    assert scene.marked(scene.mark(clean).mark_id), "until it has aged"


def test_what_an_interrupted_restore_brought_back_is_found_again(make_scene: MakeScene) -> None:
    """It lies in slices that an optimised run does not list, and commits call it gone: the promise names it."""
    scene = make_scene()
    backup = outside()
    marked = scene.mark()
    run_backup(scene.context(), marked.mark_id, backup)
    scene.sweep(marked.mark_id)
    killed_restore(scene, marked.mark_id, backup, after=3)
    scene.lake.clock.advance(timedelta(days=3))
    again = scene.gc()
    assert again.flow == Flow.OPTIMIZED, again.notes
    assert not scene.left()
