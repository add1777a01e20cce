"""Collections and sweeps with a reviewer as a further actor: both delete, each by rules of its own, in one repository.

The programs of `reviews.py` have a reviewer in the collector's place. Here hard delete is on and the collector stays:
what the one condemns or fences the other may be about to delete.
"""

from __future__ import annotations

from lakesweep_testing.schedules.program import PROGRAMS, Program, SetUp, register
from lakesweep_testing.schedules.programs import collectors, commits, copies, revivals, uploads
from lakesweep_testing.schedules.programs.reviews import review
from lakesweep_testing.schedules.running import Act
from lakesweep_testing.schedules.world import World

SUFFIX = "-beside-review"
_MODULES = {module.__name__ for module in (collectors, commits, copies, revivals, uploads)}
# Of these programs, no actor collects.
_NOBODY_COLLECTS = {"copy-commit", "commit-commit"}


def _with_reviewer(set_up: SetUp) -> SetUp:
    def beside(world: World) -> dict[str, Act]:
        acts = set_up(world)
        # Something for the reviewer to condemn and delete, whatever the others leave to it.
        world.upload("main", "z", "dropped")
        world.lake.objects.delete(world.repository, "main", "z", no_tombstone=True)
        world.promises.pop(("main", "z"))
        world.pass_time(minutes=2)
        return {**acts, "reviewer": review}

    beside.__doc__ = set_up.__doc__
    return beside


for _one in [one for one in PROGRAMS.values() if one.set_up.__module__ in _MODULES]:
    if not _one.loses and _one.name not in _NOBODY_COLLECTS:
        _set_up = _with_reviewer(_one.set_up)
        _name = f"{_one.name}{SUFFIX}"
        register(Program(_name, _set_up, keep_tags=_one.keep_tags, hard_delete=True))
