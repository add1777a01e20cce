"""What a sweep refuses, or does not do twice, and what it then says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lakesweep.collector import guards as confirmation
from lakesweep.collector import request as request_module
from lakesweep.collector.lakefs.between_runs.history import load_run
from lakesweep.collector.lakefs.collect import held_lease, run_mark
from lakesweep.collector.lakefs.paths import RunFolder
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.run_files import RunId
from lakesweep.errors import (
    ConfigError,
    StorageDeniedError,
    UnsafeToSweepError,
)
from lakesweep_testing.scene import AGED, Scene, assert_adds_up
from lakesweep_testing.trouble import MeddlingBackend

MakeScene = Callable[..., Scene]


def test_mark_of_another_repository_is_refused(scene: Scene, make_scene: MakeScene) -> None:
    """Even when its files were copied over, a mark belongs to the repository it was made for."""
    other = make_scene()
    marked = other.mark()
    for key in other.present_keys():
        if key.startswith("_lakefs/retention/gc/"):
            scene.store.write(key, other.store.read(key))
    with pytest.raises(UnsafeToSweepError, match="was made for") as caught:
        scene.sweep(marked.mark_id)
    assert caught.value.kind == "other-repository"
    assert scene.left() == set(scene.garbage)


def test_mark_of_a_run_that_failed_is_refused(scene: Scene) -> None:
    """A run that died while it marked left files, and they are no mark."""

    def die(operation: str, key: str) -> None:
        if operation == "write" and key.startswith("_lakefs/retention/gc/lakesweep/marks/"):
            raise StorageDeniedError("not allowed (injected)")

    context = scene.context(wrap=MeddlingBackend.wrap(die))
    with pytest.raises(StorageDeniedError):
        run_mark(context, replace(AGED, mark_id="failed-one"))
    with pytest.raises(ConfigError, match="no finished mark"):
        scene.sweep("failed-one")
    with pytest.raises(ConfigError, match="is in use"):
        scene.mark(replace(AGED, mark_id="failed-one"))
    assert scene.left() == set(scene.garbage)


def test_mark_that_was_swept_already_is_a_no_op_that_says_so(scene: Scene) -> None:
    """The second sweep does nothing, also when an object came back under the same address."""
    marked = scene.mark()
    scene.sweep(marked.mark_id)
    scene.put(scene.garbage["orphan-0"], b"restored by hand", days_ago=30)
    again = scene.sweep(marked.mark_id)
    assert any("was swept already" in note for note in again.notes)
    assert scene.left() == {"orphan-0"}


def test_plan_past_the_blast_radius_stops_until_it_is_confirmed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than the share: nothing is deleted, and only the plan's own id lets it pass."""
    monkeypatch.setattr(confirmation, "SMALL_PLAN_OBJECTS", 5)
    marked = scene.mark()
    with pytest.raises(UnsafeToSweepError, match=marked.plan_id) as caught:
        scene.sweep(marked.mark_id, SweepRequest(max_delete_share=20))
    assert caught.value.kind == "blast-radius"
    assert scene.left() == set(scene.garbage)
    with pytest.raises(ConfigError, match="another plan"):
        scene.sweep(marked.mark_id, SweepRequest(max_delete_share=20, confirm="0123456789abcdef"))
    assert scene.left() == set(scene.garbage)
    scene.sweep(marked.mark_id, SweepRequest(max_delete_share=20, confirm=marked.plan_id))
    assert not scene.left()


def test_default_share_is_half_and_small_plans_go_without_asking(scene: Scene) -> None:
    """What INTERFACE promises about the defaults."""
    assert request_module.DEFAULT_MAX_DELETE_SHARE == 50
    assert confirmation.SMALL_PLAN_OBJECTS == 1000
    assert confirmation.SMALL_PLAN_BYTES == 10 * 1024**3
    scene.gc()
    assert not scene.left()


def test_dry_run_deletes_nothing_and_gives_the_real_numbers(scene: Scene) -> None:
    """The same road without the last step: what it says would go is what goes."""
    marked = scene.mark()
    dry = scene.sweep(marked.mark_id, SweepRequest(dry_run=True))
    assert scene.left() == set(scene.garbage)
    assert dry.status is RunStatus.MARKED
    assert any(f"{len(scene.garbage)} objects" in note for note in dry.notes)
    assert scene.sweep(marked.mark_id).objects["deleted"] == len(scene.garbage)


def test_lease_is_free_again_after_every_end(scene: Scene) -> None:
    """A refused, a failed and a finished run all give the lease back."""
    with pytest.raises(ConfigError):
        scene.sweep("no-such-mark")
    with held_lease(scene.context(), "test") as lease:
        lease.assert_held()
    scene.gc()
    with held_lease(scene.context(), "test") as lease:
        lease.assert_held()


def test_record_of_a_swept_run_has_what_became_of_every_object(scene: Scene) -> None:
    """Objects and bytes add up in the record that lies in the store."""
    record = scene.gc()
    saved = load_run(scene.store, scene.name, record.run_id)
    assert saved.objects == record.objects
    assert_adds_up(saved)
    assert saved.bytes["deleted"] == saved.bytes["garbage"] > 0
    assert RunFolder(RunId(record.run_id)).record in scene.present_keys()
