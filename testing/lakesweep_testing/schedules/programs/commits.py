"""Commits and merges beside a collection that reads staged entries first and commits after."""

from __future__ import annotations

from lakesweep_testing.schedules.collection import collect
from lakesweep_testing.schedules.program import program
from lakesweep_testing.schedules.programs.copies import staged_object
from lakesweep_testing.schedules.running import Act, Actor
from lakesweep_testing.schedules.users import commit, one_by_one, upload
from lakesweep_testing.schedules.world import World


@program("commit-prepare")
def commit_beside_prepare(world: World) -> dict[str, Act]:
    """A commit moves entries from where a collection has not been yet to where it has."""
    staged_object(world)
    return {"committer": commit, "collector": collect}


@program("commit-commit")
def two_commits(world: World) -> dict[str, Act]:
    """Two commits race; the one that comes late is made again, and holds what both have."""
    staged_object(world)
    return {
        "committer": commit,
        "other": one_by_one(lambda actor: upload(actor, "x", "new"), commit),
    }


@program("merge-collect")
def merge_beside_collection(world: World) -> dict[str, Act]:
    """A branch is merged and deleted while a collection reads heads, moves and commits."""
    world.upload("main", "c", "other")
    world.commit()
    world.lake.refs.create_branch(world.repository, "dev", "main")
    world.upload("dev", "m", "old")
    world.commit("dev")
    world.pass_time(days=10)

    def merge(actor: Actor) -> None:
        actor.lake.merging.merge(actor.repository, "dev", "main", committer="user")
        actor.promise("main", "m", "old")
        actor.withdraw("dev", "m")
        actor.lake.branches.delete(actor.repository, "dev")

    return {"merger": merge, "collector": collect}
