"""An explanation in one or two sentences: what decides about the object, and what comes of it."""

from __future__ import annotations

from datetime import datetime, timedelta

from lakesweep.domain.durations import format_time
from lakesweep.domain.explanations import (
    Explanation,
    HeldInCommits,
    HeldOutside,
    HolderKind,
    Said,
    end_order,
)

__all__ = ["on_the_day", "why_object"]

# A key with a comma was issued for an upload past the server, which is linked afterwards.
_ISSUED = ","


def why_object(found: Explanation) -> str:
    """Why the object is what it is said to be."""
    match found.said:
        case Said.LIVE:
            return f"{_holder(found)}. {_end(found)}"
        case Said.YOUNG:
            return f"nothing holds it any more, and it is too young. {_end(found)}"
        case Said.PROTECTED:
            return f"it is never collected: {found.reason}"
        case Said.GARBAGE:
            return f"{_was(found)}. A mark takes it now"
        case Said.DELETED:
            return f"{_deleted(found)}. {_was(found)}"
    if found.size_bytes is None:
        return (
            f"it is not in the store, and no run of ours is known to have deleted it. {_was(found)}"
        )
    return f"nothing that was read holds it, and not everything could be read: a mark decides. {_was(found)}"


def on_the_day(at: datetime) -> str:
    """A time for people: to the second, rounded up, so that at that time it has come."""
    whole = at.replace(microsecond=0)
    return format_time(whole if whole == at else whole + timedelta(seconds=1))


def _holder(found: Explanation) -> str:
    """What holds the object longest."""
    holders: list[tuple[datetime | None, str]] = [
        (holder.until, _outside(holder)) for holder in found.outside
    ]
    lines = [line for line in found.commits if line.retained]
    holders += [(line.until, _in_commits(line, len(lines) - 1)) for line in lines]
    return max(holders, key=lambda held: end_order(held[0]))[1]


def _outside(holder: HeldOutside) -> str:
    match holder.kind:
        case HolderKind.STAGED:
            return f"it is staged on branch {holder.branch} at {holder.path}"
        case HolderKind.COPY:
            return "it was copied on its branch, and the copy is tracked"
        case HolderKind.UPLOAD:
            return f"it is being uploaded to {holder.path} of branch {holder.branch}"


def _in_commits(line: HeldInCommits, others: int) -> str:
    """What one branch's commits hold, and how many further branches have such commits."""
    where = f"branch {line.branch}" if line.branch else "no branch"
    held = (
        f"1 retained commit on {where} holds it"
        if line.retained == 1
        else f"{line.retained} retained commits on {where} hold it"
    )
    more = f"; so do commits on {others} more {'branch' if others == 1 else 'branches'}"
    return f"{held}, at {line.last.path}: {line.rule}{more if others else ''}"


def _end(found: Explanation) -> str:
    if found.stays:
        return "It stays while nothing changes"
    assert found.goes_at is not None
    day = on_the_day(found.goes_at)
    if found.said is Said.YOUNG:
        return f"It is collectable from {day}"
    return f"If nothing changes, it goes on {day}"


def _was(found: Explanation) -> str:
    """What the object was, where something tells of it."""
    lines = found.commits
    if not lines:
        if _ISSUED in found.address:
            return "No commit holds it: it was uploaded to an issued address, and the upload was never linked, or not committed"
        return (
            "No commit holds it: it was never committed, and whatever had it staged has let it go"
        )
    line = max(lines, key=lambda line: line.last.made_at)
    where = f"on branch {line.branch}" if line.branch else "on no branch"
    if line.left_at is not None:
        did = "was deleted" if line.is_deleted else "moved away"
        where = f"on branch {line.branch}, which {did} at {format_time(line.left_at)}"
    last = f"It was {line.last.path} in commit {line.last.id[:12]} of {format_time(line.last.made_at)} {where}"
    if found.since is None:
        return last
    return f"{last}. By the rules of today, nothing has held it since {on_the_day(found.since)}"


def _deleted(found: Explanation) -> str:
    deletion = found.deletion
    assert deletion is not None
    assert deletion.at is not None
    at = on_the_day(deletion.at)
    if deletion.dropped_from:
        undo = deletion.undo_until
        how = "`lakesweep hard-delete undo` brings it back until"
        back = "it can't be brought back" if undo is None else f"{how} {on_the_day(undo)}"
        return (
            f"the lake deleted it by itself at {at}, because it was dropped from {deletion.dropped_from} and nothing"
            f" referred to it any more; {back}"
        )
    said = (
        f"run {deletion.run_id} deleted it at {at}"
        if deletion.run_id
        else f"an earlier run deleted it, at {at} or before"
    )
    if deletion.copies:
        return f"{said}; a copy was made in {', '.join(deletion.copies)}"
    return f"{said}; no run of ours has noted a copy"
