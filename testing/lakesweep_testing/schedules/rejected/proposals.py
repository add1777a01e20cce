"""Models of the five proposals: only what takes part in the race, in the order that the proposal gives."""

from __future__ import annotations

from lakesweep_testing.schedules.program import Program
from lakesweep_testing.schedules.rejected.model import (
    Model,
    content,
    missing_bytes,
    put,
    put_object,
    records,
)
from lakesweep_testing.schedules.running import Act, Actor
from lakesweep_testing.schedules.world import World


def defined_path(world: World) -> dict[str, Act]:
    """1. Staged data on a defined path: an object lies at its branch, its staging token and its path."""
    put(world, "the staging token", "t1")
    put_object(world, "object t1/x", "first")

    def write(actor: Actor) -> None:
        model = Model(actor)
        token = model.get("the staging token")
        model.write(f"object {token}/x", "second")

    def commit(actor: Actor) -> None:
        model = Model(actor)
        token = model.get("the staging token")
        found = model.read(f"object {token}/x")
        model.set("the commit, which holds x", {"object": f"object {token}/x", "content": found})
        model.set("the staging token", "t2")

    return {"writer": write, "committer": commit}


def _committed_content_changed(world: World) -> str:
    for held in records(world, "the commit").values():
        found = content(world, held["object"])
        if found != held["content"]:
            return f"the commit holds “{held['content']}”, and {held['object']} says “{found}”"
    return ""


def counter_without_conditions(world: World) -> dict[str, Act]:
    """2. A reference counter in the object's metadata, on a store that can't set metadata on a condition."""
    put(world, "the counter of object 1", 1)
    put(world, "staged entry x", "object 1")
    put_object(world, "object 1", "bytes")

    def stage(actor: Actor) -> None:
        model = Model(actor)
        count = model.get("the counter of object 1")
        if count > 0:
            model.set("the counter of object 1", count + 1)
            model.set("staged entry y", "object 1")

    def delete(actor: Actor) -> None:
        model = Model(actor)
        count = model.get("the counter of object 1")
        model.remove("staged entry x")
        model.set("the counter of object 1", count - 1)
        if count == 1:
            model.delete("object 1")

    return {"stager": stage, "deleter": delete}


def counter_with_conditions(world: World) -> dict[str, Act]:
    """2. The same counter where metadata can be set on a condition, beside a commit."""
    put(world, "the counter of object 1", 1)
    put(world, "staged entry x", "object 1")
    put_object(world, "object 1", "bytes")

    def delete(actor: Actor) -> None:
        model = Model(actor)
        if model.get("staged entry x") is None:
            return
        count = model.get("the counter of object 1")
        model.remove("staged entry x")
        if model.set_if("the counter of object 1", count - 1, count) and count == 1:
            model.delete("object 1")

    def commit(actor: Actor) -> None:
        model = Model(actor)
        address = model.get("staged entry x")
        if address is not None:
            model.set("committed entry x", address)
            model.remove("staged entry x")

    return {"deleter": delete, "committer": commit}


def tracked_references(world: World) -> dict[str, Act]:
    """3. References tracked in the staging manager, each with a state; a job deletes what has been unused for long."""
    put(world, "staged entry x", "object 1")
    put(world, "the reference of t1 to object 1", {"state": "staged", "at": 0})
    put_object(world, "object 1", "bytes")
    began = world.now

    def minutes(actor: Actor) -> float:
        return (actor.world.now - began).total_seconds() / 60

    def stage(actor: Actor) -> None:
        model = Model(actor)
        address = model.get("staged entry x")
        if address is not None:
            reference = f"the reference of t2 to {address}"
            model.set(reference, {"state": "staged", "at": minutes(actor)})
            model.set("staged entry y", address)

    def delete(actor: Actor) -> None:
        model = Model(actor)
        model.remove("staged entry x")
        deleted = {"state": "deleted", "at": minutes(actor)}
        model.set("the reference of t1 to object 1", deleted)

    def job(actor: Actor) -> None:
        model = Model(actor)
        actor.pass_time(minutes=60)
        found = [model.get(name) for name in model.names("the reference")]
        is_unused = all(one["state"] == "deleted" for one in found)
        if is_unused and min(one["at"] for one in found) < minutes(actor) - 30:
            model.delete("object 1")

    return {"stager": stage, "deleter": delete, "job": job}


def token_states(world: World) -> dict[str, Act]:
    """4. States of staging tokens: references as a list of tokens by address, and a job that works off dropped tokens."""
    put(world, "branch b", "t1")
    put(world, "entry x of t1", "object 1")
    put(world, "the references to object 1", ["t1"])
    put_object(world, "object 1", "bytes")

    def copy(actor: Actor) -> None:
        model = Model(actor)
        token = model.get("branch b")
        if token is None:
            return
        address = model.get(f"entry x of {token}")
        while address is not None:
            tokens = model.get(f"the references to {address}")
            if tokens == []:
                return  # being deleted
            # Without the record the object is taken for committed, and copied without a reference.
            if tokens is None or model.set_if(
                f"the references to {address}", [*tokens, "t2"], tokens
            ):
                model.set("staged entry y of t2", address)
                return

    def drop(actor: Actor) -> None:
        model = Model(actor)
        model.remove("branch b")
        model.set("dropped token t1", True)

    def job(actor: Actor) -> None:
        model = Model(actor)
        if model.get("dropped token t1") is None:
            return
        address = model.get("entry x of t1")
        while True:
            tokens = model.get(f"the references to {address}")
            left = [token for token in tokens if token != "t1"]
            if model.set_if(f"the references to {address}", left, tokens):
                break
        if not left:
            model.delete(address)
            model.remove(f"the references to {address}")
        model.remove("entry x of t1")

    return {"copier": copy, "dropper": drop, "job": job}


def no_copies(world: World) -> dict[str, Act]:
    """5. No copies, and moves under a lock of the entry: no two staged entries name one object."""
    put(world, "the staging token", "t1")
    put(world, "entry x of t1", {"object": "object 1", "locked": False})
    put_object(world, "object 1", "bytes")

    def move(actor: Actor) -> None:
        model = Model(actor)
        entry = model.get("entry x of t1")
        if entry is None or entry["locked"]:
            return
        locked = {**entry, "locked": True}
        if not model.set_if("entry x of t1", locked, entry):
            return
        token = model.get("the staging token")
        model.set(f"entry y of {token}", locked)
        model.remove("entry x of t1")
        model.set(f"entry y of {token}", entry)

    def commit(actor: Actor) -> None:
        model = Model(actor)
        if not model.set_if("the staging token", "t2", "t1"):
            return
        entry = model.get("entry x of t1")
        if entry is not None:
            model.set("committed entry x", entry["object"])

    def reset(actor: Actor) -> None:
        model = Model(actor)
        token = model.get("the staging token")
        if not model.set_if("the staging token", "t3", token):
            return
        for path in ("x", "y"):
            entry = model.get(f"entry {path} of {token}")
            if entry is not None and not entry["locked"]:
                model.remove(f"entry {path} of {token}")
                model.delete(entry["object"])

    return {"mover": move, "committer": commit, "resetter": reset}


def _staged_or_committed_bytes_gone(world: World) -> str:
    return missing_bytes(world, "committed entry", "staged entry")


PROPOSALS = (
    Program("defined-path", defined_path, check=_committed_content_changed),
    Program(
        "counter-without-conditions",
        counter_without_conditions,
        check=_staged_or_committed_bytes_gone,
    ),
    Program(
        "counter-with-conditions", counter_with_conditions, check=_staged_or_committed_bytes_gone
    ),
    Program("tracked-references", tracked_references, check=_staged_or_committed_bytes_gone),
    Program("token-states", token_states, check=_staged_or_committed_bytes_gone),
    Program("no-copies", no_copies, check=_staged_or_committed_bytes_gone),
)
