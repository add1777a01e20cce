"""The search for garbage in a repository: which candidates, against which references, in a clean or an optimised run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from lakesweep.collector.judge.candidates import listed_parts
from lakesweep.collector.judge.meeting import Canaries
from lakesweep.collector.judge.references import RESTORED, event_order
from lakesweep.collector.judge.suspects import Suspects
from lakesweep.collector.lakefs import dating
from lakesweep.collector.lakefs.ages import ask_ages
from lakesweep.collector.lakefs.candidates import Candidate, ExpiredRange, SavedFile
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.judging import RepositoryJudged, address_judge, judge_candidates
from lakesweep.collector.lakefs.listing import list_namespace
from lakesweep.collector.lakefs.live import LiveRead
from lakesweep.collector.lakefs.paths import RANGE_CACHE, RunFolder
from lakesweep.collector.lakefs.references import Reference
from lakesweep.collector.lakefs.request import Flow, MarkRequest, What
from lakesweep.collector.lakefs.saved import (
    NotUsable,
    SavedRun,
    event_files,
    load_range_index,
    load_saved_run,
)
from lakesweep.collector.lakefs.slices import Slices, find_slices, last_read_slice
from lakesweep.collector.listing import Listing
from lakesweep.collector.mark import Found
from lakesweep.collector.parts import Part
from lakesweep.collector.run_files import RunId
from lakesweep.domain.addresses import ProtectedReason
from lakesweep.domain.cutoff import Cutoff
from lakesweep.domain.verdicts import Tally

logger = logging.getLogger(__name__)

# lakeFS starts a new slice every hour. A server told to keep slices open for longer is read again by the clean runs.
SLICE_MAX_AGE = timedelta(hours=1)
_LINK_MARGIN = timedelta(minutes=10)
_NAMED_AT_MOST = 10


@dataclass(frozen=True, slots=True)
class RepositoryFound(Found):
    """What a search brought in, and how."""

    judged: RepositoryJudged
    flow: Flow = Flow.CLEAN
    listing: Listing | None = None
    slices: Slices | None = None
    young: tuple[Part, ...] = ()
    dated: Mapping[str, Tally] = field(default_factory=dict)  # candidates that came without an age
    suspects: Suspects = field(default_factory=Suspects)
    notes: tuple[str, ...] = ()

    @property
    def protected_names(self) -> dict[str, list[str]]:
        """A few names for each reason to protect."""
        found = self.listing.notices if self.listing else {}
        names = {reason: list(keys[:_NAMED_AT_MOST]) for reason, keys in found.items()}
        if self.judged.foreign_at_root:
            reason = ProtectedReason.FOREIGN_FILE_AT_ROOT.value
            names[reason] = [*names.get(reason, []), *self.judged.foreign_at_root]
        return names


class Search:
    """One search for garbage: which candidates, against which references."""

    def __init__(
        self,
        context: RunContext,
        request: MarkRequest,
        live: LiveRead,
        run_id: RunId,
        cutoff: Cutoff,
    ) -> None:
        self._context = context
        self._what = request.what
        self._live = live
        self._folder = RunFolder(run_id)
        self._cutoff = cutoff
        self._flow, self._previous, self._notes = self._decide_flow(request)

    def run(self, canaries: Canaries) -> RepositoryFound:
        """List, judge, and look up the age of what came without one."""
        context, live, what = self._context, self._live, self._what
        listed, slices = self._list()
        candidates: list[Candidate] = [*listed_parts(listed.parts)] if listed else []
        events = event_files(context.store)
        if self._needs_expired_candidates():
            candidates += [ExpiredRange(r, n) for r, n in live.expired_ranges.items()]
        if self._previous is not None:
            candidates += [SavedFile(key) for key in self._previous.files]
            candidates += [SavedFile(e.key) for e in events if e.kind == RESTORED]
        references = live.references(
            load_range_index(context.store),
            expired_are_live=what is What.UNCOMMITTED,
            with_expired=what is What.ALL,
            # A full listing tells the sizes of what is live; else commits do.
            is_measured=what is What.COMMITTED or self._flow is Flow.OPTIMIZED,
        )
        since = event_order(self._cutoff.at)
        more: list[Reference] = [
            e
            for e in events
            if self._needs_expired_candidates() or (e.kind == RESTORED and e.order >= since)
        ]
        with context.phases.phase("judge") as step:
            judged = judge_candidates(
                context,
                [*references, *more],
                candidates,
                replace(
                    address_judge(context.target, self._folder.verdicts, self._cutoff.at),
                    keep_young_rows=True,
                ),
                canaries,
                live.staged,
                expected_references=live.committed_entries + (live.staged.rows_promised or 100_000),
                expected_candidates=listed.listed.objects if listed else live.committed_entries,
                cache_folder=RANGE_CACHE,
            )
            step.handled(sum(judged.tallies.values(), Tally()))
            step.said = ", ".join(
                f"{t.objects} {v}" for v, t in judged.tallies.items() if t.objects
            )
        dated = ask_ages(context, judged.undated, self._cutoff.at, self._folder.verdicts)
        # Without a full listing there is nothing that the verdicts must account for.
        is_full = listed is not None and self._flow is not Flow.OPTIMIZED
        return RepositoryFound(
            judged=judged,
            garbage=[*judged.garbage, *dated.old],
            listed=listed.listed if listed is not None and is_full else None,
            never_candidates=listed.protected if listed is not None else Tally(),
            flow=self._flow,
            listing=listed,
            slices=slices,
            young=(*judged.young, *dated.parts[dating.YOUNG]),
            dated=dated.tallies,
            suspects=judged.suspects | dated.suspects,
            notes=self._notes,
        )

    def saved(self, found: RepositoryFound, kept: list[Part]) -> SavedRun | None:
        """What the next run may build on once this one is swept; a run over committed data leaves nothing."""
        if found.slices is None:
            return None
        previous = self._previous
        # An address issued in a slice's last minute can be linked for a token's life, whatever age was asked for.
        margin = max(self._cutoff.min_age, self._context.client.grace_period() + _LINK_MARGIN)
        settled = last_read_slice(
            found.slices.slices, self._cutoff.reference_time, SLICE_MAX_AGE, margin
        )
        return SavedRun(
            run_id=self._folder.run_id,
            repository=self._context.name,
            namespace=self._context.store.root.uri,
            last_slice=settled,
            files=(*self._live.staged.files, *(p.key for p in (*found.young, *kept))),
            runs_since_clean=previous.runs_since_clean + 1 if previous is not None else 0,
        )

    def _decide_flow(self, request: MarkRequest) -> tuple[Flow, SavedRun | None, tuple[str, ...]]:
        if request.what is What.COMMITTED or request.flow is Flow.CLEAN:
            return Flow.CLEAN, None, ()
        saved = load_saved_run(self._context.store, self._context.name)
        if isinstance(saved, NotUsable):
            note = f"a clean run, because {saved.why}"
            logger.info("repo#%s %s", self._context.name, note)
            return Flow.CLEAN, None, (note,)
        return Flow.OPTIMIZED, saved, (f"builds on run {saved.run_id}",)

    def _needs_expired_candidates(self) -> bool:
        """Without a full listing, the expired come from the ranges of expired commits."""
        return self._what is What.COMMITTED or (
            self._what is What.ALL and self._flow is Flow.OPTIMIZED
        )

    def _list(self) -> tuple[Listing | None, Slices | None]:
        if self._what is What.COMMITTED:
            return None, None
        with self._context.phases.phase("list") as step:
            slices = find_slices(self._context.store)
            since = self._previous.last_slice if self._previous is not None else ""
            listed = list_namespace(
                self._context.engine,
                self._context.target,
                self._folder.listing,
                self._context.name,
                slices.prefixes(since=since),
                self._context.parallelism.list_tasks,
            )
            step.handled(listed.listed)
            step.said = f"{listed.listed} in {len(slices.slices)} slices"
        return listed, slices
