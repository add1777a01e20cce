"""What brings an expired commit's objects back to life, beside a sweep that is about to delete them.

Between the look that authorises a round and the round's deletes a server that knows nothing of the sweep lets objects
come back to life (DESIGN rule 7): the `…-unfenced` programs find that window. The embedded lake's fence closes it.
"""

from __future__ import annotations

from collections.abc import Callable

from lakesweep.domain.commits import CommitId
from lakesweep.domain.rules import RetentionRules
from lakesweep_testing.schedules.collection import find_planned, sweep_planned
from lakesweep_testing.schedules.program import Program, register
from lakesweep_testing.schedules.running import Act, Actor
from lakesweep_testing.schedules.world import World

WINDOW = "the look and the deletes of a round are two steps, and no fence stands between (rule 7)"

Revive = Callable[[World], Act]
"""Prepares the world, and gives what revives something in it."""


def beside_sweep(name: str, *, keep_tags: bool = False) -> Callable[[Revive], Revive]:
    """Register two programs: the revival beside a sweep with a fence, and beside one without."""

    def add(revive: Revive) -> Revive:
        def fenced(world: World) -> dict[str, Act]:
            user = revive(world)
            return {"user": user, "sweeper": sweep_planned(find_planned(world), is_fenced=True)}

        def unfenced(world: World) -> dict[str, Act]:
            user = revive(world)
            return {"user": user, "sweeper": sweep_planned(find_planned(world), is_fenced=False)}

        fenced.__doc__ = unfenced.__doc__ = revive.__doc__
        register(Program(f"{name}-sweep", fenced, keep_tags=keep_tags))
        register(Program(f"{name}-sweep-unfenced", unfenced, WINDOW, keep_tags=keep_tags))
        return revive

    return add


def expired_commits(world: World) -> tuple[CommitId, CommitId]:
    """A commit that holds `m`, the one after it that does not, both long ago; only the second is retained."""
    world.upload("main", "c", "other")
    world.upload("main", "m", "old")
    holding = world.commit()
    world.delete("main", "m")
    removing = world.commit()
    world.pass_time(days=10)
    return holding, removing


@beside_sweep("revert")
def revert_beside_sweep(world: World) -> Act:
    """A revert brings a deleted path back while a sweep deletes its bytes."""
    _, removing = expired_commits(world)

    def revert(actor: Actor) -> None:
        actor.lake.reverting.revert(actor.repository, "main", removing, committer="user")

    return revert


@beside_sweep("cherry-pick")
def cherry_pick_beside_sweep(world: World) -> Act:
    """An expired commit is picked onto main once more while a sweep deletes what it holds."""
    world.upload("main", "c", "other")
    world.commit()
    world.upload("main", "m", "old")
    holding = world.commit()
    world.delete("main", "m")
    world.commit()
    world.pass_time(days=10)

    def pick(actor: Actor) -> None:
        actor.lake.reverting.cherry_pick(actor.repository, "main", holding, committer="user")

    return pick


@beside_sweep("branch-from-commit")
def branch_beside_sweep(world: World) -> Act:
    """A branch is made at an expired commit while a sweep deletes what it holds."""
    holding, _ = expired_commits(world)

    def branch(actor: Actor) -> None:
        actor.lake.refs.create_branch(actor.repository, "rescue", holding)

    return branch


@beside_sweep("tag", keep_tags=True)
def tag_beside_sweep(world: World) -> Act:
    """A tag is put on an expired commit while a sweep that honours tags deletes what it holds."""
    holding, _ = expired_commits(world)

    def tag(actor: Actor) -> None:
        actor.lake.refs.create_tag(actor.repository, "v1", holding)

    return tag


@beside_sweep("reset")
def hard_reset_beside_sweep(world: World) -> Act:
    """A branch is set back to an expired commit while a sweep deletes what it holds."""
    holding, _ = expired_commits(world)

    def set_back(actor: Actor) -> None:
        actor.lake.resetting.hard_reset(actor.repository, "main", holding)

    return set_back


@beside_sweep("merge")
def merge_of_commit_beside_sweep(world: World) -> Act:
    """An expired commit of a branch that is gone is merged by its id while a sweep deletes what it holds."""
    world.upload("main", "c", "other")
    world.commit()
    world.lake.refs.create_branch(world.repository, "dev", "main")
    world.upload("dev", "m", "old")
    holding = world.commit("dev")
    world.promises.pop(("dev", "m"))
    world.lake.branches.delete(world.repository, "dev")
    world.pass_time(days=10)

    def merge(actor: Actor) -> None:
        actor.lake.merging.merge(actor.repository, holding, "main", committer="user")

    return merge


@beside_sweep("restore")
def restore_beside_sweep(world: World) -> Act:
    """Refs are restored from a dump that has a branch at a commit which expired since."""
    holding, _ = expired_commits(world)
    world.lake.refs.create_branch(world.repository, "gone", holding)
    manifest = world.lake.dumping.dump(world.repository)
    world.lake.branches.delete(world.repository, "gone")
    world.pass_time(days=10)

    def restore(actor: Actor) -> None:
        actor.lake.dumping.restore(actor.repository, manifest)

    return restore


@beside_sweep("longer-rules")
def longer_rules_beside_sweep(world: World) -> Act:
    """Rules are made longer, so that an expired commit is retained again, while a sweep deletes what it holds."""
    expired_commits(world)

    def keep_longer(actor: Actor) -> None:
        actor.lake.rules.set(actor.repository, RetentionRules(30))
        actor.world.rules = RetentionRules(30)

    return keep_longer
