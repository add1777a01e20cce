"""Re-verification: before anything is deleted, what is live *now* is read again and taken out of the plan."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lakesweep.catalogs.lakefs.ranges import ranges_of_commits
from lakesweep.collector.catalog import Authorised
from lakesweep.collector.judge.candidates import CandidatePart, planned_parts
from lakesweep.collector.lakefs import dating
from lakesweep.collector.lakefs.between_runs.saved import event_files
from lakesweep.collector.lakefs.checks.canaries import (
    IsJudged,
    judged_canaries,
    refuse_unread_heads,
    take_canaries,
)
from lakesweep.collector.lakefs.checks.ownership import refuse_shared_namespace
from lakesweep.collector.lakefs.checks.reuploads import (
    SearchedRanges,
    find_reuploads,
    split_garbage,
)
from lakesweep.collector.lakefs.judging import address_judge, has_root_names, judge_candidates
from lakesweep.collector.lakefs.live import LiveRead, Roots, read_live
from lakesweep.collector.lakefs.paths import RunFolder
from lakesweep.collector.lakefs.references import Reference
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.lakefs.request import What
from lakesweep.collector.lakefs.rows import AddressRows
from lakesweep.collector.ledger.deleting import SECONDS_PER_DELETE
from lakesweep.collector.parts import tally_of
from lakesweep.collector.plan import Plan
from lakesweep.collector.resources import Resources
from lakesweep.collector.sweep_progress import KeptRows
from lakesweep.domain.commits import BranchId, MetaRangeId
from lakesweep.domain.verdicts import Source, Tally, Verdict
from lakesweep.formats.metaranges import RangeInfo
from lakesweep.progress import human_count
from lakesweep.storage import ObjectStore


@dataclass(frozen=True, slots=True)
class Reverified(Authorised):
    """What may be deleted by a look at the repository, and what the next look builds on."""

    live: LiveRead = field(kw_only=True)
    root_names: bool = field(kw_only=True)  # whether the commits hold addresses at the root
    searched: SearchedRanges = field(kw_only=True)  # for staged re-uploads


def verify_plan(
    repository: LakeFSRepository,
    resources: Resources,
    plan: Plan,
    marks: Sequence[str],
    roots: Roots,
    *,
    trust_dates: bool,
    before: Reverified | None = None,
) -> Reverified:
    """Judge the plan's rows again, in rule 4's order, with these roots: those that its mark was given, or more.

    The first round judges the mark's files by all that is live. A later one judges what `before`, the round before it,
    has authorised: no range that was live then holds any of it, so only ranges that are new among the live ones can.
    """
    store, phases, clock = resources.store, resources.phases, resources.clock
    resources.engine.begin(plan.garbage.objects * SECONDS_PER_DELETE)
    refuse_shared_namespace(repository, resources.target, resources.margins.clock_skew)
    with phases.phase("canaries") as step:
        heads = repository.client.branches(repository.name)
        read_before = before.live if before is not None else None
        canaries = take_canaries(repository, clock(), read_before)
        step.items = len(canaries)
        step.said = (
            f"{human_count(step.items, 'objects')} known to be live, to check the result with"
        )
    live = read_live(repository, resources, roots, clock(), read_before)
    refuse_unread_heads(repository, heads, live)
    new = live.since(read_before) if read_before is not None else live
    folder = RunFolder(plan.run_id).verdicts
    references: list[Reference] = new.references(
        expired_are_live=plan.what == What.UNCOMMITTED, with_expired=True
    )
    is_judged = _judged_before(store, live, read_before)
    references += event_files(store, plan.run_id)
    with phases.phase("judge") as step:
        judged = judge_candidates(
            resources,
            new,
            references,
            planned_parts(before.parts)
            if before is not None
            else [CandidatePart(key, Source.PLANNED) for key in marks],
            before.tally.objects if before is not None else plan.garbage.objects,
            replace(
                address_judge(resources.target, folder, plan.cutoff),
                trust_dates=trust_dates,
                trust_reasons=before is not None,
                keep_live_rows=True,
                rows=AddressRows(root_names=before is not None and before.root_names),
            ),
            judged_canaries(repository, canaries, is_judged),
            keep_sizes=not repository.profile.is_embedded,
        )
        step.handled(sum(judged.tallies.values(), Tally()))
    # The server's list of a mark stays, for the next run to build on; that of a re-verification has served.
    store.delete_many(live.staged.files)
    with phases.phase("verify") as step:
        dated = dating.ask_ages(resources, judged.undated, plan.cutoff, folder)
        searched = before.searched if before is not None else SearchedRanges()
        suspects = judged.suspects | dated.suspects
        garbage = [*judged.garbage, *dated.old]
        reuploads = find_reuploads(repository, resources, live, suspects, garbage, searched)
        split = split_garbage(resources, reuploads, garbage, folder)
        step.items = len(canaries)
        step.said = (
            f"{tally_of(split.garbage).objects} still garbage, {tally_of(split.live).objects} live after all, "
            f"{tally_of(split.undecided).objects} undecided"
        )
    return Reverified(
        live=live,
        parts=split.garbage,
        done=judged.tallies[Verdict.GONE],
        kept=KeptRows(
            revived=judged.tallies[Verdict.LIVE] + tally_of(split.live),
            revived_parts=(*judged.kept, *split.live),
            undecided_parts=tuple(split.undecided),
            reasons=split.reasons if split.undecided else (),
            refused=judged.tallies[Verdict.PROTECTED]
            + judged.tallies[Verdict.YOUNG]
            + dated.tally(dating.YOUNG),
        ),
        root_names=has_root_names(judged) or (before is not None and before.root_names),
        searched=searched,
        absent=dated.parts[dating.ABSENT],
    )


def _judged_before(store: ObjectStore, live: LiveRead, before: LiveRead | None) -> IsJudged:
    """Tells whether the range that holds a path at the head of a branch was judged by an earlier round."""
    refs = live.refs
    metaranges = {head.id: refs.graph.meta_range_id(head.commit_id) for head in refs.heads}
    read: dict[MetaRangeId, list[RangeInfo]] = {}

    def is_judged(branch: BranchId, path: str) -> bool:
        metarange = metaranges.get(branch)
        if before is None or not metarange:
            return False
        if metarange not in read:
            read.update(ranges_of_commits(store, [metarange]))
        ranges, key = read[metarange], path.encode()
        at = bisect_left(ranges, key, key=lambda info: info.max_key)
        return (
            at < len(ranges) and ranges[at].min_key <= key and ranges[at].id in before.live_ranges
        )

    return is_judged
