"""What must hold at the end of every schedule."""

from __future__ import annotations

from datetime import timedelta

from lakesweep.errors import LakesweepError
from lakesweep_testing.schedules.collection import collect_quietly, review_quietly
from lakesweep_testing.schedules.invariants import LEAK, Harm, Watch

# Past token life, copy life, dropped tokens and retention: by then garbage has no excuse.
_MUCH_LATER = timedelta(days=60)


def harm_at_the_end(watch: Watch) -> Harm | None:
    """Whether an acknowledged write is lost, or something stays for ever though a quiet collection comes by later."""
    world, references = watch.world, watch.references
    for (ref, path), content in world.promises.items():
        try:
            found = world.read(ref, path)
        except LakesweepError as lost:
            return Harm("promise", f"{path!r} on {ref} was acknowledged, and now: {lost.message}")
        if found != content:
            return Harm("promise", f"{path!r} on {ref} was acknowledged with another content")
    state = world.fingerprint()
    if state not in references.quiet_ends:
        references.quiet_ends[state] = _left_by_quiet_collection(watch)
    left = references.quiet_ends[state]
    return Harm(LEAK, left) if left else None


def _left_by_quiet_collection(watch: Watch) -> str:
    world = watch.world
    world.now += _MUCH_LATER
    world.restart(world.lake)
    if world.hard_delete:
        review_quietly(world)
        # What a commit record holds, be it of a commit that never came about, is left to a collection.
        mine = watch.ever_staged - watch.references.in_any_commit()
        if forgotten := _unreferenced(watch) & mine:
            return f"nothing refers to {min(forgotten)} any more, and no review ever takes it"
        if condemned := world.lake.fence.state_if_any(world.repository).condemned:
            return f"{min(condemned)} is condemned, and no review ever lifts that"
    collect_quietly(world, watch)
    forgotten = _unreferenced(watch)
    return (
        f"nothing refers to {min(forgotten)}, and no collection ever takes it" if forgotten else ""
    )


def _unreferenced(watch: Watch) -> set[str]:
    left = {key for key in watch.world.object_keys() if key.startswith("data/")}
    return left - watch.references.live().keys()
