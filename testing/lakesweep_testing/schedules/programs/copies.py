"""Copies and renames of staged objects beside commits and collections."""

from __future__ import annotations

from lakesweep.domain.commits import BranchId
from lakesweep.domain.rules import RetentionRules
from lakesweep_testing.schedules.collection import collect
from lakesweep_testing.schedules.program import program
from lakesweep_testing.schedules.running import Act, Actor
from lakesweep_testing.schedules.users import commit, copy, delete, move
from lakesweep_testing.schedules.world import World


def staged_object(world: World) -> None:
    """An old object, staged at `m` and in no commit, behind another at `c`."""
    world.upload("main", "c", "other")
    world.upload("main", "m", "old")
    world.pass_time(days=3)


@program("copy-commit")
def copy_beside_commit(world: World) -> dict[str, Act]:
    """A shallow copy of a staged object, whose source a commit takes along meanwhile."""
    staged_object(world)
    return {"copier": lambda actor: copy(actor, "m", "b"), "committer": commit}


@program("copy-collect")
def copy_beside_collection(world: World) -> dict[str, Act]:
    """A shallow copy, and the deletion of its source by somebody else, beside a collection."""
    staged_object(world)
    return {
        "copier": lambda actor: copy(actor, "m", "b"),
        "deleter": lambda actor: delete(actor, "m"),
        "collector": collect,
    }


@program("rename-collect")
def rename_beside_collection(world: World) -> dict[str, Act]:
    """A rename moves an entry behind a collection that has passed the new place."""
    staged_object(world)
    return {"mover": lambda actor: move(actor, "m", "b"), "collector": collect}


@program("describe-collect")
def new_metadata_beside_collection(world: World) -> dict[str, Act]:
    """New metadata stage a committed entry once more, while a commit by others takes its path away; nothing is retained."""
    world.lake.rules.set(world.repository, RetentionRules(1, {BranchId("main"): 0}))
    world.upload("main", "m", "old")
    world.commit()
    world.pass_time(days=10)

    def describe(actor: Actor) -> None:
        actor.lake.copying.set_user_metadata(actor.repository, "main", "m", {"a": "b"})

    def remove(actor: Actor) -> None:
        delete(actor, "m")
        commit(actor)

    return {"describer": describe, "remover": remove, "collector": collect}
