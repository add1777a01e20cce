"""Bring candidates and references together, and prove that every one of them was counted once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from lakesweep.collector.judge.account import check_once, counts_in, doubt, parts_in, sums_of
from lakesweep.collector.judge.suspects import MOST_SUSPECTS, Suspects
from lakesweep.collector.lakefs import candidates as cand
from lakesweep.collector.lakefs import references as refs
from lakesweep.collector.lakefs.candidates import (
    Candidate,
    ListedPart,
    PlannedPart,
    read_candidates,
)
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.references import (
    AddressList,
    RangeReference,
    Reference,
    read_references,
)
from lakesweep.collector.lakefs.verdicts import MET_SCHEMA, VERDICTS, Judge
from lakesweep.collector.parts import Part
from lakesweep.domain.commits import RangeId
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.cells import Hashes
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter, deal_evenly, tasks_for

# A meeting holds both sides of its partition in memory (feasibility.md, section 7).
_CANDIDATES_PER_PARTITION = 1_000_000
_REFERENCES_PER_PARTITION = 4_000_000
# Opening a file takes as long as reading so many entries; a list whose length nobody tells has about so many.
_COST_OF_A_FILE = 1_000
_ENTRIES_OF_A_LIST = 100_000


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts of one meeting of all candidates with all references."""

    tallies: dict[str, Tally]
    duplicates: Tally
    live_references: int
    live: Tally  # distinct addresses of the references that were to be measured, and their bytes
    garbage: list[Part]
    undated: list[Part]
    young: list[Part]
    kept: list[Part]
    packs: dict[
        RangeId, tuple[str, int]
    ]  # ranges read afresh: where their hashes are now, and how many
    dead_canaries: Hashes
    staged_rows: int
    root_names: (
        bool  # whether commits hold addresses that a server gave at the root of the namespace
    )
    foreign_at_root: tuple[str, ...]  # protected for that reason: a few of them
    suspects: Suspects


def judge_candidates(
    context: RunContext,
    references: Sequence[Reference],
    candidates: Sequence[Candidate],
    judge: Judge,
    *,
    expected_references: int,
    expected_candidates: int,
    cache_folder: str,
) -> Judged:
    """Run the anti-join. The expected sizes only choose the number of partitions.

    Names at the root are protected at first. Where commits turn out to hold such addresses, all is judged once more.
    """
    judge_once = partial(
        _judge_once,
        context,
        candidates=candidates,
        expected_references=expected_references,
        expected_candidates=expected_candidates,
        cache_folder=cache_folder,
    )
    judged = judge_once(references, judge)
    if judged.foreign_at_root and judged.root_names:
        packs = {range_id: pack for range_id, (pack, _) in judged.packs.items()}
        judged = judge_once(_with_packs(references, packs), replace(judge, root_names=True))
    return judged


def _judge_once(
    context: RunContext,
    references: Sequence[Reference],
    judge: Judge,
    *,
    candidates: Sequence[Candidate],
    expected_references: int,
    expected_candidates: int,
    cache_folder: str,
) -> Judged:
    slots = context.engine.slots
    partitions = max(
        math.ceil(expected_candidates / _CANDIDATES_PER_PARTITION),
        math.ceil(expected_references / _REFERENCES_PER_PARTITION),
        min(slots, 1 + (expected_candidates + expected_references) // 100_000),
    )
    partitions = min(partitions, max(context.parallelism.partitions, 1))
    tasks = tasks_for(len(references), slots, at_most=context.parallelism.range_tasks, per_task=4)
    left = Scatter(
        references,
        partial(read_references, context.target, partitions, cache_folder),
        CELL_SCHEMA,
        tasks,
        deal_references(references, tasks),
    )
    right = Scatter(
        list(candidates),
        partial(read_candidates, context.target, partitions),
        CELL_SCHEMA,
        tasks_for(len(candidates), slots, at_most=context.parallelism.partitions),
    )
    # Hashes spread evenly: a partition with twice its share of suspects means that there are too many in all.
    judge = replace(judge, most_suspects=2 * MOST_SUSPECTS // partitions)
    met = context.engine.meet(left, right, judge, MET_SCHEMA, partitions)
    return _add_up(met, references, candidates)


def _with_packs(references: Sequence[Reference], packs: Mapping[RangeId, str]) -> list[Reference]:
    """The same references, where ranges that were just read come out of the cache."""
    return [
        replace(item, pack=packs.get(item.range_id, item.pack))
        if isinstance(item, RangeReference)
        else item
        for item in references
    ]


def deal_references(references: Sequence[Reference], tasks: int) -> list[int]:
    """A task for each reference: evenly by entries, and all ranges of one pack together, so that it is read once."""
    bundles: dict[str, list[int]] = {}
    for number, item in enumerate(references):
        pack = item.pack if isinstance(item, RangeReference) else ""
        bundles.setdefault(pack or item.name, []).append(number)
    weights = [
        _COST_OF_A_FILE + sum(_entries(references[number]) for number in numbers)
        for numbers in bundles.values()
    ]
    task_of = [0] * len(references)
    for numbers, task in zip(bundles.values(), deal_evenly(weights, tasks), strict=True):
        for number in numbers:
            task_of[number] = task
    return task_of


def _entries(item: Reference) -> int:
    match item:
        case RangeReference():
            return item.count
        case AddressList():
            return len(item.addresses)
    return _ENTRIES_OF_A_LIST


def _add_up(
    met: pa.Table, references: Sequence[Reference], candidates: Sequence[Candidate]
) -> Judged:
    sums = sums_of(met)
    counts = counts_in(met, "reference_counts", refs.COUNTS_SCHEMA)
    _check_references(counts, references, sums)
    candidate_counts = counts_in(met, "candidate_counts", cand.COUNTS_SCHEMA)
    _check_candidates(candidate_counts, candidates, sums)
    dead = [
        np.frombuffer(blob, dtype=np.uint64) for blob in met.column("dead_canaries").to_pylist()
    ]
    return Judged(
        tallies={v: Tally(sums[v], sums[f"{v}_bytes"]) for v in VERDICTS},
        duplicates=Tally(sums["duplicates"], sums["duplicate_bytes"]),
        live_references=sums["live_references"],
        live=Tally(sums["measured"], sums["measured_bytes"]),
        garbage=parts_in(met, "garbage_parts"),
        undated=parts_in(met, "undated_parts"),
        young=parts_in(met, "young_parts"),
        kept=parts_in(met, "kept_parts"),
        packs={
            RangeId(row["item"].removeprefix("range:")): (row["pack"], row["promised"])
            for row in counts
            if row["pack"]
        },
        dead_canaries=np.concatenate(dead) if dead else np.empty(0, dtype=np.uint64),
        staged_rows=sum(row["entries"] for row in counts if row["item"].startswith("staged:")),
        suspects=Suspects.union(met.column("suspects").to_pylist()),
        root_names=any(row["root_names"] for row in (*counts, *candidate_counts)),
        foreign_at_root=tuple(
            name for some in met.column("foreign_at_root").to_pylist() for name in some.split()
        ),
    )


def _check_references(
    counts: list[dict[str, Any]], references: Sequence[Reference], sums: dict[str, int]
) -> None:
    """Every range, page and list arrived once and whole, and what was sent is what was received."""
    check_once("reference", (str(row["item"]) for row in counts), (r.name for r in references))
    sent: Counter[int] = Counter()
    for row in counts:
        sent[row["kind"]] += row["sent"]
        if row["promised"] is not None and row["promised"] != row["entries"]:
            raise doubt(f"{row['item']} promised {row['promised']} entries, {row['entries']} came")
        inside = row["entries"] - row["outside"]
        if row["sent"] < inside:
            # A reader gone blind. Entries outside the namespace are none of ours, and no blindness.
            raise doubt(f"{row['item']} has {inside} entries inside, {row['sent']} were understood")
    for kind, received in ((refs.LIVE, "live_references"), (refs.EXPIRED, "expired_references")):
        if sent[kind] != sums[received]:
            raise doubt(f"{sent[kind]} references were sent, {sums[received]} came ({received})")
    told = sent[refs.GONE] + sent[refs.RESTORED]
    if told != sums["events"]:
        raise doubt(f"{told} deletions and restorations were sent, {sums['events']} came")
    if sent[refs.CANARY] != sums["canaries"]:
        raise doubt(f"{sent[refs.CANARY]} canaries were sent, {sums['canaries']} came")


def _check_candidates(
    counts: list[dict[str, Any]], candidates: Sequence[Candidate], sums: dict[str, int]
) -> None:
    check_once("candidate", (str(row["item"]) for row in counts), (c.name for c in candidates))
    rows = {str(row["item"]): row["rows"] for row in counts}
    for item in candidates:
        promised = item.rows if isinstance(item, ListedPart | PlannedPart) else None
        if promised is not None and rows[item.name] != promised:
            raise doubt(f"{item.name} held {rows[item.name]} rows, {promised} were written into it")
    judged = sum(sums[v] for v in VERDICTS) + sums["duplicates"]
    judged_bytes = sum(sums[f"{v}_bytes"] for v in VERDICTS) + sums["duplicate_bytes"]
    sent_bytes = sum(row["bytes"] for row in counts)
    if sum(rows.values()) != judged or sent_bytes != judged_bytes:
        raise doubt(
            f"{sum(rows.values())} candidates of {sent_bytes} bytes were sent, "
            f"{judged} of {judged_bytes} bytes got a verdict"
        )
