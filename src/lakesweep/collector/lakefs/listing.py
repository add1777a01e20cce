"""The listing stage: slices over the engine, candidates into parts, everything else counted and named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lakesweep.collector.judge.candidates import CandidatePart, listed_parts
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.list_prefixes import LISTED_SCHEMA, Prefix, list_prefixes
from lakesweep.collector.parts import Part
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import UnsafeToSweepError

_EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class ListedObjects:
    """What a listing saw. `candidates` + `protected` = `listed`, in objects and bytes."""

    listed: Tally
    protected: Tally
    parts: tuple[CandidatePart, ...]
    examples: dict[str, list[str]]


def list_namespace(context: RunContext, prefixes: Sequence[Prefix], folder: str) -> ListedObjects:
    """List these prefixes, each exactly once."""
    scatter = Scatter(
        list(prefixes),
        partial(list_prefixes, context.target, folder),
        LISTED_SCHEMA,
        tasks_for(
            len(prefixes),
            context.engine.slots,
            at_most=context.parallelism.list_tasks,
            per_task=8,
            waves=4,
        ),
    )
    rows = context.engine.collect(scatter).to_pylist()
    seen = [row for row in rows if row["kind"] == "prefix"]
    if sorted(row["name"] for row in seen) != sorted(p.key for p in prefixes):
        raise UnsafeToSweepError(
            f"{len(prefixes)} prefixes of {context.name} were to be listed, {len(seen)} were. Nothing was deleted. Run again.",
            kind="not-conserved",
        )
    foreign = next((row["foreign_repository"] for row in seen if row["foreign_repository"]), None)
    if foreign is not None:
        raise UnsafeToSweepError(
            f"Another repository lies inside the data of {context.name}: {foreign}. Its objects would look like garbage here. "
            "Nothing was deleted. Move that repository out of this namespace.",
            kind="foreign-repository",
        )
    parts = [row for row in rows if row["kind"] == "part"]
    listed = Tally(sum(r["objects"] for r in seen), sum(r["bytes"] for r in seen))
    protected = Tally(sum(r["protected"] for r in seen), sum(r["protected_bytes"] for r in seen))
    written = Tally(sum(r["objects"] for r in parts), sum(r["bytes"] for r in parts))
    if written + protected != listed:
        raise UnsafeToSweepError(
            f"The listing of {context.name} does not add up: {listed} were listed, {written} written, {protected} protected. "
            "Nothing was deleted. Run again.",
            kind="not-conserved",
        )
    examples: dict[str, list[str]] = {}
    for row in seen:
        for reason, names in json.loads(row["examples"]).items():
            examples[reason] = (examples.get(reason, []) + names)[:_EXAMPLES]
    return ListedObjects(
        listed,
        protected,
        tuple(listed_parts(Part(r["name"], r["objects"], r["bytes"]) for r in parts)),
        examples,
    )
