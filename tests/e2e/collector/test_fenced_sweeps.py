"""Users who revive objects between a sweep's look and its deletes: the embedded lake refuses, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.values import ServerProfile
from lakesweep.collector.lakefs.request import MarkRequest
from lakesweep.collector.record import RunRecord
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.sweep import Sweep
from lakesweep.errors import CatalogError, LakesweepError
from lakesweep.lake.values import Repository
from lakesweep_testing.embedded import EmbeddedLake
from lakesweep_testing.user import RefusedError, User


class Story:
    """A repository in which `a` was committed, deleted and committed, so long ago that it is to go."""

    def __init__(self, lake: EmbeddedLake, name: str) -> None:
        self.lake, self.name = lake, name
        self.user = user = lake.new_user(name)
        user.set_rules(1)
        user.upload("main", "kept")
        user.commit("main")
        self.address = user.upload("main", "a")
        self.old = user.commit("main")
        user.delete("main", "a")
        self.deletion = user.commit("main")
        lake.date_file(self.address)
        lake.clock.advance(timedelta(days=30))
        self.mark_id = lake.mark(name, MarkRequest()).mark_id

    @property
    def is_there(self) -> bool:
        return self.lake.file_of(self.address).exists()

    def sweep(self) -> RunRecord:
        return self.lake.sweep(self.name, self.mark_id)


_numbers = iter(range(1000))


@pytest.fixture
def story(lake: EmbeddedLake) -> Story:
    return Story(lake, f"fenced-{next(_numbers)}")


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """`between(act)`: act after the look that authorises the deletes, and before them."""

    def arrange(act: Callable[[], None]) -> None:
        real = Sweep._delete_round

        def acted(sweep: Sweep, *arguments: object) -> object:
            act()
            return real(sweep, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Sweep, "_delete_round", acted)

    return arrange


_REVIVALS: dict[str, Callable[[User, Story], None]] = {
    "branch": lambda user, story: user.branch("back", story.old),
    "tag": lambda user, story: user.tag("back", story.old),
    "revert": lambda user, story: user.revert("main", story.deletion),
    "cherry-pick": lambda user, story: user.cherry_pick("main", story.old),
    "hard reset": lambda user, story: user.hard_reset("main", story.old),
    "merge": lambda user, story: user.merge(story.old, "side"),
    "longer rules": lambda user, story: user.set_rules(400),
    "no rules": lambda user, story: user.clear_rules(),
}


def test_revival_between_look_and_delete_is_refused(
    story: Story, between: Callable[[Callable[[], None]], None]
) -> None:
    """It is answered with 409, the sweep goes on, and no ref reads an object that is gone."""
    story.user.branch("side", f"{story.old}~1")
    refused: list[str] = []

    def revive() -> None:
        for how, act in _REVIVALS.items():
            with pytest.raises(RefusedError, match=" 409 "):
                act(story.user, story)
            refused.append(how)

    between(revive)
    assert story.sweep().objects["deleted"] == 1
    assert refused == list(_REVIVALS)
    assert not story.is_there
    for branch in story.user.branches():
        assert "a" not in story.user.paths(branch)


def test_without_the_fence_it_is_lost(
    story: Story,
    between: Callable[[Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a server without fences the same branch is made, and reads 410: the window that is documented."""
    monkeypatch.setattr(ServerProfile, "fences_sweeps", False)
    between(lambda: story.user.branch("back", story.old))
    story.sweep()
    assert story.user.status("back", "a") == 410


def test_revival_before_the_fence_is_seen(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch made just before the fence stands is seen by the look behind it, and keeps its objects."""
    real = LakeFSClient.put_up_fence

    def late(client: LakeFSClient, *arguments: object) -> None:
        story.user.branch("back", story.old)
        real(client, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(LakeFSClient, "put_up_fence", late)
    assert story.sweep().objects["revived"] == 1
    assert story.user.status("back", "a") == 200


def test_other_work_goes_on_beside_a_sweep(
    story: Story, between: Callable[[Callable[[], None]], None]
) -> None:
    """Whatever does not touch the objects that go: uploads, copies, commits, branches, merges, tags."""

    def work() -> None:
        user = story.user
        user.upload("main", "new")
        user.copy("main", "new", "copy")
        user.copy("main", "kept", "copy of kept")
        user.commit("main")
        user.branch("work", "main")
        user.upload("work", "more")
        user.commit("work")
        user.merge("work", "main")
        user.tag("v1", "main")

    between(work)
    assert story.sweep().objects["deleted"] == 1
    for path in ("new", "copy", "copy of kept", "more"):
        assert story.user.status("main", path) == 200


def test_the_fence_is_lifted_after_the_sweep(story: Story) -> None:
    """Rules can be set again; a branch of the old commit can be made, and reads 410 as it always has."""
    story.sweep()
    assert not story.lake.server.lake.fence.read(_record(story)).state.batches
    story.user.set_rules(400)
    story.user.branch("back", story.old)
    assert story.user.status("back", "a") == 410


def test_nothing_is_deleted_when_the_fence_can_not_be_put_up(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doubt keeps data."""

    def fail(*_arguments: object) -> None:
        raise CatalogError("the server does not answer")

    monkeypatch.setattr(LakeFSClient, "put_up_fence", fail)
    with pytest.raises(LakesweepError):
        story.sweep()
    assert story.is_there


def test_a_sweep_that_breaks_off_leaves_its_fence(
    story: Story, between: Callable[[Callable[[], None]], None]
) -> None:
    """Its deletes may still arrive; the fence ends by itself, and its addresses are forgotten."""

    def die() -> None:
        raise LakesweepError("gone")

    between(die)
    with pytest.raises(LakesweepError):
        story.sweep()
    with pytest.raises(RefusedError, match="409"):
        story.user.branch("back", story.old)
    lake = story.lake.server.lake
    [until] = lake.fence.read(_record(story)).state.batches.values()
    lake.housekeeping.run(until + timedelta(days=2))
    assert not lake.fence.read(_record(story)).state.batches


def test_a_dry_run_puts_up_no_fence(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """It only looks."""
    monkeypatch.setattr(LakeFSClient, "put_up_fence", None)
    story.lake.sweep(story.name, story.mark_id, SweepRequest(dry_run=True))
    assert story.is_there


def _record(story: Story) -> Repository:
    return story.lake.server.lake.repositories.get(story.name)
