"""What users do in programs, each with what they were told and what they took away."""

from __future__ import annotations

from lakesweep.lake.errors import MissingError
from lakesweep_testing.schedules.running import Act, Actor


def upload(actor: Actor, path: str, content: str) -> None:
    """Write new bytes to a path of main."""
    actor.withdraw("main", path)
    actor.lake.objects.upload(actor.repository, "main", path, [content.encode()])
    actor.promise("main", path, content)


def copy(actor: Actor, source: str, target: str, content: str = "old") -> None:
    """Copy within main; the content is what is promised of the copy, unless it is empty."""
    actor.withdraw("main", target)
    actor.lake.copying.copy(actor.repository, "main", target, source)
    if content:
        actor.promise("main", target, content)


def delete(actor: Actor, path: str) -> None:
    """Delete a path of main."""
    actor.withdraw("main", path)
    actor.lake.objects.delete(actor.repository, "main", path)


def move(actor: Actor, source: str, target: str, content: str = "old") -> None:
    """Copy within main, then delete the source."""
    copy(actor, source, target, content)
    delete(actor, source)


def try_to_move(actor: Actor, source: str, target: str, content: str = "old") -> None:
    """Move, unless somebody took the source away before."""
    try:
        move(actor, source, target, content)
    except MissingError:
        pass


def commit(actor: Actor) -> None:
    """Commit what is staged on main."""
    actor.lake.committing.commit(actor.repository, "main", "beside", committer="user")


def reset(actor: Actor) -> None:
    """Throw away what is staged on main."""
    actor.withdraw("main")
    actor.lake.resetting.reset(actor.repository, "main", "reset")


def one_by_one(*acts: Act) -> Act:
    """Several things that one actor does one after the other."""

    def act(actor: Actor) -> None:
        for each in acts:
            each(actor)

    return act
