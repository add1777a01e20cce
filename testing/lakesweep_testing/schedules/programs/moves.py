"""Moves beside whatever else happens to their source: the races that sank the seed's fifth proposal."""

from __future__ import annotations

from lakesweep.errors import LakesweepError
from lakesweep.lake.errors import MissingError
from lakesweep_testing.schedules.collection import collect
from lakesweep_testing.schedules.program import program
from lakesweep_testing.schedules.programs.copies import staged_object
from lakesweep_testing.schedules.running import Act, Actor
from lakesweep_testing.schedules.users import (
    commit,
    delete,
    one_by_one,
    reset,
    try_to_move,
    upload,
)
from lakesweep_testing.schedules.world import World


@program("commit-move")
def commit_beside_move(world: World) -> dict[str, Act]:
    """A commit takes the source of a move along; what the move left staged is then reset and collected."""
    staged_object(world)
    return {
        "mover": lambda actor: try_to_move(actor, "m", "b"),
        "committer": commit,
        "resetter": one_by_one(reset, collect),
    }


@program("delete-move")
def delete_beside_move(world: World) -> dict[str, Act]:
    """Somebody deletes what another moves, beside a collection."""
    staged_object(world)
    return {
        "mover": lambda actor: try_to_move(actor, "m", "b"),
        "deleter": lambda actor: delete(actor, "m"),
        "collector": collect,
    }


@program("concurrent-move")
def two_moves(world: World) -> dict[str, Act]:
    """Two users move one object to two places, beside a collection."""
    staged_object(world)
    return {
        "mover": lambda actor: try_to_move(actor, "m", "b"),
        "other": lambda actor: try_to_move(actor, "m", "d"),
        "collector": collect,
    }


@program("stale-lock")
def move_that_died(world: World) -> dict[str, Act]:
    """A move dies half-way. Nobody else is kept from overwriting, moving or deleting what it touched."""
    staged_object(world)

    def go_on(actor: Actor) -> None:
        try:
            upload(actor, "m", "new")
            delete(actor, "b")
            try_to_move(actor, "c", "b", "other")
        except MissingError:
            pass
        except LakesweepError as refused:
            actor.watch.complain(f"an operation was refused for ever: {refused.message}")

    def move(actor: Actor) -> None:
        for path in ("m", "b"):
            actor.withdraw("main", path)
        actor.lake.copying.copy(actor.repository, "main", "b", "m")
        delete(actor, "m")

    return {"mover": move, "other": go_on}
