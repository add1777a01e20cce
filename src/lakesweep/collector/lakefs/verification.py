"""Re-verification: before anything is deleted, what is live *now* is read again and taken out of the plan."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from lakesweep.catalogs.lakefs.graph import Refs
from lakesweep.catalogs.lakefs.ranges import ranges_of_commits
from lakesweep.collector.judge.candidates import CandidatePart, planned_parts
from lakesweep.collector.judge.references import CANARY
from lakesweep.collector.judge.suspects import Suspects
from lakesweep.collector.lakefs import dating
from lakesweep.collector.lakefs.canaries import (
    refuse_dead_canaries,
    refuse_unread_heads,
    take_canaries,
)
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.dating import DATED_SCHEMA, date_parts
from lakesweep.collector.lakefs.judging import AddressRows, address_judge, judge_candidates
from lakesweep.collector.lakefs.live import LiveRead, Roots, read_live
from lakesweep.collector.lakefs.ownership import refuse_shared_namespace
from lakesweep.collector.lakefs.paths import RANGE_CACHE, RunFolder
from lakesweep.collector.lakefs.references import AddressList, Reference
from lakesweep.collector.lakefs.request import What
from lakesweep.collector.lakefs.reuploads import (
    SearchedRanges,
    find_reuploads,
    split_garbage,
)
from lakesweep.collector.lakefs.saved import event_files, load_range_index, save_range_index
from lakesweep.collector.parts import Part, parts_told, tally_of
from lakesweep.collector.plan import Plan
from lakesweep.domain.commits import BranchId, MetaRangeId
from lakesweep.domain.verdicts import Source, Tally, Verdict
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.metaranges import RangeInfo
from lakesweep.formats.tables import read_mark

_MOST_NAMES = 1000


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows of a plan that are not to be deleted any more. A round judges none that an earlier one kept, so they add up."""

    revived: Tally = field(default_factory=Tally)
    names: tuple[str, ...] = ()  # of the revived, so many as a record has room for
    revived_parts: tuple[Part, ...] = ()
    undecided_parts: tuple[Part, ...] = ()  # may be staged re-uploads
    reasons: tuple[str, ...] = ()  # why they are undecided
    refused: Tally = field(
        default_factory=Tally
    )  # of the wrong shape, or too young: a plan that was edited by hand

    def __add__(self, other: KeptRows) -> KeptRows:
        return KeptRows(
            revived=self.revived + other.revived,
            names=(*self.names, *other.names)[:_MOST_NAMES],
            revived_parts=(*self.revived_parts, *other.revived_parts),
            undecided_parts=(*self.undecided_parts, *other.undecided_parts),
            reasons=tuple(dict.fromkeys((*self.reasons, *other.reasons))),
            refused=self.refused + other.refused,
        )

    @property
    def parts(self) -> tuple[Part, ...]:
        """What came back to life, and what nobody could decide: the next run looks at it again."""
        return (*self.revived_parts, *self.undecided_parts)


@dataclass(frozen=True, slots=True)
class Authorised:
    """What may be deleted, by a re-read that began at `read_at` on the store's clock, and what became of the other rows."""

    read_at: datetime
    live: LiveRead
    parts: list[Part]
    done: Tally  # deleted by an earlier round or an interrupted sweep
    kept: KeptRows
    root_names: bool  # whether the repository's commits hold addresses at the root
    searched: SearchedRanges  # for staged re-uploads
    absent: list[
        Part
    ]  # not in the store any more, and no sweep of this plan is known to have deleted them

    @property
    def tally(self) -> Tally:
        """Objects and bytes that may go."""
        return Tally(sum(p.rows for p in self.parts), sum(p.bytes for p in self.parts))


def verify_plan(
    context: RunContext,
    plan: Plan,
    marks: Sequence[str],
    *,
    trust_dates: bool,
    read_at: datetime,
    before: Authorised | None = None,
) -> Authorised:
    """Judge the plan's rows again, in rule 4's order, with the roots that its mark was given.

    `read_at` is what the store's clock says now, before anything is read. The first round judges the mark's files by all
    that is live. A later one judges what `before`, the round before it, has authorised: no range that was live then
    holds any of it, so only ranges that are new among the live ones can.
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
    references.append(AddressList("canaries", tuple(c.address for c in canaries), CANARY))
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
            expected_references=new.committed_entries + (live.staged.rows_promised or 100_000),
            expected_candidates=before.tally.objects if before else plan.garbage.objects,
            cache_folder=RANGE_CACHE,
        )
        step.items = sum(t.objects for t in judged.tallies.values())
    live.staged.assert_rows_read(judged.staged_rows)
    # The server's list of a mark stays, for the next run to build on; that of a re-verification has served.
    context.store.delete_many(live.staged.files)
    save_range_index(
        context.store, live.staged.run_id, {r: pack for r, (pack, _) in judged.packs.items()}
    )
    with context.phases.phase("verify") as step:
        old, absent, too_young, suspects = _date(context, plan, judged.undated, folder)
        is_judged = _JudgedBefore(context, live.refs, read_before)
        refuse_dead_canaries(context, canaries, judged.dead_canaries, is_judged)
        searched = before.searched if before is not None else SearchedRanges()
        reuploads = find_reuploads(context, live, judged.suspects | suspects, searched)
        split = split_garbage(context, reuploads, [*judged.garbage, *old], folder)
        step.items = len(canaries)
    revived_parts = (*judged.kept, *split.read)
    return Authorised(
        read_at=read_at,
        live=live,
        parts=split.garbage,
        done=judged.tallies[Verdict.GONE],
        kept=KeptRows(
            revived=judged.tallies[Verdict.LIVE] + tally_of(split.read),
            names=_names(context, revived_parts),
            revived_parts=revived_parts,
            undecided_parts=tuple(split.undecided),
            reasons=split.reasons if split.undecided else (),
            refused=judged.tallies[Verdict.PROTECTED] + judged.tallies[Verdict.YOUNG] + too_young,
        ),
        root_names=judged.root_names or (before is not None and before.root_names),
        searched=searched,
        absent=absent,
    )


class _JudgedBefore:
    """Tells whether the range that holds a path at the head of a branch was judged by an earlier round."""

    def __init__(self, context: RunContext, refs: Refs, before: LiveRead | None) -> None:
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


def _date(
    context: RunContext, plan: Plan, undated: Sequence[Part], folder: str
) -> tuple[list[Part], list[Part], Tally, Suspects]:
    """Rows whose age the mark does not vouch for, by the store's word: the old, the absent, and how many are young.

    Last come the old ones as suspects.
    """
    if not undated:
        return [], [], Tally(), Suspects()
    scatter = Scatter(
        [part.key for part in undated],
        partial(date_parts, context.target, folder, plan.cutoff),
        DATED_SCHEMA,
        tasks_for(len(undated), context.engine.slots, at_most=context.parallelism.partitions),
    )
    old: list[Part] = []
    absent: list[Part] = []
    young = Tally()
    counted = 0
    rows = context.engine.collect(scatter).to_pylist()
    for row in rows:
        counted += row["objects"]
        if row["verdict"] in (dating.OLD, dating.EXPIRED):
            old += parts_told(row["written"])
        elif row["verdict"] == dating.ABSENT:
            absent += parts_told(row["written"])
        elif row["verdict"] == dating.YOUNG:
            young += Tally(row["objects"], row["bytes"])
    if counted != sum(part.rows for part in undated):
        raise UnsafeToSweepError(
            f"Rows of mark {plan.mark_id} were lost while their age was looked up. Nothing more was deleted. Run again.",
            kind="not-conserved",
        )
    suspects = Suspects.union(row["suspects"] for row in rows)
    return old, absent, young, suspects


def _names(context: RunContext, parts: Sequence[Part]) -> tuple[str, ...]:
    names: list[str] = []
    for part in parts:
        if len(names) >= _MOST_NAMES:
            break
        names += read_mark(context.store.read(part.key)).column("address").to_pylist()
    return tuple(names[:_MOST_NAMES])
