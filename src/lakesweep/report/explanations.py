"""Explanations as text: what each object is, why, and everything that holds it."""

from __future__ import annotations

from collections.abc import Iterator

from lakesweep.domain.durations import format_duration, format_time
from lakesweep.domain.explained_why import on_the_day
from lakesweep.domain.explanations import (
    Explanation,
    Explanations,
    HeldInCommits,
    HeldOutside,
)
from lakesweep.progress import human_bytes

__all__ = ["explanations_text"]

_MOST_LINES = 10


def explanations_text(found: Explanations) -> str:
    """All answers for a person, with a blank line between two."""
    blocks = ["\n".join(_lines(explanation)) for explanation in found.objects]
    foot = [
        f"{found.repository} at {format_time(found.now.replace(microsecond=0))}; "
        f"objects younger than {format_duration(found.min_age)} are never collected"
    ]
    foot += [f"note: {note}" for note in found.notes]
    return "\n\n".join([*blocks, "\n".join(foot)])


def _lines(found: Explanation) -> Iterator[str]:
    yield f"{found.asked}: {found.said.value.upper()}"
    if found.address and found.address != found.asked:
        yield f"  address   {found.address}"
    yield f"  why       {found.why}."
    if found.size_bytes is not None:
        written = found.last_modified
        since = on_the_day(written) if written is not None else "at a time that nobody knows"
        yield f"  object    {human_bytes(found.size_bytes)}, written {since}"
    if found.goes_at is not None:
        yield f"  goes on   {on_the_day(found.goes_at)}, if nothing changes"
    elif found.stays:
        yield "  goes on   no day, while nothing changes"
    for holder in found.outside:
        yield f"  held      {_outside(holder)}"
    for line in found.commits[:_MOST_LINES]:
        yield from _in_commits(line)
    if len(found.commits) > _MOST_LINES:
        yield f"  held      on {len(found.commits) - _MOST_LINES} more branches; --output json has all"
    if found.marked:
        yield f"  marked    {found.marked}"
    for note in found.notes:
        yield f"  note      {note}"
    for unread in found.unread:
        yield f"  not read  {unread}"


def _outside(holder: HeldOutside) -> str:
    where = f" on branch {holder.branch}" if holder.branch else ""
    path = f" at {holder.path}" if holder.path else ""
    until = f", until {on_the_day(holder.until)}" if holder.until is not None else ""
    kind = {"copy": "tracked copy", "upload": "upload under way"}.get(holder.kind, holder.kind)
    return f"{kind}{where}{path}{until}"


def _in_commits(line: HeldInCommits) -> Iterator[str]:
    where = f"branch {line.branch}" if line.branch else "no branch"
    if line.left_at is not None:
        did = "deleted" if line.is_deleted else "moved away"
        where += f" ({did} {on_the_day(line.left_at)})"
    number = "1 commit" if line.commits == 1 else f"{line.commits} commits"
    yield f"  commits   {where}: {number}, {line.retained} retained; {line.rule}"
    seen_in = (
        [("in", line.first)]
        if line.first == line.last
        else [("first", line.first), ("last", line.last)]
    )
    for word, seen in seen_in:
        yield f"    {word:<6}  {seen.id[:16]}  {on_the_day(seen.made_at)}  {seen.path}"
