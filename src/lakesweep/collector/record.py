"""The record of a run: what it was asked, what it found, what it did. The one source of text, JSON and reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from lakesweep.domain.durations import format_time, parse_time
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import FormatError
from lakesweep.json_text import parse_json
from lakesweep.secrets import known_secrets

SCHEMA = "lakesweep.run/1"

# Flows of runs that only copy; those of marks are in `request.Flow`.
BACKUP, RESTORE = "backup", "restore"

COUNTERS = (
    "listed",
    "live",
    "young",
    "protected",
    "undecided",
    "rewritten",
    "vanished",
    "garbage",
    "expired",
    "unreferenced",
    "deleted",
    "already_gone",
    "revived",
    "kept_undecided",
    "failed",
)


class RunStatus(StrEnum):
    """How far a run came."""

    MARKED = "marked"
    SWEPT = "swept"
    PARTLY_SWEPT = "partly-swept"
    NOTHING_TO_DO = "nothing-to-do"
    UNDECIDED = "undecided"  # nothing to delete, but some was kept that may be garbage
    REFUSED = "refused"
    FAILED = "failed"
    BACKED_UP = "backed-up"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class Phase:
    """A step of a run, how long it took, and how many things it handled.

    `began` counts seconds from the start of the run; older records do not tell it.
    """

    name: str
    seconds: float
    items: int
    began: float | None = None
    bytes: int = 0


def _zeros() -> dict[str, int]:
    return dict.fromkeys(COUNTERS, 0)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run. Fields may be added; those of INTERFACE section 4 keep their meaning."""

    repository: str
    run_id: str
    mark_id: str
    what: str
    flow: str
    status: RunStatus
    started_at: datetime
    plan_id: str = ""
    reason: str = ""
    kind: str = ""  # of the error that ended the run: docs/reference/errors.md
    cutoff: datetime | None = None
    finished_at: datetime | None = None
    last_slice: str = ""
    oldest_garbage: datetime | None = None  # when the oldest object that is garbage was written
    rules: Mapping[str, Any] = field(default_factory=dict)
    retained_commits: int = 0
    expired_commits: int = 0
    objects: Mapping[str, int] = field(default_factory=_zeros)
    bytes: Mapping[str, int] = field(default_factory=_zeros)
    mark: str = ""
    phases: tuple[Phase, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    protected: Mapping[str, list[str]] = field(default_factory=dict)
    revived: tuple[str, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    finality: Mapping[str, str] = field(default_factory=dict)  # of deletes: kept, said, until
    min_age_seconds: float | None = None
    min_age_lowered: bool = False  # by --unsafe-min-age
    backup_to: str = ""  # a sweep under way copies here before it deletes
    has_copies: bool = False  # a sweep of the mark, in any of its tries, copied what it deleted
    inventory: Mapping[str, Any] = field(default_factory=dict)  # that took the place of a listing

    def counted(self, objects: Mapping[str, int], sizes: Mapping[str, int]) -> RunRecord:
        """This record with some counters set; the others keep their values."""
        return replace(self, objects={**self.objects, **objects}, bytes={**self.bytes, **sizes})

    def tallied(self, tallies: Mapping[str, Tally]) -> RunRecord:
        """This record with some counters set, of objects and of bytes."""
        return self.counted(
            {name: tally.objects for name, tally in tallies.items()},
            {name: tally.bytes for name, tally in tallies.items()},
        )

    def noted(self, *notes: str) -> RunRecord:
        """This record with more notes for its reader."""
        return replace(self, notes=(*self.notes, *notes))

    def as_json(self) -> dict[str, Any]:
        """The record as plain JSON values."""
        values: dict[str, Any] = {"schema": SCHEMA}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, datetime):
                value = format_time(value)
            elif f.name == "phases":
                value = [asdict(phase) for phase in value]
            elif isinstance(value, tuple):
                value = list(value)
            elif isinstance(value, Mapping):
                value = dict(value)
            values[f.name] = value
        return values


def encode_record(record: RunRecord) -> bytes:
    """The record as a file. A message of a store or server in it may quote what we sent, so secrets are masked."""
    return json.dumps(known_secrets.mask_json(record.as_json()), indent=2).encode()


def decode_record(data: bytes, what: str) -> RunRecord:
    """A record from its file; `what` names it in the error."""
    try:
        values = parse_json(data)
        if values.pop("schema") != SCHEMA:
            raise ValueError("unknown schema")
        known = {f.name for f in fields(RunRecord)}
        values = {name: value for name, value in values.items() if name in known}
        for name in ("started_at", "finished_at", "cutoff", "oldest_garbage"):
            values[name] = parse_time(values[name]) if values.get(name) else None
        values["status"] = RunStatus(values["status"])
        values["phases"] = tuple(Phase(**phase) for phase in values["phases"])
        for name in ("objects", "bytes"):
            # A record of an older version has fewer counters.
            values[name] = {**_zeros(), **values[name]}
        for name in ("notes", "revived"):
            values[name] = tuple(values[name])
        return RunRecord(**values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"The run record {what} can't be read ({error}). Nothing was deleted. "
            "Mark again; `runs forget` removes the damaged run.",
            kind="bad-record",
        ) from error
