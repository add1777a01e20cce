"""The plan: exactly what a sweep may delete, durable and complete before the first delete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.collector.guards import BlastRadius
from lakesweep.collector.lakefs.paths import MarkId, RunFolder, RunId, mark_folder, mark_record
from lakesweep.collector.parts import Part
from lakesweep.domain.durations import format_duration, format_time, parse_time
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import (
    ConfigError,
    FormatError,
    ObjectNotFoundError,
    UnsafeToSweepError,
)
from lakesweep.formats.tables import MARK_SCHEMA
from lakesweep.storage import ObjectStore

SCHEMA = "lakesweep.plan/2"


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file of the mark, and the fingerprint by which a changed file is told."""

    key: str
    rows: int
    bytes: int
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
        content = json.dumps(self._content(), sort_keys=True).encode()
        object.__setattr__(self, "id", hashlib.sha256(content).hexdigest()[:16])

    def _content(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "repository": self.repository,
            "namespace": self.namespace,
            "run_id": self.run_id,
            "mark_id": self.mark_id,
            "what": self.what,
            "cutoff": format_time(self.cutoff),
            "live": asdict(self.live),
            "garbage": asdict(self.garbage),
            "keep_refs": list(self.keep_refs),
            "keep_tags": self.keep_tags,
            "min_age_seconds": self.min_age_seconds,
            "is_min_age_lowered": self.is_min_age_lowered,
            "files": [asdict(f) for f in self.files],
        }

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
        """What a command that sweeps this plan has to say besides."""
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
        values = json.loads(data)
        claimed = values.pop("id")
        if values.pop("schema") != SCHEMA:
            raise ValueError("unknown schema")
        plan = Plan(
            repository=values["repository"],
            namespace=values["namespace"],
            run_id=RunId(values["run_id"]),
            mark_id=MarkId(values["mark_id"]),
            what=values["what"],
            cutoff=parse_time(values["cutoff"]),
            live=Tally(**values["live"]),
            garbage=Tally(**values["garbage"]),
            keep_refs=tuple(values["keep_refs"]),
            keep_tags=values["keep_tags"],
            min_age_seconds=values["min_age_seconds"],
            is_min_age_lowered=values["is_min_age_lowered"],
            files=tuple(PlannedFile(**f) for f in values["files"]),
        )
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


def write_mark(
    store: ObjectStore, mark_id: MarkId, parts: Sequence[Part]
) -> tuple[PlannedFile, ...]:
    """Put the garbage parts into the mark's folder, and nothing else: attempts of tasks that did not count stay behind."""
    folder = mark_folder(mark_id)
    files = []
    for number, part in enumerate(parts):
        key = f"{folder}part-{number:05d}.parquet"
        store.copy(part.key, key)
        files.append(PlannedFile(key, part.rows, part.bytes, store.stat(key).etag or ""))
    if not files:
        # An empty mark is a mark: whoever reads the folder finds the columns and no rows.
        key = f"{folder}part-00000.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(MARK_SCHEMA.empty_table(), sink)
        info = store.write(key, sink.getvalue().to_pybytes())
        files.append(PlannedFile(key, 0, 0, info.etag or store.stat(key).etag or ""))
    return tuple(files)


def save_plan(store: ObjectStore, plan: Plan) -> None:
    """Make the plan durable; the mark's own record comes last, so that a mark without it is not finished."""
    store.write(RunFolder(plan.run_id).manifest, plan.encode())
    store.write(
        mark_record(plan.mark_id),
        json.dumps({"run_id": plan.run_id, "plan_id": plan.id}).encode(),
    )


def load_plan(store: ObjectStore, repository: str, mark_id: MarkId) -> Plan:
    """The plan of a mark of this repository."""
    try:
        found = json.loads(store.read(mark_record(mark_id)))
        run_id, plan_id = RunId(found["run_id"]), str(found["plan_id"])
        data = store.read(RunFolder(run_id).manifest)
    except ObjectNotFoundError as error:
        raise ConfigError(
            f"There is no finished mark {mark_id!r} in {repository}. Nothing was deleted. `lakesweep runs list` shows the marks.",
            kind="no-mark",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"The record of mark {mark_id} can't be read ({error}). Nothing was deleted. Mark again.",
            kind="bad-plan",
        ) from error
    plan = decode_plan(data, f"of mark {mark_id}")
    if (plan.mark_id, plan.id) != (mark_id, plan_id):
        raise FormatError(
            f"The record of mark {mark_id} names the plan of another mark ({plan.mark_id}). Nothing was deleted. Mark again.",
            kind="bad-plan",
        )
    if plan.repository != repository or plan.namespace != store.root.uri:
        raise UnsafeToSweepError(
            f"Mark {mark_id} was made for {plan.repository} at {plan.namespace}, not for {repository} at {store.root.uri}. "
            "Nothing was deleted.",
            kind="other-repository",
        )
    return plan


def mark_exists(store: ObjectStore, mark_id: MarkId) -> bool:
    """Whether anything lies in the mark's folder, finished or not."""
    return any(batch.num_rows for batch in store.list(mark_folder(mark_id)))


def mark_is_finished(store: ObjectStore, mark_id: MarkId) -> bool:
    """Whether a mark came to its end; only then does it have a record of its own."""
    return store.find(mark_record(mark_id)) is not None


def is_untouched(store: ObjectStore, plan: Plan) -> bool:
    """Whether the mark's folder holds exactly the files that the plan wrote."""
    listed = {
        key: etag
        for batch in store.list(mark_folder(plan.mark_id))
        for key, etag in zip(
            batch.column("key").to_pylist(), batch.column("etag").to_pylist(), strict=True
        )
    }
    return {key: etag or "" for key, etag in listed.items()} == {f.key: f.etag for f in plan.files}
