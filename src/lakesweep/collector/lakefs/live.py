"""Read what is live, in the one order that is safe (DESIGN section 2, rule 4).

Pending uploads, then staged entries, then tracked copies (the server's list has them in this order), then commits,
then ranges. Linking moves an object from pending to staged, a commit from staged to committed, a rename from one
staged entry to a tracked copy: whatever moves while we read moves towards what is read later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from lakesweep.catalogs.lakefs.graph import RepositoryRefs
from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.history_retention import find_retained
from lakesweep.catalogs.lakefs.history_walk import Bools
from lakesweep.catalogs.lakefs.ranges import every_other_range
from lakesweep.catalogs.lakefs.retained import server_retained_commits
from lakesweep.catalogs.lakefs.uncommitted import UncommittedList, prepare_all_pages
from lakesweep.collector.judge.meeting import SECONDS_PER_CANDIDATE, SECONDS_PER_REFERENCE
from lakesweep.collector.judge.references import EXPIRED, LIVE
from lakesweep.collector.lakefs.between_runs.known_heads import refuse_older_refs
from lakesweep.collector.lakefs.between_runs.served import note_served
from lakesweep.collector.lakefs.range_counts import count_ranges
from lakesweep.collector.lakefs.references import RangeReference, Reference, StagedFile
from lakesweep.collector.lakefs.repository import LakeFSRepository, read_refs
from lakesweep.collector.listing import SECONDS_PER_OBJECT
from lakesweep.collector.resources import Resources
from lakesweep.domain.commits import Commit, CommitId, RangeId
from lakesweep.domain.rules import RetentionRules
from lakesweep.formats.commit_columns import Ids, is_among, texts
from lakesweep.formats.commits_csv import ListedCommits
from lakesweep.progress import human_count

logger = logging.getLogger(__name__)

_NO_IDS = texts(())
# What a name that is live costs on one core: as an object that is listed, as a candidate, and as a reference.
SECONDS_PER_LIVE_NAME = SECONDS_PER_OBJECT + SECONDS_PER_CANDIDATE + SECONDS_PER_REFERENCE


@dataclass(frozen=True, slots=True)
class Roots:
    """Commits that a user wants to be kept besides those that the retention rules retain: named refs, and tags."""

    keep_refs: tuple[str, ...] = ()
    keep_tags: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LiveRead:
    """What is live, as files still to be read on the engine: the server's staged list, and ranges with their counts."""

    staged: UncommittedList
    refs: RepositoryRefs[History]
    rules: RetentionRules | None
    is_retained: Bools  # of each commit of the history
    live_ranges: dict[RangeId, int]
    expired_ranges: dict[RangeId, int]  # in expired commits and in no retained one
    metaranges: Ids  # those that `live_ranges` was read from, in order
    expired_metaranges: Ids
    notes: tuple[str, ...] = ()

    @property
    def retained_commits(self) -> int:
        """How many commits of the history are retained."""
        return int(self.is_retained.sum())

    @property
    def expired_commits(self) -> int:
        """How many commits of the history are not retained."""
        return len(self.refs.graph) - self.retained_commits

    @property
    def committed_entries(self) -> int:
        """Entries in all ranges that were read."""
        return sum(self.live_ranges.values()) + sum(self.expired_ranges.values())

    def has_read(self, commit_id: CommitId) -> bool:
        """Whether a commit is known, and all of its ranges are among the live ones."""
        metarange = self.refs.graph.meta_range_id(commit_id)
        return metarange is not None and is_among(self.metaranges, metarange)

    def since(self, before: LiveRead) -> LiveRead:
        """What this read has of all but ranges, and of ranges only those that `before` had not: ranges are named by their content and never change."""
        return replace(
            self,
            live_ranges={r: n for r, n in self.live_ranges.items() if r not in before.live_ranges},
            expired_ranges={
                r: n for r, n in self.expired_ranges.items() if r not in before.expired_ranges
            },
        )

    def references(
        self, *, expired_are_live: bool, with_expired: bool, is_measured: bool = False
    ) -> list[Reference]:
        """Work items for everything live, and for what is expired where that matters.

        `is_measured` asks for the number and the bytes of what is live; what is expired counts as neither.
        """
        items: list[Reference] = [StagedFile(key, is_measured) for key in self.staged.files]
        items += [
            RangeReference(r, n, LIVE, is_measured=is_measured) for r, n in self.live_ranges.items()
        ]
        if with_expired or expired_are_live:
            kind = LIVE if expired_are_live else EXPIRED
            items += [RangeReference(r, n, kind) for r, n in self.expired_ranges.items()]
        return items


def read_live(
    repository: LakeFSRepository,
    resources: Resources,
    roots: Roots,
    now: datetime,
    before: LiveRead | None = None,
    seconds_per_name: float = SECONDS_PER_LIVE_NAME,
) -> LiveRead:
    """Read refs and rules now; entries are left to the engine, which starts as soon as their number tells that it is needed.

    Metaranges are named by their content: those that `before` has read are not read again. What was retained then counts
    as retained still, so nothing expires between two reads.
    """
    client, name, store, phases = (
        repository.client,
        repository.name,
        resources.store,
        resources.phases,
    )
    with phases.phase("uncommitted") as step:
        staged = prepare_all_pages(client, store, name, repository.addresses)
        names = staged.rows_promised or 0
        resources.engine.begin(names * seconds_per_name)
        step.items = names
        step.said = (
            f"{human_count(staged.pages, 'pages')}, {human_count(len(staged.files), 'files')}"
        )
    with phases.phase("commits") as step:
        # Before all commits: one that is made later and named then would not be among them.
        named = repository.named_commits(roots.keep_refs)
        refs = read_refs(repository, store)
        note_served(store, refs.dump_files, resources.clock())
        refuse_older_refs(store, name, refs)
        rules = client.rules(name)
        kept = kept_roots(refs, named, keep_tags=roots.keep_tags)
        retained = _retained(repository, resources, refs, rules, kept, now)
        notes = retained.notes
        step.items = len(refs.graph)
        step.said = f"{len(refs.graph)} commits, {retained.commits} retained"
    if staged.rows_promised is None:
        notes = (*notes, "the server gives no row counts with its uncommitted list")
    with phases.phase("ranges") as step:
        read_before = before.metaranges if before else _NO_IDS
        metaranges = np.union1d(retained.metaranges, read_before)
        expired_metaranges = np.setdiff1d(refs.graph.columns.meta_range_ids, metaranges)
        expired_before = before.expired_metaranges if before else _NO_IDS
        live_ranges, expired_ranges = count_ranges(
            resources,
            np.setdiff1d(metaranges, read_before),
            np.setdiff1d(expired_metaranges, expired_before) if refs.complete else _NO_IDS,
            is_remembered=before is None,  # later rounds of a sweep read only what is new
        )
        live_ranges |= before.live_ranges if before else {}
        if refs.complete:
            expired_ranges |= before.expired_ranges if before else {}
            expired_ranges = {r: n for r, n in expired_ranges.items() if r not in live_ranges}
        else:
            live_ranges |= every_other_range(store, live_ranges)
            said = "no right to dump refs: every range file counts as live, nothing expires"
            notes = (*notes, said)
        names += sum(live_ranges.values()) + sum(expired_ranges.values())
        resources.engine.begin(names * seconds_per_name)
        step.items = len(live_ranges) + len(expired_ranges)
        step.said = f"{len(live_ranges)} live, {len(expired_ranges)} expired"
    return LiveRead(
        staged=staged,
        refs=refs,
        rules=rules,
        is_retained=retained.is_retained,
        live_ranges=live_ranges,
        expired_ranges=expired_ranges,
        metaranges=metaranges,
        expired_metaranges=expired_metaranges,
        notes=notes,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Retained:
    """Which commits of the history are retained, how many are in all, and their metaranges."""

    is_retained: Bools
    commits: int
    metaranges: Ids
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, history: History, is_retained: Bools, *notes: str) -> _Retained:
        metaranges = history.columns.meta_range_ids[is_retained]
        return cls(is_retained, len(metaranges), metaranges, notes)

    def or_listed(self, history: History, listed: ListedCommits) -> _Retained:
        """These retained commits united with those in the server's own list."""
        rows = history.rows_of(listed.ids)
        # A row of -1 is a commit that the history does not have: the last of all, and not retained.
        is_more = ~np.append(self.is_retained, False)[rows]
        more = np.unique(listed.ids[is_more])
        if not len(more):
            return self
        is_retained = self.is_retained.copy()
        is_retained[rows[is_more & (rows >= 0)]] = True
        metaranges = np.concatenate((self.metaranges, listed.meta_range_ids[is_more]))
        note = f"{len(more)} commits are kept because the server retains them, though the rule does not ({more[0].decode()}, …)"
        return _Retained(is_retained, self.commits + len(more), metaranges, (*self.notes, note))


def _retained(
    repository: LakeFSRepository,
    resources: Resources,
    refs: RepositoryRefs[History],
    rules: RetentionRules | None,
    kept: Sequence[CommitId],
    now: datetime,
) -> _Retained:
    """Retained commits with their metaranges: ours by the rule, united with the server's own list."""
    is_retained = find_retained(refs.graph, refs.heads, rules, now, refs.head_moves, kept)
    if rules is None:
        note = "the repository has no retention rules: nothing expires"
        return _Retained.of(refs.graph, is_retained, note)
    store = resources.store
    server = server_retained_commits(
        repository.client, store, repository.name, repository.addresses
    )
    if server is None:
        # The rules went away while we read: then nothing expires.
        note = "the retention rules were removed during the run: nothing expires"
        return _Retained.of(refs.graph, np.ones_like(is_retained), note)
    note_served(store, [server.key], resources.clock())
    return _Retained.of(refs.graph, is_retained).or_listed(refs.graph, server.commits)


def kept_roots(
    refs: RepositoryRefs[History], named: Iterable[Commit], *, keep_tags: bool
) -> list[CommitId]:
    """The commits that a user wants to be kept: those that tags point at, and those that were named."""
    tagged = [tag.commit_id for tag in refs.tags] if keep_tags else []
    return [*tagged, *(commit.id for commit in named)]
