"""Several collections of one repository, of which one may be dead, late, or a zombie."""

from __future__ import annotations

from lakesweep_testing.schedules.program import program
from lakesweep_testing.schedules.programs.copies import staged_object
from lakesweep_testing.schedules.running import Act, Actor
from lakesweep_testing.schedules.sweeping import sweep
from lakesweep_testing.schedules.users import delete, try_to_move, upload
from lakesweep_testing.schedules.world import World


def garbage_and_staged(world: World) -> None:
    """An object that nothing refers to, and one that is staged at `m`."""
    staged_object(world)
    world.upload("main", "g", "garbage")
    world.lake.objects.delete(world.repository, "main", "g", no_tombstone=True)
    world.promises.pop(("main", "g"))
    world.pass_time(days=3)


@program("two-collectors")
def two_collectors(world: World) -> dict[str, Act]:
    """Two collectors begin at once: one gets the lease."""
    garbage_and_staged(world)
    return {"collector": sweep, "other": sweep}


@program("lease-lost-in-mid-delete")
def lease_lost(world: World) -> dict[str, Act]:
    """A collector is so slow that its lease runs out; another takes over, and users go on moving things."""
    garbage_and_staged(world)

    def pass_lease(actor: Actor) -> None:
        actor.pass_time(minutes=20)

    return {
        "collector": sweep,
        "clock": pass_lease,
        "other": sweep,
        "mover": lambda actor: try_to_move(actor, "m", "b"),
    }


@program("resume-beside-zombie")
def resume_beside_zombie(world: World) -> dict[str, Act]:
    """A collector stops for longer than its lease, its run is resumed elsewhere, and then it goes on."""
    garbage_and_staged(world)

    def resume_later(actor: Actor) -> None:
        actor.pass_time(minutes=20)
        sweep(actor)

    def write(actor: Actor) -> None:
        delete(actor, "m")
        upload(actor, "m", "new")

    return {"zombie": sweep, "resumer": resume_later, "user": write}
