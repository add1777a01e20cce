"""Bring files and references together, and prove that every one of them was counted once."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lakesweep.collector.judge.account import check_once, counts_in, doubt, parts_in, sums_of
from lakesweep.collector.nessie import candidates as cand
from lakesweep.collector.nessie import references as refs
from lakesweep.collector.nessie.candidates import read_candidates
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.manifest_hashes import PackIndex, load_index, save_index
from lakesweep.collector.nessie.places import Unreadable
from lakesweep.collector.nessie.protection import FolderIndex
from lakesweep.collector.nessie.references import (
    ManifestItem,
    NamedFiles,
    ReferenceItem,
    read_references,
)
from lakesweep.collector.nessie.verdicts import MET_SCHEMA, VERDICTS, FileJudge
from lakesweep.collector.parts import Part
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter, deal_evenly, tasks_for

# A meeting holds both sides of its partition in memory.
_FILES_PER_PARTITION = 1_000_000
_REFERENCES_PER_PARTITION = 4_000_000
# Opening a manifest takes as long as reading so many entries; one whose length nobody tells has about so many.
_COST_OF_A_FILE = 200
_ENTRIES_OF_A_MANIFEST = 1_000
# What each costs on one core, from its place in a manifest or a listing to its verdict.
_SECONDS_PER_MANIFEST = 3e-4
_SECONDS_PER_ENTRY = 2e-6
_SECONDS_PER_CANDIDATE = 1e-5


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts of one meeting of all candidates with all references."""

    tallies: dict[str, Tally]
    live_references: int
    garbage: list[Part]
    live: list[Part]  # rows that turned out to be live, where the judge was told to keep them
    protections: dict[str, tuple[Tally, str]]  # word → how much, and an example
    bad_manifests: dict[
        str, Unreadable
    ]  # where they must be readable, nothing else here may be used
    fuller_manifests: set[str]  # those with more entries than their lists promise


def judge_files(
    context: NessieContext,
    references: Sequence[ReferenceItem],
    parts: Sequence[Part],
    protection: FolderIndex,
    judge: FileJudge,
    kept_in: str,
) -> Judged:
    """Run the anti-join over the whole catalog at once.

    Hashes of manifests that an earlier run kept in the folder `kept_in` are taken from there, and others are kept there.
    """
    slots = context.engine.slots
    references = with_packs(references, load_index(context.store, kept_in))
    weights = [_entries(item) for item in references]
    files = sum(part.rows for part in parts)
    partitions = max(
        math.ceil(files / _FILES_PER_PARTITION),
        math.ceil(sum(weights) / _REFERENCES_PER_PARTITION),
        min(slots, 1 + (files + sum(weights)) // 100_000),
    )
    tasks = tasks_for(len(references), slots, at_most=context.most_tasks, per_task=8)
    left = Scatter(
        references,
        partial(read_references, context.lake, context.target, partitions, kept_in),
        CELL_SCHEMA,
        tasks,
        _deal(references, weights, tasks),
        seconds=len(references) * _SECONDS_PER_MANIFEST + sum(weights) * _SECONDS_PER_ENTRY,
    )
    right = Scatter(
        list(parts),
        partial(read_candidates, context.target, protection, partitions),
        CELL_SCHEMA,
        tasks_for(len(parts), slots, at_most=context.most_tasks),
        seconds=files * _SECONDS_PER_CANDIDATE,
    )
    met = context.engine.meet(left, right, judge, MET_SCHEMA, partitions)
    counts = counts_in(met, "reference_counts", refs.COUNTS_SCHEMA)
    _save_new_packs(context, kept_in, references, counts)
    return _add_up(met, counts, references, parts)


def with_packs(references: Sequence[ReferenceItem], packs: PackIndex) -> list[ReferenceItem]:
    """The same references, the manifests told where their hashes are kept."""
    return [
        replace(item, pack=packs.get((item.path, item.promised.length), ""))
        if isinstance(item, ManifestItem) and item.promised.length is not None
        else item
        for item in references
    ]


def _deal(references: Sequence[ReferenceItem], weights: Sequence[int], tasks: int) -> list[int]:
    """A task for each reference: those of one pack go to one task, which reads it once."""
    groups: dict[str, int] = {}
    group_of: list[int] = []
    laden: list[int] = []
    for item, weight in zip(references, weights, strict=True):
        pack = item.pack if isinstance(item, ManifestItem) else ""
        group = groups.setdefault(pack, len(laden)) if pack else len(laden)
        if group == len(laden):
            laden.append(0)
        laden[group] += _COST_OF_A_FILE + weight
        group_of.append(group)
    task_of = deal_evenly(laden, tasks)
    return [task_of[group] for group in group_of]


def _save_new_packs(
    context: NessieContext,
    kept_in: str,
    references: Sequence[ReferenceItem],
    counts: Sequence[dict[str, Any]],
) -> None:
    packs = {row["item"]: row["pack"] for row in counts if row["pack"]}
    new = {
        (item.path, item.promised.length): packs[item.name]
        for item in references
        if isinstance(item, ManifestItem)
        and item.promised.length is not None
        and packs.get(item.name, item.pack) != item.pack
    }
    save_index(context.store, kept_in, new)


def _entries(item: ReferenceItem) -> int:
    match item:
        case ManifestItem():
            return item.promised.entries or _ENTRIES_OF_A_MANIFEST
        case NamedFiles():
            return len(item.uris)
    return _ENTRIES_OF_A_MANIFEST


def _add_up(
    met: pa.Table,
    counts: list[dict[str, Any]],
    references: Sequence[ReferenceItem],
    parts: Sequence[Part],
) -> Judged:
    sums = sums_of(met)
    _check_references(counts, references, sums)
    _check_candidates(counts_in(met, "candidate_counts", cand.COUNTS_SCHEMA), parts, sums)
    manifests = {item.name: item.path for item in references if isinstance(item, ManifestItem)}
    return Judged(
        tallies={v: Tally(sums[v], sums[f"{v}_bytes"]) for v in VERDICTS},
        live_references=sums["live_references"],
        garbage=parts_in(met, "garbage_parts"),
        live=parts_in(met, "live_parts"),
        protections=_protections(met),
        bad_manifests={
            manifests[r["item"]]: Unreadable(r["problem"], r["is_missing"])
            for r in counts
            # A dropped table's own missing manifests were collected or purged: what is left of it is known by name.
            if r["problem"] and not (r["is_missing"] and r["kind"] == refs.DROPPED)
        },
        fuller_manifests={manifests[r["item"]] for r in counts if r["is_fuller"]},
    )


def _check_references(
    counts: list[dict[str, Any]], references: Sequence[ReferenceItem], sums: dict[str, int]
) -> None:
    """Every manifest and list arrived once, what was sent is what was received, and every canary is live."""
    check_once("reference", (str(r["item"]) for r in counts), (r.name for r in references))
    sent: Counter[int] = Counter()
    for row in counts:
        sent[row["kind"]] += row["sent"]
    for kind, received in (
        (refs.LIVE, "live_references"),
        (refs.DROPPED, "dropped_references"),
        (refs.GONE, "gone_references"),
        (refs.CANARY, "canaries"),
    ):
        if sent[kind] != sums[received]:
            raise doubt(f"{sent[kind]} references were sent, {sums[received]} came ({received})")
    if sums["dead_canaries"]:
        raise doubt(
            f"{sums['dead_canaries']} of {sums['canaries']} metadata files of the live set count as garbage"
        )


def _check_candidates(
    counts: list[dict[str, Any]], parts: Sequence[Part], sums: dict[str, int]
) -> None:
    check_once("candidate", (str(r["item"]) for r in counts), (p.key for p in parts))
    rows = {str(r["item"]): (r["rows"], r["bytes"]) for r in counts}
    for part in parts:
        if rows[part.key] != (part.rows, part.bytes):
            raise doubt(f"{part.key} held {rows[part.key]}, promised were {part}")
    judged = sum(sums[v] for v in VERDICTS) + sums["duplicates"]
    judged_bytes = sum(sums[f"{v}_bytes"] for v in VERDICTS) + sums["duplicate_bytes"]
    if (judged, judged_bytes) != (sum(p.rows for p in parts), sum(p.bytes for p in parts)):
        raise doubt(
            f"{sum(p.rows for p in parts)} files of {sum(p.bytes for p in parts)} bytes were sent, {judged} of "
            f"{judged_bytes} bytes got a verdict"
        )


def _protections(met: pa.Table) -> dict[str, tuple[Tally, str]]:
    found: dict[str, tuple[Tally, str]] = {}
    for text in met.column("protections").to_pylist():
        for word, (objects, size, example) in json.loads(text).items():
            tally, first = found.get(word, (Tally(), example))
            found[word] = (tally + Tally(objects, size), first)
    return found
