"""Re-verification: before anything is deleted, what is live *now* is read again and taken out of the plan."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lakesweep.catalogs.lakefs.graph import RepositoryRefs
from lakesweep.catalogs.lakefs.ranges import ranges_of_commits
from lakesweep.collector.catalog import Authorised
from lakesweep.collector.judge.candidates import CandidatePart, planned_parts
from lakesweep.collector.lakefs import dating
from lakesweep.collector.lakefs.ages import ask_ages
from lakesweep.collector.lakefs.canaries import (
    judged_canaries,
    refuse_unread_heads,
    take_canaries,
)
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.judging import address_judge, judge_candidates
from lakesweep.collector.lakefs.live import LiveRead, Roots, read_live
from lakesweep.collector.lakefs.ownership import refuse_shared_namespace
from lakesweep.collector.lakefs.paths import RANGE_CACHE, RunFolder
from lakesweep.collector.lakefs.references import Reference
from lakesweep.collector.lakefs.request import What
from lakesweep.collector.lakefs.reuploads import (
    SearchedRanges,
    find_reuploads,
    split_garbage,
)
from lakesweep.collector.lakefs.rows import AddressRows
from lakesweep.collector.lakefs.saved import event_files, load_range_index, save_range_index
from lakesweep.collector.parts import tally_of
from lakesweep.collector.plan import Plan
from lakesweep.collector.sweep_progress import KeptRows
from lakesweep.domain.commits import BranchId, MetaRangeId
from lakesweep.domain.verdicts import Source, Tally, Verdict
from lakesweep.formats.metaranges import RangeInfo


@dataclass(frozen=True, slots=True)
class Reverified(Authorised):
    """What may be deleted by a look at the repository, and what the next look builds on."""

    live: LiveRead = field(kw_only=True)
    root_names: bool = field(kw_only=True)  # whether the commits hold addresses at the root
    searched: SearchedRanges = field(kw_only=True)  # for staged re-uploads


def verify_plan(
    context: RunContext,
    plan: Plan,
    marks: Sequence[str],
    *,
    trust_dates: bool,
    before: Reverified | None = None,
) -> Reverified:
    """Judge the plan's rows again, in rule 4's order, with the roots that its mark was given.

    The first round judges the mark's files by all that is live. A later one judges what `before`, the round before it,
    has authorised: no range that was live then holds any of it, so only ranges that are new among the live ones can.
    """
    context.engine.begin()
    refuse_shared_namespace(context)
    with context.phases.phase("canaries") as step:
        heads = context.client.branches(context.name)
        read_before = before.live if before is not None else None
        canaries = take_canaries(context, read_before)
        step.items = len(canaries)
    live = read_live(context, Roots(plan.keep_refs, plan.keep_tags), context.clock(), read_before)
    refuse_unread_heads(context, heads, live)
    new = live.since(read_before) if read_before is not None else live
    folder = RunFolder(plan.run_id).verdicts
    references: list[Reference] = new.references(
        load_range_index(context.store),
        expired_are_live=plan.what == What.UNCOMMITTED,
        with_expired=True,
    )
    is_judged = _JudgedBefore(context, live.refs, read_before)
    references += event_files(context.store, plan.run_id)
    with context.phases.phase("judge") as step:
        judged = judge_candidates(
            context,
            references,
            planned_parts(before.parts)
            if before is not None
            else [CandidatePart(key, Source.PLANNED) for key in marks],
            replace(
                address_judge(context.target, folder, plan.cutoff),
                trust_dates=trust_dates,
                trust_reasons=before is not None,
                keep_live_rows=True,
                rows=AddressRows(root_names=before is not None and before.root_names),
            ),
            judged_canaries(context, canaries, is_judged),
            live.staged,
            expected_references=new.committed_entries + (live.staged.rows_promised or 100_000),
            expected_candidates=before.tally.objects if before else plan.garbage.objects,
            cache_folder=RANGE_CACHE,
        )
        step.handled(sum(judged.tallies.values(), Tally()))
    # The server's list of a mark stays, for the next run to build on; that of a re-verification has served.
    context.store.delete_many(live.staged.files)
    save_range_index(
        context.store, live.staged.run_id, {r: pack for r, (pack, _) in judged.packs.items()}
    )
    with context.phases.phase("verify") as step:
        dated = ask_ages(context, judged.undated, plan.cutoff, folder)
        searched = before.searched if before is not None else SearchedRanges()
        reuploads = find_reuploads(context, live, judged.suspects | dated.suspects, searched)
        split = split_garbage(context, reuploads, [*judged.garbage, *dated.old], folder)
        step.items = len(canaries)
    return Reverified(
        live=live,
        parts=split.garbage,
        done=judged.tallies[Verdict.GONE],
        kept=KeptRows(
            revived=judged.tallies[Verdict.LIVE] + tally_of(split.read),
            revived_parts=(*judged.kept, *split.read),
            undecided_parts=tuple(split.undecided),
            reasons=split.reasons if split.undecided else (),
            refused=judged.tallies[Verdict.PROTECTED]
            + judged.tallies[Verdict.YOUNG]
            + dated.tallies[dating.YOUNG],
        ),
        root_names=judged.root_names or (before is not None and before.root_names),
        searched=searched,
        absent=dated.parts[dating.ABSENT],
    )


class _JudgedBefore:
    """Tells whether the range that holds a path at the head of a branch was judged by an earlier round."""

    def __init__(self, context: RunContext, refs: RepositoryRefs, before: LiveRead | None) -> None:
        self._context = context
        self._metaranges = {
            head.id: refs.graph[head.commit_id].meta_range_id for head in refs.heads
        }
        self._before = before
        self._read: dict[MetaRangeId, list[RangeInfo]] = {}

    def __call__(self, branch: BranchId, path: str) -> bool:
        metarange = self._metaranges.get(branch)
        if self._before is None or not metarange:
            return False
        if metarange not in self._read:
            self._read |= ranges_of_commits(self._context.store, [metarange])
        ranges, key = self._read[metarange], path.encode()
        at = bisect_left(ranges, key, key=lambda info: info.max_key)
        return (
            at < len(ranges)
            and ranges[at].min_key <= key
            and ranges[at].id in self._before.live_ranges
        )
