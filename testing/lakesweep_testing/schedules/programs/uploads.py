"""Uploads and links beside a collection."""

from __future__ import annotations

from datetime import timedelta

from lakesweep.lake.context import full_address
from lakesweep_testing.schedules.collection import collect
from lakesweep_testing.schedules.program import program
from lakesweep_testing.schedules.running import Act, Actor
from lakesweep_testing.schedules.users import commit, delete, upload
from lakesweep_testing.schedules.world import World


@program("link-collect")
def link_beside_collection(world: World) -> dict[str, Act]:
    """Bytes that a client wrote hours ago are linked while a collection passes that keeps nothing for its age."""
    world.min_age = timedelta(hours=1)
    issued = world.lake.linking.issue(world.repository, "main", "m")
    address = world.relative(issued.physical_address)
    world.store.write(address, b"linked")
    world.pass_time(hours=3)

    def link(actor: Actor) -> None:
        where = full_address(actor.repository, address)
        actor.lake.linking.link(
            actor.repository, "main", "m", where, checksum="c", size_bytes=len(b"linked")
        )
        actor.promise("main", "m", "linked")
        commit(actor)

    return {"linker": link, "collector": collect}


@program("expired-link-collect")
def expired_link_beside_collection(world: World) -> dict[str, Act]:
    """A link comes at the very end of its address's time: it is refused, or its bytes stay."""
    world.min_age = timedelta(hours=1)
    issued = world.lake.linking.issue(world.repository, "main", "m")
    address = world.relative(issued.physical_address)
    world.store.write(address, b"linked")
    world.pass_time(hours=23, minutes=59)

    def link(actor: Actor) -> None:
        where = full_address(actor.repository, address)
        actor.lake.linking.link(
            actor.repository, "main", "m", where, checksum="c", size_bytes=len(b"linked")
        )
        actor.promise("main", "m", "linked")

    return {
        "linker": link,
        "clock": lambda actor: actor.pass_time(minutes=2),
        "collector": collect,
    }


@program("upload-rotate-slice")
def uploads_in_new_slices(world: World) -> dict[str, Act]:
    """Uploads that begin new slices, one over the other, beside a collection that lists them."""
    world.upload("main", "m", "old")
    world.pass_time(days=3)

    def write_three(actor: Actor) -> None:
        for number in range(3):
            upload(actor, "m", f"new {number}")

    return {
        "uploader": write_three,
        "deleter": lambda actor: delete(actor, "m"),
        "collector": collect,
    }
