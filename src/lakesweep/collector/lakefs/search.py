"""The search for garbage in a repository: which candidates, against which references, in a clean or an optimised run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from lakesweep.collector.inventory.values import Inventory
from lakesweep.collector.judge.candidates import listed_parts
from lakesweep.collector.judge.meeting import SECONDS_PER_KEPT_REFERENCE, Judged
from lakesweep.collector.judge.references import RESTORED, event_order
from lakesweep.collector.judge.suspects import Suspects
from lakesweep.collector.lakefs import dating
from lakesweep.collector.lakefs.between_runs.saved import (
    NotUsable,
    SavedRun,
    event_files,
    load_expired_ranges,
    load_saved_run,
    save_expired_ranges,
)
from lakesweep.collector.lakefs.candidates import Candidate, ExpiredRange, SavedFile
from lakesweep.collector.lakefs.checks.canaries import judged_canaries, take_canaries
from lakesweep.collector.lakefs.checks.reuploads import (
    SearchedRanges,
    find_reuploads,
    split_garbage,
)
from lakesweep.collector.lakefs.inventory import (
    EXPIRED,
    REWRITTEN,
    UNREFERENCED,
    VANISHED,
    LookedUp,
    inventory_facts,
    list_inventory,
    look_up_garbage,
    refuse_doubles,
)
from lakesweep.collector.lakefs.judging import address_judge, foreign_at_root, judge_candidates
from lakesweep.collector.lakefs.listing import list_namespace
from lakesweep.collector.lakefs.live import SECONDS_PER_LIVE_NAME, LiveRead, Roots, read_live
from lakesweep.collector.lakefs.marks import refuse_used_mark
from lakesweep.collector.lakefs.paths import RunFolder
from lakesweep.collector.lakefs.range_counts import foreseen_names
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.lakefs.request import Flow, MarkRequest, What
from lakesweep.collector.lakefs.slices import Slices, find_slices, last_read_slice
from lakesweep.collector.listing import Listing, is_cut
from lakesweep.collector.mark import Found, Settled
from lakesweep.collector.outcomes import Outcomes
from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.resources import Resources
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.domain.addresses import ProtectedReason
from lakesweep.domain.commits import RangeId
from lakesweep.domain.cutoff import Cutoff
from lakesweep.domain.verdicts import Tally, Verdict
from lakesweep.progress import human_count

logger = logging.getLogger(__name__)

# lakeFS starts a new slice every hour. A server told to keep slices open for longer is read again by the clean runs.
SLICE_MAX_AGE = timedelta(hours=1)
_LINK_MARGIN = timedelta(minutes=10)
_NAMED_AT_MOST = 10


@dataclass(frozen=True, slots=True)
class RepositoryFound(Found):
    """The result of a search in a repository, with its listing and whatever else the record says of it."""

    listing: Listing | None = None
    slices: Slices | None = None
    young: tuple[Part, ...] = ()
    dated: Outcomes = field(default_factory=Outcomes)  # candidates that came without an age
    suspects: Suspects = field(default_factory=Suspects)
    inventory: Mapping[str, Any] = field(default_factory=dict)  # what the record says of it

    @property
    def protected_names(self) -> dict[str, list[str]]:
        """A few names for each reason to protect."""
        found = self.listing.notices if self.listing else {}
        names = {reason: list(keys[:_NAMED_AT_MOST]) for reason, keys in found.items()}
        if foreign_at_root(self.judged):
            reason = ProtectedReason.FOREIGN_FILE_AT_ROOT.value
            names[reason] = [*names.get(reason, []), *foreign_at_root(self.judged)]
        return names


@dataclass
class RepositorySearch:
    """What a repository answers to a mark: implements `MarkedCatalog`. `now` is the time that rules are applied at."""

    repository: LakeFSRepository
    resources: Resources
    request: MarkRequest
    cutoff: Cutoff
    now: datetime
    inventory: Inventory | None = None  # takes the place of a listing
    # Known from the search on.
    live: LiveRead = field(init=False)
    found: RepositoryFound = field(init=False)
    mark_id: MarkId = field(init=False)
    run_id: RunId = field(init=False, default=RunId(""))
    flow: Flow = field(init=False, default=Flow.CLEAN)
    notes: tuple[str, ...] = field(init=False, default=())
    _previous: SavedRun | None = field(init=False, default=None)

    @property
    def folder(self) -> RunFolder:
        """Where the run keeps its files."""
        return RunFolder(self.run_id)

    @property
    def name(self) -> str:
        return self.repository.name

    @property
    def _seconds_per_name(self) -> float:
        """What each name that is live costs at least: an optimized run lists few of them, and knows the hashes of most."""
        is_optimized = self.flow is Flow.OPTIMIZED
        return SECONDS_PER_KEPT_REFERENCE if is_optimized else SECONDS_PER_LIVE_NAME

    def least_seconds(self) -> float | None:
        """What the search costs at least by the size of ranges; None where nobody knows what may come.

        What an inventory and a local folder hold is known when it has been read.
        """
        store, is_listed = self.resources.store, self.request.what is not What.COMMITTED
        if self.inventory is not None or (is_listed and not is_cut(store)):
            return None
        if not self.resources.engine.seconds_here:
            return 0.0
        return foreseen_names(store) * self._seconds_per_name

    def search(self) -> RepositoryFound:
        """Read what is live (pending, staged, copies, commits, ranges, in this order), then list, then judge by both."""
        repository, resources, what = self.repository, self.resources, self.request.what
        canaries = judged_canaries(repository, take_canaries(repository, resources.clock()))
        roots = Roots(self.request.keep_refs, self.request.keep_tags)
        seconds = self._seconds_per_name
        self.live = live = read_live(
            repository, resources, roots, self.now, seconds_per_name=seconds
        )
        self.run_id = RunId(live.staged.run_id)
        self.mark_id = MarkId(self.request.mark_id or self.run_id)
        refuse_used_mark(resources.store, self.name, self.mark_id)
        listed, slices = self._list()
        candidates: list[Candidate] = [*listed_parts(listed.parts)] if listed else []
        events = event_files(resources.store)
        if self._needs_expired_candidates():
            candidates += self._expired_candidates()
        if self._previous is not None:
            candidates += [SavedFile(key) for key in self._previous.files]
            candidates += [SavedFile(e.key) for e in events if e.kind == RESTORED]
        references = live.references(
            expired_are_live=what is What.UNCOMMITTED,
            with_expired=what is What.ALL,
            # A full listing tells the sizes of what is live; else commits do.
            is_measured=what is What.COMMITTED or self.flow is Flow.OPTIMIZED,
        )
        since = event_order(self.cutoff.at)
        references += [
            e
            for e in events
            if self._needs_expired_candidates() or (e.kind == RESTORED and e.order >= since)
        ]
        with resources.phases.phase("judge") as step:
            judge = address_judge(resources.target, self.folder.verdicts, self.cutoff.at)
            judged = judge_candidates(
                resources,
                live,
                references,
                candidates,
                listed.listed.objects if listed else 0,
                replace(judge, keep_young_rows=True),
                canaries,
                keep_sizes=not repository.profile.is_embedded,
            )
            step.handled(sum(judged.tallies.values(), Tally()))
            step.said = ", ".join(
                f"{t.objects} {v}" for v, t in judged.tallies.items() if t.objects
            )
        looked_up = LookedUp()
        if self.inventory is not None:
            judged, looked_up = self._look_up(self.inventory, judged)
        dated = self._ask_ages(judged.undated)
        # Without a full listing there is nothing that the verdicts must account for.
        is_full = listed is not None and self.flow is not Flow.OPTIMIZED
        self.found = RepositoryFound(
            judged=judged,
            garbage=[*judged.garbage, *dated.old],
            listed=listed.listed if listed is not None and is_full else None,
            never_candidates=listed.protected if listed is not None else Tally(),
            listing=listed,
            slices=slices,
            young=(*judged.young, *dated.parts[dating.YOUNG]),
            dated=dated,
            suspects=judged.suspects | dated.suspects,
            rewritten=looked_up.tally(REWRITTEN),
            vanished=looked_up.tally(VANISHED),
            inventory=inventory_facts(self.inventory, listed, looked_up)
            if self.inventory is not None and listed is not None
            else {},
        )
        return self.found

    def settle(self, found: Found) -> Settled:
        """Take out of the garbage the staged re-uploads that a real server does not list, and what could not be looked up."""
        suspects, searched = self.found.suspects, SearchedRanges()
        unreferenced = found.judged.tallies[Verdict.UNREFERENCED] + self.found.dated.tally(
            dating.OLD
        )
        reuploads = find_reuploads(
            self.repository,
            self.resources,
            self.live,
            suspects,
            found.garbage,
            searched,
            unreferenced.objects,
        )
        return split_garbage(self.resources, reuploads, found.garbage, self.folder.verdicts)

    def saved(self, slices: Slices, kept: Sequence[Part]) -> SavedRun:
        """What the next run may build on once this one is swept: what was kept, and how far it has read."""
        previous = self._previous
        # An address issued in a slice's last minute can be linked for a token's life, whatever age was asked for.
        grace_period = self.repository.client.grace_period()
        margin = max(self.cutoff.min_age, grace_period + _LINK_MARGIN)
        now = self.cutoff.reference_time
        expired_ranges = ""
        # A run over uncommitted data alone has judged nothing that an expired commit holds.
        if self.request.what is What.ALL:
            expired_ranges = self.folder.expired_ranges
            save_expired_ranges(self.resources.store, expired_ranges, self.live.expired_ranges)
        return SavedRun(
            run_id=self.run_id,
            repository=self.name,
            namespace=self.resources.store.root.uri,
            last_slice=last_read_slice(slices.slices, now, SLICE_MAX_AGE, margin),
            files=(*self.live.staged.files, *(part.key for part in kept)),
            runs_since_clean=previous.runs_since_clean + 1 if previous is not None else 0,
            expired_ranges=expired_ranges,
        )

    def decide_flow(self) -> None:
        """Whether everything is listed, or only what may have changed since the last run that was swept; before the search."""
        if self.request.what is What.COMMITTED or self.request.flow is Flow.CLEAN:
            return
        if self.inventory is not None:
            return  # it has everything at hand, so nothing is saved by leaving slices out
        saved = load_saved_run(self.resources.store, self.name)
        if isinstance(saved, NotUsable):
            self.notes = (f"everything was listed (a clean run), because {saved.why}",)
            logger.info("repo#%s %s", self.name, *self.notes)
            return
        self.flow, self._previous = Flow.OPTIMIZED, saved
        self.notes = (
            f"only what may have changed was listed (an optimized run); the rest is known from run {saved.run_id}",
        )

    def _needs_expired_candidates(self) -> bool:
        """Without a full listing, the expired come from the ranges of expired commits."""
        what = self.request.what
        return what is What.COMMITTED or (what is What.ALL and self.flow is Flow.OPTIMIZED)

    def _expired_candidates(self) -> list[ExpiredRange]:
        """Expired ranges, but for those that the run before, which was swept to its end, has judged all of.

        What was live then and is garbage now was held by a range that has expired since, or it is in the lists that the
        run left (staged, young, failed, kept).
        """
        judged: frozenset[RangeId] = frozenset()
        if self._previous is not None:
            judged = load_expired_ranges(self.resources.store, self._previous)
        ranges = self.live.expired_ranges
        return [ExpiredRange(r, n) for r, n in ranges.items() if r not in judged]

    def _list(self) -> tuple[Listing | None, Slices | None]:
        if self.request.what is What.COMMITTED:
            return None, None
        with self.resources.phases.phase("list") as step:
            # Also with an inventory: it may be older than another repository below data/, which is refused here.
            slices = find_slices(self.resources.store)
            if self.inventory is not None:
                listed = list_inventory(self.resources, self.inventory, self.folder.listing)
                step.handled(listed.listed)
                step.said = f"{listed.listed} by the inventory {self.inventory.uri}"
                # Nothing is left to an optimized run: slices may hold what the inventory does not know.
                return listed, None
            since = self._previous.last_slice if self._previous is not None else ""
            prefixes = slices.prefixes(since=since)
            listed = list_namespace(self.resources, prefixes, self.folder.listing)
            step.handled(listed.listed)
            folders = sum(piece.recursive for piece in prefixes)
            step.said = f"{listed.listed} in {human_count(folders, 'folders')}"
        return listed, slices

    def _ask_ages(self, undated: Sequence[Part]) -> dating.Dated:
        """The age of what is not live and came without one, by the store itself."""
        if not undated:
            return dating.Dated()
        with self.resources.phases.phase("ages") as step:
            dated = dating.ask_ages(self.resources, undated, self.cutoff.at, self.folder.verdicts)
            step.handled(tally_of(undated))
            step.said = (
                f"{tally_of(dated.old).objects} old, {dated.tally(dating.YOUNG).objects} young, "
                f"{dated.tally(dating.ABSENT).objects} gone"
            )
        return dated

    def _look_up(self, inventory: Inventory, judged: Judged) -> tuple[Judged, LookedUp]:
        """The garbage that the store still has as the inventory describes it, and what became of the rest."""
        refuse_doubles(inventory, judged)
        with self.resources.phases.phase("look up") as step:
            found = look_up_garbage(self.resources, judged.garbage, self.folder.verdicts)
            same = found.tally(EXPIRED, UNREFERENCED)
            step.handled(tally_of(judged.garbage))
            step.said = (
                f"{same.objects} as the inventory says, {found.tally(REWRITTEN).objects} rewritten, "
                f"{found.tally(VANISHED).objects} vanished"
            )
        tallies = judged.tallies | {
            Verdict.EXPIRED: found.tally(EXPIRED),
            Verdict.UNREFERENCED: found.tally(UNREFERENCED),
        }
        judged = replace(
            judged, tallies=tallies, garbage=found.garbage, oldest_garbage=found.oldest
        )
        return judged, found
