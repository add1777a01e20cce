"""Judge the candidates of a repository: their rows, their names at the root, and the ranges that were read afresh."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain

from lakesweep.collector.judge.candidates import CandidatePart
from lakesweep.collector.judge.columns import Judge
from lakesweep.collector.judge.meeting import (
    SECONDS_PER_CANDIDATE,
    Canaries,
    CandidateSide,
    Judged,
    ReferenceSide,
    judge_all,
)
from lakesweep.collector.judge.references import CANARY
from lakesweep.collector.judge.suspects import MOST_SUSPECTS
from lakesweep.collector.lakefs.between_runs.saved import load_range_index, save_range_index
from lakesweep.collector.lakefs.candidates import (
    Candidate,
    ExpiredRange,
    SavedFile,
    read_candidates,
)
from lakesweep.collector.lakefs.live import LiveRead
from lakesweep.collector.lakefs.references import (
    AddressList,
    EventFile,
    RangeReference,
    Reference,
    StagedFile,
    read_references,
)
from lakesweep.collector.lakefs.rows import AT_ROOT, AddressRows
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.domain.commits import RangeId
from lakesweep.engine.tasks import SECONDS_PER_FILE

# Opening a file takes as long as reading so many entries; a list whose length nobody tells has about so many.
_COST_OF_A_FILE = 1_000
_ENTRIES_OF_A_LIST = 100_000
# A file of addresses takes about so many bytes for each, or more. So many files at most are asked for their size.
_BYTES_PER_ROW = 10
_MOST_FILES_ASKED = 64


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
    *,
    keep_sizes: bool = False,
) -> Judged:
    """Run the anti-join. `live` says how many rows its staged list must have; the expected size only chooses the way.
    With `keep_sizes`, what is read of ranges is kept for a search for staged re-uploads, too.

    Names at the root are protected at first. Where commits turn out to hold such addresses, all is judged once more.
    """
    target, most_tasks, staged = resources.target, resources.most_tasks, live.staged
    entries = live.committed_entries + (staged.rows_promised or _ENTRIES_OF_A_LIST)
    lengths = _lengths(resources, live, references, candidates)
    right = CandidateSide(
        candidates,
        lambda partitions: partial(read_candidates, target, partitions),
        expected_candidates + sum(_entries(item, lengths or {}) for item in candidates),
        most_tasks,
        _candidate_seconds(candidates, expected_candidates, lengths),
    )

    def check_staged(judged: Judged) -> None:
        rows = judged.reference_counts
        staged.assert_rows_read(
            sum(row["entries"] for row in rows if row["item"].startswith("staged:"))
        )

    read = partial(read_references, keep_sizes=keep_sizes)

    def judge_once(references: Sequence[Reference], judge: Judge) -> Judged:
        left = ReferenceSide(
            references,
            lambda partitions: partial(read, target, partitions),
            resources.most_readers,
            [_entries(item, lengths or {}) for item in references],
            # All ranges of one pack together, so that it is read once.
            [item.pack if isinstance(item, RangeReference) else "" for item in references],
            _COST_OF_A_FILE,
            entries=entries,
            seconds_per_file=None if lengths is None else SECONDS_PER_FILE,
            read_filtered=lambda partitions, key: partial(read, target, partitions, filter_key=key),
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
    """Which pack holds the hashes of each range now, by the range's id."""
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
    """The references, each range among them with the pack that holds its hashes, where one does."""
    return [
        replace(item, pack=packs.get(item.range_id, ""))
        if isinstance(item, RangeReference)
        else item
        for item in references
    ]


def _lengths(
    resources: Resources,
    live: LiveRead,
    references: Sequence[Reference],
    candidates: Sequence[Candidate],
) -> dict[str, int] | None:
    """How many rows each file of addresses has, about or at most; None where it does not matter or can't be told.

    It matters to an engine that does small work in the driver's own process.
    """
    if not resources.engine.seconds_here:
        return None
    staged = live.staged
    keys = [item.key for item in references if isinstance(item, EventFile | StagedFile)]
    keys += [item.key for item in candidates if isinstance(item, SavedFile)]
    lengths: dict[str, int] = {}
    if staged.rows_promised is not None:
        each = math.ceil(staged.rows_promised / max(len(staged.files), 1))
        lengths = dict.fromkeys(staged.files, each)
    unknown = [key for key in keys if key not in lengths]
    if len(unknown) > _MOST_FILES_ASKED:
        return None
    for key, info in resources.store.stat_many(unknown):
        if info is None:
            return None
        lengths[key] = info.size // _BYTES_PER_ROW
    return lengths


def _candidate_seconds(
    candidates: Sequence[Candidate], listed: int, lengths: Mapping[str, int] | None
) -> float | None:
    if lengths is None:
        return None
    rows = listed + sum(_entries(item, lengths) for item in candidates)
    return len(candidates) * SECONDS_PER_FILE + rows * SECONDS_PER_CANDIDATE


def _entries(item: Reference | Candidate, lengths: Mapping[str, int]) -> int:
    """About how many a reference has, and how many a source of candidates has beside those of a listing."""
    match item:
        case RangeReference() | ExpiredRange():
            return item.count
        case AddressList():
            return len(item.addresses)
        case CandidatePart():
            return 0
    return lengths.get(item.key, _ENTRIES_OF_A_LIST)
