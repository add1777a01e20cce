"""Why an object of a lakeFS repository is kept or goes, as values: what holds it, which rule decides, and the day it goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from lakesweep.domain.durations import format_time
from lakesweep.domain.verdicts import Verdict

__all__ = [
    *("SCHEMA", "CommitSeen", "Deletion", "Explanation", "Explanations", "HeldInCommits"),
    *(
        "HeldOutside",
        "HolderKind",
        "Said",
        "end_order",
        "first_old_enough",
        "json_value",
        "latest_end",
        "said",
    ),
]

SCHEMA = "lakesweep.explain/1"

_BEGINNING = datetime.min.replace(tzinfo=UTC)
_MOMENT = timedelta(microseconds=1)


class Said(StrEnum):
    """What is said of an object."""

    LIVE = "live"
    YOUNG = "young"
    PROTECTED = "protected"
    GARBAGE = "garbage"
    DELETED = "deleted"
    UNKNOWN = "unknown"


_SAID_OF_VERDICT = {
    Verdict.LIVE: Said.LIVE,
    Verdict.YOUNG: Said.YOUNG,
    Verdict.PROTECTED: Said.PROTECTED,
    Verdict.EXPIRED: Said.GARBAGE,
    Verdict.UNREFERENCED: Said.GARBAGE,
}


def said(verdict: Verdict, unread: Iterable[str]) -> Said:
    """A verdict in the words of an explanation. Nothing is called garbage while something that may hold it is unread."""
    answer = _SAID_OF_VERDICT[verdict]
    return Said.UNKNOWN if answer is Said.GARBAGE and any(unread) else answer


def first_old_enough(written: datetime, min_age: timedelta) -> datetime:
    """The first instant at which an object written then is old enough: the age rule asks for more than `min_age`."""
    return written + min_age + _MOMENT


def end_order(end: datetime | None) -> tuple[bool, datetime]:
    """Sorts ends by time; one that never comes is the last of all."""
    return end is None, end or _BEGINNING


def latest_end(ends: Iterable[datetime | None]) -> datetime | None:
    """The latest of some ends; None where one of them never comes."""
    return max(ends, key=end_order)


@dataclass(frozen=True, slots=True)
class CommitSeen:
    """A commit that holds an object, and the path at which it does."""

    id: str
    made_at: datetime
    path: str


@dataclass(frozen=True, slots=True)
class HeldInCommits:
    """The commits of one line of history that hold an object.

    `branch` is empty for commits that are on no branch's line of main parents. `left_at` is when a branch was deleted
    or moved away from this line; None for a branch as it is now. `until` is when the last of the retained commits stops
    being retained, None when it does not.
    """

    branch: str
    commits: int
    retained: int
    first: CommitSeen
    last: CommitSeen
    rule: str
    until: datetime | None
    left_at: datetime | None = None
    is_deleted: bool = False


class HolderKind(StrEnum):
    """What holds an object outside of commits."""

    STAGED = "staged"
    COPY = "copy"
    UPLOAD = "upload"


@dataclass(frozen=True, slots=True)
class HeldOutside:
    """A staged entry, a tracked copy or an upload under way; `until` is set where it ends by itself."""

    kind: HolderKind
    address: str
    branch: str = ""
    path: str = ""
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Deletion:
    """Which run deleted an object, when, and where copies of it were made before."""

    run_id: str
    at: datetime | None = None  # None: nobody knows
    mark_id: str = ""
    copies: tuple[str, ...] = ()
    # Where an embedded lake deleted it by itself: the path it was dropped from, and until when it can be undone.
    dropped_from: str = ""
    undo_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is said of one object, and why.

    `goes_at` is the first instant at which a mark would take it if nothing changes; None with `stays` for one that
    stays for as long as nothing changes. `since` is since when nothing holds it, by the rules of today. `unread` names
    what the answer depends on and nobody could read.
    """

    asked: str
    address: str
    said: Said
    why: str
    stays: bool = False
    goes_at: datetime | None = None
    since: datetime | None = None
    size_bytes: int | None = None
    last_modified: datetime | None = None
    reason: str = ""  # of garbage: expired or unreferenced
    commits: tuple[HeldInCommits, ...] = ()
    outside: tuple[HeldOutside, ...] = ()
    deletion: Deletion | None = None
    marked: str = ""  # the mark that names it
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The explanation as plain JSON values."""
        values = json_value(self)
        assert isinstance(values, dict)
        return values


@dataclass(frozen=True, slots=True)
class Explanations:
    """The answers to all that was asked of one repository at one time."""

    repository: str
    now: datetime
    min_age: timedelta
    objects: tuple[Explanation, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """One JSON document with a schema name."""
        return {
            "schema": SCHEMA,
            "repository": self.repository,
            "now": format_time(self.now),
            "min_age_seconds": self.min_age.total_seconds(),
            "objects": [found.to_json() for found in self.objects],
            "notes": list(self.notes),
        }


def json_value(value: object) -> object:
    """A frozen value as plain JSON: times in UTC, tuples as lists, dataclasses as objects."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: json_value(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, tuple):
        return [json_value(item) for item in value]
    return value.value if isinstance(value, StrEnum) else value
