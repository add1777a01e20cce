"""Judge the candidates of a repository: their rows, their names at the root, and the ranges that were read afresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.catalogs.lakefs.uncommitted import UncommittedList
from lakesweep.collector.judge.columns import Judge, KeyRows, Mask
from lakesweep.collector.judge.meeting import (
    Canaries,
    CandidateSide,
    Judged,
    ReferenceSide,
    judge_all,
)
from lakesweep.collector.judge.references import CANARY
from lakesweep.collector.judge.suspects import MOST_SUSPECTS
from lakesweep.collector.lakefs import candidates as cand
from lakesweep.collector.lakefs import references as refs
from lakesweep.collector.lakefs.candidates import Candidate, read_candidates
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.references import (
    AddressList,
    RangeReference,
    Reference,
    read_references,
)
from lakesweep.collector.target import Target
from lakesweep.domain.addresses import (
    ROOT_CANDIDATE_PATTERN,
    ProtectedReason,
    candidate_pattern,
)
from lakesweep.domain.commits import RangeId
from lakesweep.domain.verdicts import Source
from lakesweep.formats.tables import MARK_SCHEMA

# Opening a file takes as long as reading so many entries; a list whose length nobody tells has about so many.
_COST_OF_A_FILE = 1_000
_ENTRIES_OF_A_LIST = 100_000
_NOT_LAKEFS = "not a name that lakeFS gives to data"
_AT_ROOT = ProtectedReason.FOREIGN_FILE_AT_ROOT.value


@dataclass(frozen=True, slots=True)
class AddressRows(KeyRows):
    """Rows of addresses in the namespace. `root_names`: whether the repository's commits hold some at its root."""

    root_names: bool = False
    schema = cand.ROW_SCHEMA
    reference_counts = refs.COUNTS_SCHEMA
    candidate_counts = cand.COUNTS_SCHEMA

    def protections(self, rows: pa.Table, is_held: Mask) -> pa.Array:
        """Only what has the shape of a name that lakeFS gives may go, whatever a plan says."""
        addresses = rows.column("address").combine_chunks()
        may_go = pc.match_substring_regex(addresses, candidate_pattern(root_names=self.root_names))
        if pc.all(may_go).as_py():
            return pa.repeat(pa.scalar("", pa.string()), len(addresses))
        is_root = pc.match_substring_regex(addresses, ROOT_CANDIDATE_PATTERN)
        return pc.if_else(may_go, "", pc.if_else(is_root, _AT_ROOT, _NOT_LAKEFS))

    def written(self, rows: pa.Table, is_expired: Mask) -> pa.Table:
        return pa.Table.from_arrays(
            [
                rows.column("address"),
                rows.column("size_bytes"),
                # Only a listing knows when the object was written; an entry's own time is its author's word.
                pc.if_else(
                    pc.equal(rows.column("source"), int(Source.COMMITTED)),
                    pa.scalar(None, pa.timestamp("us", tz="UTC")),
                    rows.column("last_modified"),
                ),
                pa.array(np.where(is_expired, "expired", "unreferenced"), pa.string()),
            ],
            schema=MARK_SCHEMA,
        )


@dataclass(frozen=True, slots=True)
class RepositoryJudged(Judged):
    """The verdicts on a repository, and what its ranges and lists told besides."""

    @classmethod
    def of(cls, judged: Judged) -> RepositoryJudged:
        return cls(**{name: getattr(judged, name) for name in Judged.__slots__})

    @property
    def packs(self) -> dict[RangeId, tuple[str, int]]:
        """Ranges read afresh: where their hashes are now, and how many."""
        return {
            RangeId(row["item"].removeprefix("range:")): (row["pack"], row["promised"])
            for row in self.reference_counts
            if row["pack"]
        }

    @property
    def staged_rows(self) -> int:
        """Entries of the server's list of uncommitted objects."""
        rows = self.reference_counts
        return sum(row["entries"] for row in rows if row["item"].startswith("staged:"))

    @property
    def root_names(self) -> bool:
        """Whether commits hold addresses that a server gave at the root of the namespace."""
        return any(r["root_names"] for r in chain(self.reference_counts, self.candidate_counts))

    @property
    def foreign_at_root(self) -> tuple[str, ...]:
        """A few names at the root that are protected because no commit holds such."""
        found = self.protections.get(_AT_ROOT)
        return found.examples if found is not None else ()


def address_judge(target: Target, folder: str, cutoff: datetime) -> Judge:
    """The judge of a repository's mark; a sweep changes what it must."""
    return Judge(AddressRows(), target, folder, cutoff, most_suspects=MOST_SUSPECTS)


def judge_candidates(
    context: RunContext,
    references: Sequence[Reference],
    candidates: Sequence[Candidate],
    judge: Judge,
    canaries: Canaries,
    staged: UncommittedList,
    *,
    expected_references: int,
    expected_candidates: int,
    cache_folder: str,
) -> RepositoryJudged:
    """Run the anti-join. `staged` says how many rows its list must have; the expected sizes only choose partitions.

    Names at the root are protected at first. Where commits turn out to hold such addresses, all is judged once more.
    """
    right = CandidateSide(
        candidates,
        lambda partitions: partial(read_candidates, context.target, partitions),
        expected_candidates,
        context.parallelism.partitions,
    )

    def judge_once(references: Sequence[Reference], judge: Judge) -> RepositoryJudged:
        left = reference_side(context, references, expected_references, cache_folder)
        judged = judge_all(
            context.engine,
            left,
            right,
            judge,
            canaries,
            context.parallelism.partitions,
            lambda judged: staged.assert_rows_read(RepositoryJudged.of(judged).staged_rows),
        )
        return RepositoryJudged.of(judged)

    references = [*references, AddressList("canaries", tuple(canaries.names), CANARY)]
    judged = judge_once(references, judge)
    if judged.foreign_at_root and judged.root_names:
        packs = {range_id: pack for range_id, (pack, _) in judged.packs.items()}
        judge = replace(judge, rows=AddressRows(root_names=True))
        judged = judge_once(_with_packs(references, packs), judge)
    return judged


def reference_side(
    context: RunContext, references: Sequence[Reference], entries: int, cache_folder: str
) -> ReferenceSide:
    """References as work: all ranges of one pack together, so that it is read once."""
    return ReferenceSide(
        references,
        lambda partitions: partial(read_references, context.target, partitions, cache_folder),
        context.parallelism.range_tasks,
        [_entries(item) for item in references],
        [item.pack if isinstance(item, RangeReference) else "" for item in references],
        _COST_OF_A_FILE,
        entries=entries,
    )


def _with_packs(references: Sequence[Reference], packs: Mapping[RangeId, str]) -> list[Reference]:
    """References of which ranges that were just read come out of the cache."""
    return [
        replace(item, pack=packs.get(item.range_id, item.pack))
        if isinstance(item, RangeReference)
        else item
        for item in references
    ]


def _entries(item: Reference) -> int:
    match item:
        case RangeReference():
            return item.count
        case AddressList():
            return len(item.addresses)
    return _ENTRIES_OF_A_LIST
