"""Bring candidates and references together, and prove that every one of them was counted once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import compress
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge import references as refs
from lakesweep.collector.judge.account import check_once, counts_in, doubt, sums_of
from lakesweep.collector.judge.candidate_filter import is_worth_it, save_filter
from lakesweep.collector.judge.candidates import Candidates
from lakesweep.collector.judge.columns import MET_SCHEMA, Judge
from lakesweep.collector.judge.magnitudes import least_bytes
from lakesweep.collector.judge.suspects import Suspects
from lakesweep.collector.parts import Part, parts_told
from lakesweep.domain.verdicts import Tally, Verdict
from lakesweep.engine.cells import Hashes
from lakesweep.engine.tasks import CELL_SCHEMA, Engine, Scatter, Work, deal_evenly, tasks_for
from lakesweep.errors import LakesweepError
from lakesweep.formats.hashing import hash_addresses

# A meeting holds both sides of its partition in memory (feasibility.md, section 7).
_CANDIDATES_PER_PARTITION = 1_000_000
_REFERENCES_PER_PARTITION = 4_000_000
# What each costs on one core, and a reference whose hash an earlier run has kept in a pack of many ranges.
SECONDS_PER_CANDIDATE = SECONDS_PER_REFERENCE = 2e-6
SECONDS_PER_KEPT_REFERENCE = 4e-7


def seconds_of_reading(
    entries: Sequence[int], packs: Sequence[str], seconds_per_file: float
) -> float:
    """About how many seconds one core takes to read files with these numbers of entries, some of them out of packs."""
    kept = sum(compress(entries, packs))
    files = packs.count("") + len(set(packs) - {""})
    return (
        files * seconds_per_file
        + (sum(entries) - kept) * SECONDS_PER_REFERENCE
        + kept * SECONDS_PER_KEPT_REFERENCE
    )


class Reference(Protocol):
    """A source of references, such as a range of commits or a list of what is staged."""

    @property
    def name(self) -> str:
        """The name of the source in the counts of what was read."""
        ...


@dataclass(frozen=True, slots=True)
class ReferenceSide:
    """All sources of references of a meeting, and `read`, which makes their work function for a number of partitions."""

    items: Sequence[Reference]
    read: Callable[[int], Work]
    most_tasks: int
    weights: Sequence[int] = ()  # entries of each item, about; none: all items weigh the same
    packs: Sequence[str] = ()  # items of one pack go to one task, which reads it once; empty: none
    file_cost: int = 1  # opening a file takes as long as reading so many entries
    per_task: int = 4
    entries: int | None = None  # of all items, where that is known better than by the weights
    seconds_per_file: float | None = None  # None: where to run this is not chosen by its cost
    # Makes the work function for a filter of candidates, by its key; None: this catalog's readers take none.
    read_filtered: Callable[[int, str], Work] | None = None

    def scatter(self, slots: int, partitions: int, filter_key: str = "") -> Scatter:
        tasks = tasks_for(len(self.items), slots, at_most=self.most_tasks, per_task=self.per_task)
        work = self.read(partitions)
        if filter_key and self.read_filtered is not None:
            work = self.read_filtered(partitions, filter_key)
        seconds = None
        if self.seconds_per_file is not None:
            packs = self.packs or [""] * len(self.items)
            seconds = seconds_of_reading(self.weights, packs, self.seconds_per_file)
        entries = sum(self.weights) if self.entries is None else self.entries
        return Scatter(
            self.items,
            work,
            CELL_SCHEMA,
            tasks,
            self.dealt(tasks),
            seconds,
            objects=entries,
        )

    def dealt(self, tasks: int) -> list[int]:
        """The number of the task that reads each item: entries are spread evenly, and items of one pack stay together."""
        bundles: dict[str, list[int]] = {}
        for number, pack in enumerate(self.packs or [""] * len(self.items)):
            bundles.setdefault(pack or f"item {number}", []).append(number)
        weights = [
            sum(self.file_cost + (self.weights[n] if self.weights else 0) for n in numbers)
            for numbers in bundles.values()
        ]
        task_of = [0] * len(self.items)
        for numbers, task in zip(bundles.values(), deal_evenly(weights, tasks), strict=True):
            for number in numbers:
                task_of[number] = task
        return task_of


@dataclass(frozen=True, slots=True)
class CandidateSide:
    """All sources of candidates of a meeting, and `read`, which makes their work function; `rows` is an estimate."""

    items: Sequence[Candidates]
    read: Callable[[int], Work]
    rows: int
    most_tasks: int
    seconds: float | None = None  # None: where to run this is not chosen by its cost

    def scatter(self, slots: int, partitions: int) -> Scatter:
        tasks = tasks_for(len(self.items), slots, at_most=self.most_tasks)
        return Scatter(
            list(self.items),
            self.read(partitions),
            CELL_SCHEMA,
            tasks,
            seconds=self.seconds,
            objects=self.rows,
        )


def _hash_names(names: Sequence[str]) -> Hashes:
    return hash_addresses(pa.array(names, pa.string()))


@dataclass(frozen=True, slots=True)
class Canaries:
    """Objects that are live, known by another road than the references; taken before those are read.

    They catch what no count can: names that the collector spells otherwise than the catalog does, and a list that was cut
    short without a word.
    """

    names: Sequence[str]  # among the references, too
    error: Callable[
        [str], LakesweepError | None
    ]  # of one that no reference explains; None where it is live no more
    hash_names: Callable[[Sequence[str]], Hashes] = _hash_names  # as references have them

    def refuse_dead(self, dead: Hashes) -> None:
        """End the run if one of these hashes, which no reference explains, is that of a canary that is still live."""
        if not len(dead):
            return
        for number in np.flatnonzero(np.isin(self.hash_names(self.names), dead)):
            error = self.error(self.names[int(number)])
            if error is not None:
                raise error


@dataclass(frozen=True, slots=True)
class Protection:
    """Objects and bytes that are protected for one reason, with a few of their names."""

    tally: Tally
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts of one meeting of all candidates with all references."""

    tallies: dict[Verdict, Tally]
    duplicates: Tally
    live_references: int
    live: Tally  # distinct objects of the references that were to be measured, and their bytes
    oldest_garbage: datetime | None  # when it was written, of what has a time
    garbage: list[Part]
    undated: list[Part]
    young: list[Part]
    kept: list[Part]  # rows that turned out to be live, where the judge was told to keep them
    protections: dict[str, Protection]
    dead_canaries: Hashes
    suspects: Suspects
    reference_counts: list[dict[str, Any]]
    candidate_counts: list[dict[str, Any]]

    @property
    def garbage_tally(self) -> Tally:
        """Objects and bytes of the garbage, expired and unreferenced."""
        return self.tallies[Verdict.EXPIRED] + self.tallies[Verdict.UNREFERENCED]


def judge_all(
    engine: Engine,
    references: ReferenceSide,
    candidates: CandidateSide,
    judge: Judge,
    canaries: Canaries,
    most_partitions: int = 65_536,
    check_promises: Callable[[Judged], None] = lambda judged: None,
) -> Judged:
    """Run the anti-join over everything at once, and believe it only where it adds up and every canary came out as live.

    `check_promises` raises where a catalog's references hold less than it was told: that says more than a dead canary.
    """
    entries = sum(references.weights) if references.entries is None else references.entries
    partitions = max(
        math.ceil(candidates.rows / _CANDIDATES_PER_PARTITION),
        math.ceil(entries / _REFERENCES_PER_PARTITION),
        min(engine.slots, 1 + (candidates.rows + entries) // 100_000),
    )
    partitions = min(partitions, max(most_partitions, 1))
    # Hashes spread evenly: a partition with twice its share of suspects means that there are too many in all.
    judge = replace(judge, most_suspects=2 * judge.most_suspects // partitions)
    if references.read_filtered is not None and is_worth_it(candidates.rows, entries):
        hashes = canaries.hash_names(canaries.names)
        every = candidates.scatter(engine.slots, 1)
        key = save_filter(engine, judge.target, judge.folder, every, judge.rows, hashes)
        judge = replace(judge, filter_key=key)
    met = engine.meet(
        references.scatter(engine.slots, partitions, judge.filter_key),
        candidates.scatter(engine.slots, partitions),
        judge,
        MET_SCHEMA,
        partitions,
    )
    if judge.filter_key:
        judge.target.open().delete_many([judge.filter_key])
    judged = add_up(met, references.items, candidates.items, judge)
    check_promises(judged)
    taken = sum(row["sent"] for row in judged.reference_counts if row["kind"] == refs.CANARY)
    if taken != len(canaries.names):
        raise doubt(f"{len(canaries.names)} canaries were taken, {taken} were among the references")
    canaries.refuse_dead(judged.dead_canaries)
    return judged


def add_up(
    met: pa.Table, references: Sequence[Reference], candidates: Sequence[Candidates], judge: Judge
) -> Judged:
    """Add up what the partitions of a meeting returned; refused where anything was lost, doubled or cut on its way."""
    sums = sums_of(met)
    counts = counts_in(met, "reference_counts", judge.rows.reference_counts)
    _check_references(counts, references, sums)
    candidate_counts = counts_in(met, "candidate_counts", judge.rows.candidate_counts)
    _check_candidates(candidate_counts, candidates, sums)
    dead = [np.frombuffer(blob, np.uint64) for blob in met.column("dead_canaries").to_pylist()]
    return Judged(
        tallies={v: Tally(sums[v], sums[f"{v}_bytes"]) for v in Verdict},
        duplicates=Tally(sums["duplicates"], sums["duplicate_bytes"]),
        live_references=sums["live_references"],
        live=_measured(met, refs.SAMPLED_ONE_OF if judge.filter_key else 1),
        oldest_garbage=pc.min(met.column("oldest_garbage")).as_py(),
        garbage=parts_told(*met.column("garbage_parts").to_pylist()),
        undated=parts_told(*met.column("undated_parts").to_pylist()),
        young=parts_told(*met.column("young_parts").to_pylist()),
        kept=parts_told(*met.column("kept_parts").to_pylist()),
        protections=_protections(met),
        dead_canaries=np.concatenate([np.empty(0, np.uint64), *dead]),
        suspects=Suspects.union(met.column("suspects").to_pylist()),
        reference_counts=counts,
        candidate_counts=candidate_counts,
    )


def _measured(met: pa.Table, share: int) -> Tally:
    """How many objects are live by the references that were measured, of which each stands for `share`, and their least bytes."""
    counts = [sum(of_code) for of_code in zip(*met.column("measured").to_pylist(), strict=True)]
    return Tally(sum(counts) * share, least_bytes(counts, share))


def _check_references(
    counts: list[dict[str, Any]], references: Sequence[Reference], sums: dict[str, int]
) -> None:
    """Refuse unless every source of references arrived once and whole, and as many hashes came as were sent."""
    check_once("reference", (str(row["item"]) for row in counts), (r.name for r in references))
    sent: Counter[int] = Counter()
    for row in counts:
        sent[row["kind"]] += row["sent"]
        if row["promised"] is not None and row["promised"] != row["entries"]:
            raise doubt(f"{row['item']} promised {row['promised']} entries, {row['entries']} came")
        inside = row["entries"] - row["outside"]
        understood = row["sent"] + row["left_out"]
        if understood < inside:
            # A reader gone blind. Entries that no object of ours can have are no blindness.
            raise doubt(f"{row['item']} has {inside} entries inside, {understood} were understood")
    for kind, received in (
        (refs.LIVE, "live_references"),
        (refs.EXPIRED, "expired_references"),
        (refs.PROTECTING, "protecting_references"),
    ):
        if sent[kind] != sums[received]:
            raise doubt(f"{sent[kind]} references were sent, {sums[received]} came ({received})")
    told = sent[refs.GONE] + sent[refs.RESTORED]
    if told != sums["events"]:
        raise doubt(f"{told} deletions and restorations were sent, {sums['events']} came")
    if sent[refs.CANARY] != sums["canaries"]:
        raise doubt(f"{sent[refs.CANARY]} canaries were sent, {sums['canaries']} came")


def _check_candidates(
    counts: list[dict[str, Any]], candidates: Sequence[Candidates], sums: dict[str, int]
) -> None:
    """Refuse unless every source of candidates arrived once, with all its rows, and each row got one verdict."""
    check_once("candidate", (str(row["item"]) for row in counts), (c.name for c in candidates))
    found = {str(row["item"]): row for row in counts}
    for item in candidates:
        for what, promised in (("rows", item.rows), ("bytes", item.bytes)):
            held = found[item.name][what]
            if promised is not None and held != promised:
                raise doubt(f"{item.name} held {held} {what}, {promised} were written into it")
    sent, sent_bytes = sum(row["rows"] for row in counts), sum(row["bytes"] for row in counts)
    judged = sum(sums[v] for v in Verdict) + sums["duplicates"]
    judged_bytes = sum(sums[f"{v}_bytes"] for v in Verdict) + sums["duplicate_bytes"]
    if (sent, sent_bytes) != (judged, judged_bytes):
        raise doubt(
            f"{sent} candidates of {sent_bytes} bytes were sent, {judged} of {judged_bytes} bytes got a verdict"
        )


def _protections(met: pa.Table) -> dict[str, Protection]:
    found: dict[str, Protection] = {}
    for row in (row for rows in met.column("protections").to_pylist() for row in rows):
        before = found.get(row["why"], Protection(Tally(), ()))
        found[row["why"]] = Protection(
            before.tally + Tally(row["objects"], row["bytes"]),
            (*before.examples, *row["examples"]),
        )
    return found
