"""Why a file of a Nessie catalog is kept or goes, as values: the contents that hold it, the policy, and the day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from lakesweep.domain.durations import format_time
from lakesweep.domain.explained_why import on_the_day
from lakesweep.domain.explanations import SCHEMA, Deletion, Said, end_order, json_value

__all__ = ["FileExplanation", "FileExplanations", "HeldByContent", "named", "why_file"]


@dataclass(frozen=True, slots=True)
class HeldByContent:
    """A table or view that holds a file, by one reference.

    `states` of the content lead to the file. `commit`, `snapshot_id` and `metadata_location` are of the one that the
    reference keeps longest, and `until` is when that stops being live; None: not while nothing changes.
    """

    content_key: str
    content_id: str
    role: str  # metadata, manifest list, manifest, data, delete or statistics
    reference: str
    policy: str
    states: int
    commit: str
    made_at: datetime
    snapshot_id: int
    metadata_location: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class FileExplanation:
    """What is said of one file, and why; the fields that an object of lakeFS has too mean the same."""

    asked: str
    uri: str
    said: Said
    why: str
    stays: bool = False
    goes_at: datetime | None = None
    size_bytes: int | None = None
    last_modified: datetime | None = None
    protection: str = ""  # why it is protected
    then: str = ""  # what it is from the day on at which nothing holds it, where it does not go
    holders: tuple[HeldByContent, ...] = ()
    was: HeldByContent | None = None  # what held it last, of garbage that commits lead to
    since: datetime | None = None  # from when on nothing held it, by the policies of today
    deletion: Deletion | None = None
    deferred_in: tuple[str, ...] = ()  # live sets that have it on their lists of files to delete
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The explanation as plain JSON values."""
        values = json_value(self)
        assert isinstance(values, dict)
        return values


@dataclass(frozen=True, slots=True)
class FileExplanations:
    """The answers to all that was asked of one catalog at one time."""

    catalog: str
    now: datetime
    grace: timedelta
    files: tuple[FileExplanation, ...]

    def to_json(self) -> dict[str, Any]:
        """One JSON document with a schema name."""
        return {
            "schema": SCHEMA,
            "catalog": self.catalog,
            "now": format_time(self.now),
            "grace_seconds": self.grace.total_seconds(),
            "files": [found.to_json() for found in self.files],
        }


def why_file(found: FileExplanation) -> str:
    """Why the file is what it is said to be, in one or two sentences."""
    match found.said:
        case Said.LIVE:
            return f"{_holder(found)}. {_end(found)}"
        case Said.YOUNG:
            return f"no live content holds it, and it is too young. {_end(found)}"
        case Said.PROTECTED:
            return f"no live content holds it, and it stays: {found.protection}. {_end(found)}"
        case Said.GARBAGE:
            return f"{_was(found)}. A sweep takes it now"
        case Said.DELETED:
            deletion = found.deletion
            assert deletion is not None
            if deletion.at is None:
                return "an earlier sweep of ours deleted it"
            return (
                f"the sweep of live set {deletion.run_id} deleted it at {on_the_day(deletion.at)}"
            )
    if found.size_bytes is None:
        return "it is not in the store, and no sweep of ours is known to have deleted it"
    return "not everything that may hold it could be read"


def _holder(found: FileExplanation) -> str:
    if not found.holders:
        return "a content of another kind than table or view names it"
    held = max(found.holders, key=lambda holder: end_order(holder.until))
    return f"it is {_file_of(held)}, {_keeps(held.policy)}"


def _was(found: FileExplanation) -> str:
    """What a file that is garbage was."""
    if found.was is None:
        nobody = (
            "live content holds it" if found.unread else "commit that a reference reaches has it"
        )
        return f"no {nobody}, and it lies below a base location of a live table"
    said = f"it was {_file_of(found.was)}, and commits that lead to it are cut off"
    if found.since is None:
        return said
    return f"{said}. By the policies of today, nothing has held it since {on_the_day(found.since)}"


def _file_of(held: HeldByContent) -> str:
    of_table = f"a {held.role} file of {held.content_key}"
    return f"{of_table} in commit {held.commit[:12]} on {named(held.reference)}"


def named(reference: str) -> str:
    """A reference for people: `branch main` for `BRANCH main`."""
    kind, _, name = reference.partition(" ")
    return f"{kind.lower()} {name}"


def _keeps(policy: str) -> str:
    if policy == "NONE":
        return "which has no cut-off"
    return f"which keeps {policy if policy.endswith('commits') else f'commits {policy}'}"


def _end(found: FileExplanation) -> str:
    if found.goes_at is not None:
        return f"If nothing changes, it goes on {on_the_day(found.goes_at)}"
    return f"After that it stays: {found.then}" if found.then else "It stays while nothing changes"
