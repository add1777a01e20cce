"""The plan: exactly what a sweep may delete, durable and complete before the first delete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta

from lakesweep.collector.guards import BlastRadius
from lakesweep.collector.parts import Part
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.domain.durations import format_duration, format_time, parse_time
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ConfigError, FormatError, UnsafeToSweepError
from lakesweep.json_text import parse_json
from lakesweep.storage import ObjectStore

SCHEMA = "lakesweep.plan/2"


@dataclass(frozen=True, slots=True)
class PlannedFile(Part):
    """One file of a mark, with the ETag by which a sweep notices that it was changed."""

    etag: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a mark decided. `id` is a fingerprint of everything in it."""

    repository: str
    namespace: str
    run_id: RunId
    mark_id: MarkId
    what: str
    cutoff: datetime
    live: Tally  # beside which the garbage is measured
    garbage: Tally
    keep_refs: tuple[str, ...] = ()
    keep_tags: bool = False
    min_age_seconds: float | None = None
    is_min_age_lowered: bool = False  # by --unsafe-min-age, which a sweep asks for again
    files: tuple[PlannedFile, ...] = ()
    id: str = field(init=False, default="")

    def __post_init__(self) -> None:
        # Whoever confirms the id confirms all of this, the fingerprints of the files included.
        content = json.dumps(self._content(), sort_keys=True).encode()
        object.__setattr__(self, "id", hashlib.sha256(content).hexdigest()[:16])

    def _content(self) -> dict[str, object]:
        values = {"schema": SCHEMA, **asdict(self), "cutoff": format_time(self.cutoff)}
        del values["id"]
        return values

    def encode(self) -> bytes:
        """The plan as a file."""
        return json.dumps({**self._content(), "id": self.id}, indent=2).encode()

    @property
    def blast_radius(self) -> BlastRadius:
        """What the plan would delete, beside what is live."""
        command = (
            f"lakesweep sweep {self.repository} --mark-id {self.mark_id} --confirm {self.id}"
            f"{self.unsafe_flag}"
        )
        return BlastRadius(self.id, self.mark_id, self.garbage, self.live, command)

    @property
    def unsafe_flag(self) -> str:
        """The flag that a command needs to sweep a plan whose minimum age was lowered, after a blank; else empty."""
        return f" --unsafe-min-age {self.repository}" if self.is_min_age_lowered else ""

    def check_age_allowed(self, allow_lower_min_age: bool) -> None:
        """Refuse a plan that names what is younger than is safe, unless its sweep is told to as its mark was."""
        if self.is_min_age_lowered and not allow_lower_min_age:
            age = format_duration(timedelta(seconds=self.min_age_seconds or 0))
            raise ConfigError(
                f"The mark {self.mark_id} was made with a minimum age of {age}, below the safe one: it may name objects that "
                f"wait to be linked. Nothing was deleted. Mark again without --unsafe-min-age, or, if nobody writes to "
                f"{self.repository}, give{self.unsafe_flag} here too.",
                kind="min-age-lowered",
            )


def decode_plan(data: bytes, what: str) -> Plan:
    """A plan from its file; refused when it was changed since it was written."""
    try:
        values = parse_json(data)
        claimed = values["id"]
        if values["schema"] != SCHEMA:
            raise ValueError("unknown schema")
        values = {f.name: values[f.name] for f in fields(Plan) if f.init} | {
            "cutoff": parse_time(values["cutoff"]),
            "live": Tally(**values["live"]),
            "garbage": Tally(**values["garbage"]),
            "keep_refs": tuple(values["keep_refs"]),
            "files": tuple(PlannedFile(**f) for f in values["files"]),
        }
        plan = Plan(**values)
    except (ValueError, KeyError, TypeError, ConfigError) as error:
        raise FormatError(
            f"The plan {what} can't be read ({error}). Nothing was deleted. Mark again.",
            kind="bad-plan",
        ) from error
    if plan.id != claimed:
        raise FormatError(
            f"The plan {what} was changed after it was written. Nothing was deleted. Mark again.",
            kind="bad-plan",
        )
    return plan


def planned_files(store: ObjectStore, parts: Iterable[Part]) -> tuple[PlannedFile, ...]:
    """The parts of a plan, each with the ETag that it has in the store now."""
    return tuple(
        PlannedFile(part.key, part.rows, part.bytes, store.stat(part.key).etag or "")
        for part in parts
    )


def planned_parts(store: ObjectStore, plan: Plan) -> list[Part]:
    """The plan's parts, refused when one of them was changed since it was written."""
    found = dict(store.stat_many([file.key for file in plan.files]))
    for file in plan.files:
        info = found[file.key]
        if info is None or (info.etag or "") != file.etag:
            raise UnsafeToSweepError(
                f"{file.key} of plan {plan.id} is missing or was changed. Nothing more was deleted. Mark again.",
                kind="bad-plan",
            )
    return [Part(file.key, file.rows, file.bytes) for file in plan.files]
