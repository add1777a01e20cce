"""Online hard delete: a reviewer beside whatever users do to staged objects.

The programs of copies, moves, uploads and commits run once more with hard delete on and a reviewer in the collector's
place; further ones have what only reviews do.
"""

from __future__ import annotations

from collections.abc import Callable

from lakesweep_testing.schedules.program import PROGRAMS, Program, program, register
from lakesweep_testing.schedules.programs import commits, copies, moves, uploads
from lakesweep_testing.schedules.running import Act, Actor
from lakesweep_testing.schedules.users import (
    commit,
    copy,
    delete,
    one_by_one,
    reset,
    try_to_move,
    upload,
)
from lakesweep_testing.schedules.world import World

_WITH_REVIEWER = (copies, moves, uploads, commits)


def review(actor: Actor) -> None:
    """One review of what is due."""
    actor.lake.reviewer.review(actor.repository)


def _reviewed(set_up: Callable[[World], dict[str, Act]]) -> Callable[[World], dict[str, Act]]:
    def with_reviewer(world: World) -> dict[str, Act]:
        acts = set_up(world)
        acts.pop("collector", None)
        if "resetter" in acts:
            acts["resetter"] = reset
        return {**acts, "reviewer": review}

    with_reviewer.__doc__ = set_up.__doc__
    return with_reviewer


for _module in _WITH_REVIEWER:
    for _one in [one for one in PROGRAMS.values() if one.set_up.__module__ == _module.__name__]:
        _name = _one.name.removesuffix("-collect").removesuffix("-prepare")
        register(Program(f"{_name}-review", _reviewed(_one.set_up), hard_delete=True))


@program("overwrite-review", hard_delete=True)
def overwrite_beside_review(world: World) -> dict[str, Act]:
    """A staged object is overwritten; another user copies it meanwhile."""
    copies.staged_object(world)
    return {
        "uploader": lambda actor: upload(actor, "m", "new"),
        "copier": lambda actor: copy(actor, "m", "b", ""),
        "reviewer": review,
    }


@program("dropped-copy-review", hard_delete=True)
def copy_of_dropped_beside_review(world: World) -> dict[str, Act]:
    """An object lost one of its two entries and waits for its review; the other is copied, then deleted."""
    copies.staged_object(world)
    world.lake.copying.copy(world.repository, "main", "b", "m")
    world.pass_time(days=15)  # the copy is not tracked any more
    world.lake.housekeeping.run(world.now)
    world.delete("main", "m")
    world.pass_time(minutes=1)

    def move_on(actor: Actor) -> None:
        copy(actor, "b", "d")
        actor.lake.objects.delete(actor.repository, "main", "b")

    return {"copier": move_on, "reviewer": review}


@program("two-reviewers", hard_delete=True)
def two_reviewers(world: World) -> dict[str, Act]:
    """Two reviewers at once, one perhaps a zombie, beside a copy of what is dropped."""
    copies.staged_object(world)
    return {
        "mover": one_by_one(lambda actor: copy(actor, "m", "b"), lambda actor: delete(actor, "m")),
        "reviewer": review,
        "other": review,
    }


@program("two-reviewers-and-copy", hard_delete=True)
def two_reviewers_and_copy(world: World) -> dict[str, Act]:
    """An object was deleted and is reviewed twice at once while a late copy of it is made."""
    copies.staged_object(world)
    return {
        "copier": lambda actor: copy(actor, "m", "b"),
        "deleter": one_by_one(lambda actor: delete(actor, "m"), review),
        "other": review,
    }


@program("delete-copies-review", hard_delete=True)
def delete_of_copies_beside_review(world: World) -> dict[str, Act]:
    """An object and its copy are deleted one after the other, while the copy is still tracked."""
    copies.staged_object(world)
    world.lake.copying.copy(world.repository, "main", "b", "m")
    return {
        "deleter": one_by_one(lambda actor: delete(actor, "m"), lambda actor: delete(actor, "b")),
        "reviewer": review,
    }


@program("delete-review", hard_delete=True)
def delete_beside_review(world: World) -> dict[str, Act]:
    """A staged object is deleted beside a review."""
    copies.staged_object(world)
    return {"deleter": lambda actor: delete(actor, "m"), "reviewer": review}


@program("reset-commit-review", hard_delete=True)
def reset_beside_commit_and_review(world: World) -> dict[str, Act]:
    """A reset drops what a commit has sealed already."""
    copies.staged_object(world)
    return {"committer": commit, "resetter": reset, "reviewer": review}


@program("branch-delete-review", hard_delete=True)
def branch_deleted_beside_review(world: World) -> dict[str, Act]:
    """A branch with staged objects is deleted while one of them is moved on it."""
    world.lake.refs.create_branch(world.repository, "dev", "main")
    world.upload("dev", "m", "old")
    world.pass_time(days=3)

    def move(actor: Actor) -> None:
        actor.lake.copying.copy(actor.repository, "dev", "b", "m")

    def drop(actor: Actor) -> None:
        actor.withdraw("dev")
        actor.lake.branches.delete(actor.repository, "dev")

    return {"mover": move, "dropper": drop, "reviewer": review}


@program("undo-review", hard_delete=True)
def undo_beside_zombie(world: World) -> dict[str, Act]:
    """What a review deleted is brought back while a zombie reviewer still has its delete to make."""
    copies.staged_object(world)
    world.delete("main", "m")

    def review_and_undo(actor: Actor) -> None:
        review(actor)
        for tomb in list(actor.lake.tombs.all(actor.repository)):
            actor.lake.tombs.bring_back(actor.repository, tomb.dropped.address)
            actor.promise("main", "m", "old")

    return {"zombie": review, "reviewer": review_and_undo}


@program("move-review", hard_delete=True)
def move_twice_beside_review(world: World) -> dict[str, Act]:
    """An object is moved on and on while it is reviewed."""
    copies.staged_object(world)
    return {
        "mover": one_by_one(
            lambda actor: try_to_move(actor, "m", "b"),
            lambda actor: try_to_move(actor, "b", "a"),
        ),
        "reviewer": review,
    }
