"""Explanations of files of a Nessie catalog as text."""

from __future__ import annotations

from collections.abc import Iterator

from lakesweep.domain.durations import format_duration, format_time
from lakesweep.domain.explained_why import on_the_day
from lakesweep.domain.nessie_explanations import (
    FileExplanation,
    FileExplanations,
    HeldByContent,
    named,
)
from lakesweep.progress import human_bytes

__all__ = ["file_explanations_text"]

_MOST_HOLDERS = 10


def file_explanations_text(found: FileExplanations) -> str:
    """All answers for a person, with a blank line between two."""
    blocks = ["\n".join(_lines(explanation)) for explanation in found.files]
    foot = (
        f"{found.catalog} at {format_time(found.now.replace(microsecond=0))}; "
        f"files younger than {format_duration(found.grace)} are never collected"
    )
    return "\n\n".join([*blocks, foot])


def _lines(found: FileExplanation) -> Iterator[str]:
    yield f"{found.asked}: {found.said.value.upper()}"
    if found.uri != found.asked:
        yield f"  file      {found.uri}"
    yield f"  why       {found.why}."
    if found.size_bytes is not None:
        written = found.last_modified
        since = on_the_day(written) if written is not None else "at a time that nobody knows"
        yield f"  object    {human_bytes(found.size_bytes)}, written {since}"
    if found.goes_at is not None:
        yield f"  goes on   {on_the_day(found.goes_at)}, if nothing changes"
    elif found.stays:
        yield "  goes on   no day, while nothing changes"
    for holder in found.holders[:_MOST_HOLDERS]:
        yield from _held(holder)
    if len(found.holders) > _MOST_HOLDERS:
        yield f"  held      {len(found.holders) - _MOST_HOLDERS} times more; --output json has all"
    if found.was is not None:
        yield from _was_held(found.was)
    for live_set_id in found.deferred_in:
        yield f"  recorded  for a later delete, by live set {live_set_id}"
    for note in found.notes:
        yield f"  note      {note}"
    for unread in found.unread:
        yield f"  not read  {unread}"


def _held(holder: HeldByContent) -> Iterator[str]:
    until = f", until {on_the_day(holder.until)}" if holder.until is not None else ""
    yield f"  held      {_by(holder)} (policy {holder.policy}{until})"
    yield _commit(holder)


def _was_held(holder: HeldByContent) -> Iterator[str]:
    yield f"  was held  {_by(holder)}"
    yield _commit(holder)


def _by(holder: HeldByContent) -> str:
    return f"as {holder.role} by {holder.content_key} on {named(holder.reference)}"


def _commit(holder: HeldByContent) -> str:
    states = "1 state" if holder.states == 1 else f"{holder.states} states"
    made = f"commit {holder.commit[:16]} of {on_the_day(holder.made_at)}"
    return f"            {made}, snapshot {holder.snapshot_id}; {states} of {holder.content_id}"
