"""Judge the candidates of a repository: their rows, their names at the root, and the ranges that were read afresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain

from lakesweep.catalogs.lakefs.uncommitted import UncommittedList
from lakesweep.collector.judge.columns import Judge
from lakesweep.collector.judge.meeting import (
    Canaries,
    CandidateSide,
    Judged,
    ReferenceSide,
    judge_all,
)
from lakesweep.collector.judge.references import CANARY
from lakesweep.collector.judge.suspects import MOST_SUSPECTS
from lakesweep.collector.lakefs.candidates import Candidate, read_candidates
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.references import (
    AddressList,
    RangeReference,
    Reference,
    read_references,
)
from lakesweep.collector.lakefs.rows import AT_ROOT, AddressRows
from lakesweep.collector.target import Target
from lakesweep.domain.commits import RangeId

# Opening a file takes as long as reading so many entries; a list whose length nobody tells has about so many.
_COST_OF_A_FILE = 1_000
_ENTRIES_OF_A_LIST = 100_000


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
        found = self.protections.get(AT_ROOT)
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
