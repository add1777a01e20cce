"""Backup, restore and `--backup-to`: nothing is deleted whose copy was not verified, and what was copied comes back."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.collector.lakefs.backup_restore import run_backup, run_restore
from lakesweep.collector.lakefs.between_runs.history import load_run
from lakesweep.collector.lakefs.collect import run_gc, run_resume, run_sweep
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.request import Flow, What
from lakesweep.collector.parts import Part
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.sweep import Sweep
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError, PartlySweptError, StorageError
from lakesweep.storage import StorageOptions
from lakesweep.storage.memory import MemoryContainer, _Stored, memory_container
from lakesweep_testing.scene import AGED, Scene, assert_adds_up
from lakesweep_testing.trouble import MeddlingBackend, as_a_real_server, with_resources

COMMITTED = replace(AGED, what=What.COMMITTED)


class Outside:
    """A place outside the namespace, in memory."""

    def __init__(self) -> None:
        self.name = f"outside-{uuid.uuid4().hex[:8]}"
        self.location = Location.parse(f"mem://{self.name}/backup")
        self.container: MemoryContainer = memory_container(self.name)

    def target(self, context: RunContext) -> Target:
        return Target(self.location, context.resources.target.storage)

    @property
    def request(self) -> SweepRequest:
        return SweepRequest(backup_to=self.location)

    def copies(self) -> set[str]:
        return {key.removeprefix("backup/") for key in self.container.objects}


@pytest.fixture
def outside() -> Outside:
    return Outside()


def test_gc_with_a_backup_deletes_what_was_copied(scene: Scene, outside: Outside) -> None:
    """Every deleted object lies in the backup with its bytes, and nothing else does."""
    before = {a: scene.store.read(a) for a in scene.garbage.values()}
    record = run_gc(scene.context(), AGED, outside.request)
    assert not scene.left()
    assert_adds_up(record)
    assert outside.copies() == set(scene.garbage.values())
    for address, data in before.items():
        assert outside.container.objects[f"backup/{address}"].data == data
    assert record.backup_to == ""
    scene.assert_nothing_else_gone()


def test_what_comes_back_to_life_while_it_is_copied_is_kept(
    make_scene: Callable[..., Scene], outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copying takes hours, and a server without a fence lets a branch be made of an expired commit meanwhile."""
    scene = make_scene()
    back_up = Sweep._back_up

    def slow_back_up(sweep: Sweep, parts: Sequence[Part]) -> list[Part]:
        copied = back_up(sweep, parts)
        scene.user.branch("back", scene.expired_commit)
        return copied

    monkeypatch.setattr(Sweep, "_back_up", slow_back_up)
    run_gc(scene.context(transport=as_a_real_server()), AGED, outside.request)
    assert scene.left() == {name for name in scene.garbage if name.startswith("expired")}
    scene.assert_everything_reads()


def test_other_content_under_the_same_address_is_neither_replaced_nor_deleted_past(
    scene: Scene, outside: Outside
) -> None:
    """A backup that holds something else there already: that object stays, all others go, and the run says so."""
    address = scene.garbage["orphan-1"]
    outside.container.store(f"backup/{address}", b"something else")
    marked = scene.mark()
    with pytest.raises(PartlySweptError, match="other content") as caught:
        run_sweep(scene.context(), marked.mark_id, outside.request)
    assert "--backup-to" in caught.value.message
    assert scene.left() == {"orphan-1"}
    assert outside.container.objects[f"backup/{address}"].data == b"something else"
    record = load_run(scene.store, scene.name, marked.run_id)
    assert_adds_up(record)
    with pytest.raises(ConfigError, match="--backup-to"):
        run_resume(scene.context(), marked.run_id, SweepRequest())
    assert scene.left() == {"orphan-1"}
    del outside.container.objects[f"backup/{address}"]
    resumed = run_resume(scene.context(), marked.run_id, outside.request)
    assert resumed.status is RunStatus.SWEPT
    assert_adds_up(resumed)
    assert address in outside.copies()


def test_a_begun_sweep_with_copies_goes_on_with_copies_on_every_road(
    scene: Scene, outside: Outside
) -> None:
    """`sweep`, and so a job with do_mark=false that is tried again, goes on as `runs resume` does."""
    outside.container.store(f"backup/{scene.garbage['orphan-1']}", b"something else")
    marked = scene.mark()
    with pytest.raises(PartlySweptError):
        run_sweep(scene.context(), marked.mark_id, outside.request)
    with pytest.raises(ConfigError, match="--backup-to") as refused:
        run_sweep(scene.context(), marked.mark_id, SweepRequest())
    assert refused.value.kind == "no-backup-to"
    assert scene.left() == {"orphan-1"}


def test_backup_that_can_not_be_written_deletes_nothing(scene: Scene, tmp_path: Path) -> None:
    """No copy, no delete; nothing was deleted, so it is the store's refusal and not a half-done sweep."""
    (tmp_path / "a-file").write_text("in the way")
    to = Location.parse(f"file://{tmp_path}/a-file/below")
    marked = scene.mark()
    with pytest.raises(StorageError, match="Nothing was deleted") as caught:
        run_sweep(scene.context(), marked.mark_id, SweepRequest(backup_to=to))
    assert caught.value.exit_status == 3
    assert scene.left() == set(scene.garbage)
    assert load_run(scene.store, scene.name, marked.run_id).status is RunStatus.FAILED


def test_copy_that_is_not_the_original_is_not_deleted_past(scene: Scene, outside: Outside) -> None:
    """Bytes that change on the way: the copy differs from the original, so the original stays."""
    spoiled = scene.garbage["expired-1"]
    reads = 0

    def spoil(key: str, data: bytes) -> bytes:
        nonlocal reads
        if key == spoiled:
            reads += 1
            return data[:-1] + bytes([reads % 256])  # never the same twice
        return data

    marked = scene.mark()
    with pytest.raises(PartlySweptError, match="differs from the original"):
        run_sweep(
            scene.context(wrap=MeddlingBackend.wrap(change=spoil)), marked.mark_id, outside.request
        )
    assert scene.left() == {"expired-1"}
    assert spoiled not in outside.copies(), "a bad copy does not stand in the way of the next try"
    scene.assert_nothing_else_gone()
    run_resume(scene.context(), marked.run_id, outside.request)
    assert not scene.left()
    assert spoiled in outside.copies()


def encrypted(container: MemoryContainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the etags of a container look like MD5 sums and are none, as with keys of AWS KMS."""
    store = container.store

    def store_encrypted(key: str, data: bytes) -> _Stored:
        container.objects[key] = stored = replace(store(key, data), etag=f'"{uuid.uuid4().hex}"')
        return stored

    monkeypatch.setattr(container, "store", store_encrypted)
    for key, stored in container.objects.items():
        container.objects[key] = replace(stored, etag=f'"{uuid.uuid4().hex}"')


def test_copies_in_an_encrypted_bucket_are_compared_by_their_bytes(
    scene: Scene, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two etags that differ say nothing there, so a backup is verified, deleted past and restored all the same."""
    encrypted(scene.container, monkeypatch)
    encrypted(outside.container, monkeypatch)
    record = run_gc(scene.context(), AGED, outside.request)
    assert record.status is RunStatus.SWEPT
    assert not scene.left()
    assert outside.copies() == set(scene.garbage.values())
    context = scene.context()
    restored = run_restore(context, record.mark_id, outside.target(context))
    assert restored.status is RunStatus.RESTORED
    assert scene.left() == set(scene.garbage)


def test_what_could_not_be_backed_up_is_found_by_the_next_optimized_run(
    make_scene: Callable[[], Scene], outside: Outside
) -> None:
    """It lies in a slice that is not listed again."""
    scene = make_scene()
    outside.container.store(f"backup/{scene.garbage['orphan-1']}", b"something else")
    with pytest.raises(PartlySweptError):
        run_gc(scene.context(), AGED, outside.request)
    assert scene.left() == {"orphan-1"}
    scene.lake.clock.advance(timedelta(days=3))
    again = scene.gc()
    assert again.flow == Flow.OPTIMIZED, again.notes
    assert "orphan-1" not in scene.left()


def test_object_that_is_gone_before_its_backup_is_counted_as_gone(
    scene: Scene, outside: Outside
) -> None:
    """It needs no copy and no delete, and the numbers add up."""
    marked = scene.mark()
    scene.store.delete_many([scene.garbage["orphan-2"]])
    record = run_sweep(scene.context(), marked.mark_id, outside.request)
    assert record.objects["already_gone"] == 1
    assert_adds_up(record)
    assert scene.garbage["orphan-2"] not in outside.copies()


@pytest.mark.parametrize("uri", ["mem://{name}/ns/backup", "mem://{name}/ns", "mem://{name}"])
def test_backup_inside_or_around_the_namespace_is_refused(scene: Scene, uri: str) -> None:
    """It would be listed, or swallow the namespace; nothing is copied or deleted."""
    inside = Location.parse(uri.format(name=scene.name))
    marked = scene.mark()
    before = scene.present_keys()
    with pytest.raises(ConfigError, match="overlaps"):
        run_sweep(scene.context(), marked.mark_id, SweepRequest(backup_to=inside))
    context = scene.context()
    for act in (run_backup, run_restore):
        with pytest.raises(ConfigError, match="overlaps"):
            act(context, marked.mark_id, Target(inside, StorageOptions()))
    assert scene.left() == set(scene.garbage)
    assert {k for k in scene.present_keys() - before if not k.startswith("_lakefs/")} == set()


def back_up_and_sweep(scene: Scene, outside: Outside) -> RunRecord:
    marked = scene.mark()
    saved = run_backup(scene.context(), marked.mark_id, outside.target(scene.context()))
    assert saved.status is RunStatus.BACKED_UP
    assert saved.objects["copied"] == len(scene.garbage)
    return scene.sweep(marked.mark_id)


def test_restored_objects_read_again_through_the_server(scene: Scene, outside: Outside) -> None:
    """410 after the sweep, 200 after the restore, under the same address."""
    swept = back_up_and_sweep(scene, outside)
    assert scene.user.status(scene.expired_commit, "expired-0") == 410
    context = scene.context()
    restored = run_restore(context, swept.mark_id, outside.target(context))
    assert restored.status is RunStatus.RESTORED
    assert scene.left() == set(scene.garbage)
    assert scene.user.status(scene.expired_commit, "expired-0") == 200


def test_restore_of_some_addresses_brings_back_these_alone(scene: Scene, outside: Outside) -> None:
    """And an address that the mark does not name is refused."""
    swept = back_up_and_sweep(scene, outside)
    context = scene.context()
    with pytest.raises(ConfigError, match="does not name"):
        run_restore(context, swept.mark_id, outside.target(context), [scene.live["base"]])
    run_restore(context, swept.mark_id, outside.target(context), [scene.garbage["expired-1"]])
    assert scene.left() == {"expired-1"}


def test_restored_objects_are_found_again_by_an_optimized_run(
    make_scene: Callable[[], Scene], outside: Outside
) -> None:
    """They lie in slices that are not listed again, and are young until they have aged anew."""
    scene = make_scene()
    swept = back_up_and_sweep(scene, outside)
    context = scene.context()
    run_restore(context, swept.mark_id, outside.target(context))
    scene.lake.clock.advance(timedelta(hours=1))
    at_once = scene.gc()
    assert scene.left() == set(scene.garbage), "what was restored is young"
    assert at_once.flow == Flow.OPTIMIZED, at_once.notes
    scene.lake.clock.advance(timedelta(days=2))
    later = scene.gc()
    assert later.flow == Flow.OPTIMIZED, later.notes
    assert not scene.left()


def test_backup_given_again_copies_nothing_twice(scene: Scene, outside: Outside) -> None:
    """What is there, and the same, is passed over; so a backup that stopped goes on by being given again."""
    marked = scene.mark()
    context = scene.context()
    run_backup(context, marked.mark_id, outside.target(context))
    del outside.container.objects[f"backup/{scene.garbage['orphan-0']}"]
    again = run_backup(context, marked.mark_id, outside.target(context))
    assert again.objects["copied"] == 1
    assert again.objects["already_there"] == len(scene.garbage) - 1


def test_restore_from_an_incomplete_backup_says_what_is_missing(
    scene: Scene, outside: Outside
) -> None:
    """The others come back, and the one that is nowhere is named."""
    swept = back_up_and_sweep(scene, outside)
    lost = scene.garbage["orphan-0"]
    del outside.container.objects[f"backup/{lost}"]
    context = scene.context()
    with pytest.raises(StorageError, match=lost):
        run_restore(context, swept.mark_id, outside.target(context))
    assert scene.left() == set(scene.garbage) - {"orphan-0"}


def test_restore_after_a_sweep_on_a_machine_that_is_ahead_is_the_later_of_both(
    make_scene: Callable[..., Scene], outside: Outside
) -> None:
    """Deletions and restorations are in order of the store's clock, so what came back is seen by the marks to come."""
    scene = make_scene()
    context = scene.context()
    marked = scene.mark(COMMITTED)
    run_backup(context, marked.mark_id, outside.target(context))
    ahead = with_resources(context, clock=lambda: scene.lake.clock() + timedelta(minutes=9))
    run_sweep(ahead, marked.mark_id, SweepRequest())
    scene.lake.clock.advance(timedelta(minutes=5))
    run_restore(context, marked.mark_id, outside.target(context))
    scene.lake.clock.advance(timedelta(days=2))
    assert scene.marked(scene.mark(COMMITTED).mark_id) == scene.marked(marked.mark_id)
