"""What the meetings of a what-if say, added up and refused where a number is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakesweep.catalogs.lakefs.uncommitted import UncommittedList
from lakesweep.collector.judge import references as refs
from lakesweep.collector.judge.account import check_once, counts_in, doubt, sums_of
from lakesweep.collector.lakefs.references import COUNTS_SCHEMA, Reference
from lakesweep.collector.lakefs.what_if.fates import AGES, SIZES, TALLIES, Dimension, Fate
from lakesweep.collector.lakefs.what_if.kept_references import KEPT_COUNTS_SCHEMA, KeptRange
from lakesweep.collector.lakefs.what_if.listed_sizes import LISTED_COUNTS
from lakesweep.collector.listing import TaskPieces
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ConfigError, UnsafeToSweepError
from lakesweep.formats.hashing import hash_address
from lakesweep.progress import human_bytes

__all__ = ["ByDays", "FateSums", "add_up_fates"]

ByDays = dict[int, Tally]  # the least days that keep the objects → how many
_MOST_FOLDERS = 200_000


@dataclass(frozen=True, slots=True)
class FateSums:
    """Sums over a listing. Every object of `listed` is kept, unreferenced, or in `by_question` once for each question."""

    listed: Tally
    kept: Mapping[str, Tally]
    unreferenced: Tally
    by_question: Sequence[ByDays]
    by_owner: Mapping[int, ByDays]
    by_folder: Mapping[str, ByDays]
    by_age: Mapping[str, ByDays]
    by_size: Mapping[str, ByDays]


def add_up_fates(
    met: pa.Table,
    references: Sequence[Reference | KeptRange],
    listed: Sequence[TaskPieces[str]],
    staged: UncommittedList,
    repository: str,
    questions: int,
) -> FateSums:
    """The account of a what-if that asked so many questions.

    Raises:
        UnsafeToSweepError: something was lost, doubled or cut on its way.
    """
    sums = sums_of(met)
    counts = counts_in(met, "reference_counts", COUNTS_SCHEMA)
    kept_counts = counts_in(met, "kept_counts", KEPT_COUNTS_SCHEMA)
    listed_counts = counts_in(met, "listed_counts", LISTED_COUNTS)
    _check_references([*counts, *kept_counts], references)
    staged_rows = (row["entries"] for row in counts if row["item"].startswith("staged:"))
    staged.assert_rows_read(sum(staged_rows))
    _check_received(counts, kept_counts, sums)
    check_once("listing", (row["item"] for row in listed_counts), (p.name for p in listed))
    _refuse_foreign(listed_counts, repository)
    rows = Tally(sums["rows"], sums["row_bytes"])
    sent = Tally(*(sum(row[c] for row in listed_counts) for c in ("rows", "bytes")))
    if rows != sent:
        raise doubt(f"{sent} were listed, {rows} were looked at")
    never_candidates = Tally(
        *(sum(row[c] for row in listed_counts) for c in ("protected", "protected_bytes"))
    )
    has_root_names = any(row["root_names"] for row in (*counts, *kept_counts))
    tallies = _Tallies(met, has_root_names=has_root_names)
    kept = {
        "live": tallies.fate(Fate.LIVE),
        "too young": tallies.fate(Fate.YOUNG),
        "protected": never_candidates + tallies.protected,
        "deleted by an earlier run, and there again": tallies.fate(Fate.GONE),
    }
    by_question = [tallies.of(Dimension.QUESTION).get(n, {}) for n in range(questions)]
    # What a root keeps by one of the questions, and not by all.
    kept["live"] += by_question[0].get(0, Tally())
    found = FateSums(
        listed=rows + never_candidates,
        kept=kept,
        unreferenced=tallies.fate(Fate.UNREFERENCED),
        by_question=by_question,
        by_owner=tallies.of(Dimension.OWNER),
        by_folder=_named(tallies.of(Dimension.FOLDER), kept_counts),
        by_age=_classes(tallies.of(Dimension.AGE), _AGE_NAMES),
        by_size=_classes(tallies.of(Dimension.SIZE), _SIZE_NAMES),
    )
    dated = sum((t for days, t in by_question[0].items() if days), Tally())
    if sum(found.kept.values(), found.unreferenced + dated) != found.listed:
        raise doubt(f"{found.listed} were listed, and not every one of them has one fate")
    return found


class _Tallies:
    """The tallies of all partitions. Names at the root may go only where commits hold such names."""

    def __init__(self, met: pa.Table, *, has_root_names: bool) -> None:
        batches = []
        for blob in met.column("tallies").to_pylist():
            with pa.ipc.open_stream(blob) as reader:
                batches.extend(reader)
        rows = pa.Table.from_batches(batches, schema=TALLIES)
        keys = ["dimension", "group", "days", "is_at_root"]
        summed = rows.group_by(keys).aggregate([("objects", "sum"), ("bytes", "sum")])
        self.protected = Tally()
        self._by_dimension: dict[int, dict[int, ByDays]] = {}
        for row in summed.to_pylist():
            tally = Tally(row["objects_sum"], row["bytes_sum"])
            dimension, group = row["dimension"], row["group"]
            is_live = dimension == Dimension.FATE and group == Fate.LIVE
            if row["is_at_root"] and not has_root_names and not is_live:
                self.protected += tally if dimension == Dimension.FATE else Tally()
                continue
            by_days = self._by_dimension.setdefault(dimension, {}).setdefault(group, {})
            by_days[row["days"]] = by_days.get(row["days"], Tally()) + tally

    def of(self, dimension: Dimension) -> dict[int, ByDays]:
        return self._by_dimension.get(dimension, {})

    def fate(self, fate: Fate) -> Tally:
        return self.of(Dimension.FATE).get(fate, {}).get(0, Tally())


def _check_references(
    counts: Sequence[dict[str, Any]], references: Sequence[Reference | KeptRange]
) -> None:
    check_once("reference", (row["item"] for row in counts), (r.name for r in references))
    for row in counts:
        if row["promised"] is not None and row["promised"] != row["entries"]:
            raise doubt(f"{row['item']} promised {row['promised']} entries, {row['entries']} came")
        inside = row["entries"] - row["outside"]
        if row["sent"] < inside:
            raise doubt(f"{row['item']} has {inside} entries inside, {row['sent']} were understood")


def _check_received(
    counts: Sequence[dict[str, Any]], kept_counts: Sequence[dict[str, Any]], sums: dict[str, int]
) -> None:
    sent = {"kept_references": sum(row["sent"] for row in kept_counts)}
    for name, kinds in (("live_references", (refs.LIVE,)), ("events", (refs.GONE, refs.RESTORED))):
        sent[name] = sum(row["sent"] for row in counts if row["kind"] in kinds)
    for name, number in sent.items():
        if sums[name] != number:
            raise doubt(f"{number} {name} were sent, {sums[name]} came")


def _refuse_foreign(listed_counts: Sequence[dict[str, Any]], repository: str) -> None:
    if any(row["foreign_repository"] for row in listed_counts):
        raise UnsafeToSweepError(
            f"Another repository lies inside the data of {repository}, and its objects would look like garbage here. "
            "No answer was used. Move that repository out of this namespace.",
            kind="foreign-repository",
        )


def _named(
    by_folder: Mapping[int, ByDays], kept_counts: Sequence[dict[str, Any]]
) -> dict[str, ByDays]:
    names = {name for row in kept_counts for name in row["folders"]}
    if len(names) > _MOST_FOLDERS:
        raise ConfigError(
            f"There are {len(names)} folders at this --depth, too many to tell apart. No answer was used. Choose a "
            "smaller one.",
            kind="too-deep",
        )
    hashes = {hash_address(name): name for name in names}
    return {hashes[group]: by_days for group, by_days in by_folder.items()}


def _classes(groups: Mapping[int, ByDays], names: Sequence[str]) -> dict[str, ByDays]:
    return {names[number]: groups[number] for number in sorted(groups)}


_AGE_NAMES = [f"under {age.days} days" if age.days > 1 else "under 1 day" for age in AGES]
_AGE_NAMES.append(f"{AGES[-1].days} days and more")
_SIZE_NAMES = [f"under {human_bytes(size)}" for size in SIZES]
_SIZE_NAMES.append(f"{human_bytes(SIZES[-1])} and more")
