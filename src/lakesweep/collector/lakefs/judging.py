"""Judge the candidates of a repository: their rows, their names at the root, and the ranges that were read afresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain

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
from lakesweep.collector.lakefs.between_runs.saved import load_range_index, save_range_index
from lakesweep.collector.lakefs.candidates import Candidate, read_candidates
from lakesweep.collector.lakefs.live import LiveRead
from lakesweep.collector.lakefs.references import (
    AddressList,
    RangeReference,
    Reference,
    read_references,
)
from lakesweep.collector.lakefs.rows import AT_ROOT, AddressRows
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.domain.commits import RangeId

# Opening a file takes as long as reading so many entries; a list whose length nobody tells has about so many.
_COST_OF_A_FILE = 1_000
_ENTRIES_OF_A_LIST = 100_000


def address_judge(target: Target, folder: str, cutoff: datetime) -> Judge:
    """The judge of a repository's mark; a sweep changes what it must."""
    return Judge(AddressRows(), target, folder, cutoff, most_suspects=MOST_SUSPECTS)


def judge_candidates(
    resources: Resources,
    live: LiveRead,
    references: Sequence[Reference],
    candidates: Sequence[Candidate],
    expected_candidates: int,
    judge: Judge,
    canaries: Canaries,
) -> Judged:
    """Run the anti-join. `live` says how many rows its staged list must have; the expected size only chooses partitions.

    Names at the root are protected at first. Where commits turn out to hold such addresses, all is judged once more.
    """
    target, most_tasks, staged = resources.target, resources.most_tasks, live.staged
    entries = live.committed_entries + (staged.rows_promised or _ENTRIES_OF_A_LIST)
    right = CandidateSide(
        candidates,
        lambda partitions: partial(read_candidates, target, partitions),
        expected_candidates,
        most_tasks,
    )

    def check_staged(judged: Judged) -> None:
        rows = judged.reference_counts
        staged.assert_rows_read(
            sum(row["entries"] for row in rows if row["item"].startswith("staged:"))
        )

    def judge_once(references: Sequence[Reference], judge: Judge) -> Judged:
        left = ReferenceSide(
            references,
            lambda partitions: partial(read_references, target, partitions),
            resources.most_readers,
            [_entries(item) for item in references],
            # All ranges of one pack together, so that it is read once.
            [item.pack if isinstance(item, RangeReference) else "" for item in references],
            _COST_OF_A_FILE,
            entries=entries,
        )
        return judge_all(resources.engine, left, right, judge, canaries, most_tasks, check_staged)

    references = [*references, AddressList("canaries", tuple(canaries.names), CANARY)]
    judged = judge_once(_with_packs(references, load_range_index(resources.store)), judge)
    packs = _packs(judged)
    if foreign_at_root(judged) and has_root_names(judged):
        judge = replace(judge, rows=AddressRows(root_names=True))
        judged = judge_once(_with_packs(references, packs), judge)
    # For the next run.
    save_range_index(resources.store, staged.run_id, packs)
    return judged


def _packs(judged: Judged) -> dict[RangeId, str]:
    """Where the hashes of ranges are now."""
    rows = judged.reference_counts
    return {RangeId(r["item"].removeprefix("range:")): r["pack"] for r in rows if r["pack"]}


def has_root_names(judged: Judged) -> bool:
    """Whether commits hold addresses that a server gave at the root of the namespace."""
    return any(r["root_names"] for r in chain(judged.reference_counts, judged.candidate_counts))


def foreign_at_root(judged: Judged) -> tuple[str, ...]:
    """A few names at the root that are protected because no commit holds such."""
    found = judged.protections.get(AT_ROOT)
    return found.examples if found is not None else ()


def _with_packs(references: Sequence[Reference], packs: Mapping[RangeId, str]) -> list[Reference]:
    """References of which ranges with known hashes come out of the cache."""
    return [
        replace(item, pack=packs.get(item.range_id, ""))
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
