"""Read what is live, in the one order that is safe (DESIGN section 2, rule 4).

Pending uploads, then staged entries, then tracked copies (the server's list has them in this order), then commits,
then ranges. Linking moves an object from pending to staged, a commit from staged to committed, a rename from one
staged entry to a tracked copy: whatever moves while we read moves towards what is read later.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime

from lakesweep.catalogs.lakefs.graph import RepositoryRefs, read_commit_graph
from lakesweep.catalogs.lakefs.ranges import every_other_range
from lakesweep.catalogs.lakefs.retained import server_retained_commits
from lakesweep.catalogs.lakefs.uncommitted import UncommittedList, prepare_all_pages
from lakesweep.collector.judge.references import EXPIRED, LIVE
from lakesweep.collector.lakefs.between_runs.served import note_served
from lakesweep.collector.lakefs.range_counts import count_ranges
from lakesweep.collector.lakefs.references import RangeReference, Reference, StagedFile
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.resources import Resources
from lakesweep.domain.commits import Commit, CommitId, MetaRangeId, RangeId
from lakesweep.domain.retention import retained_commits
from lakesweep.domain.rules import RetentionRules
from lakesweep.progress import human_count

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Roots:
    """What besides the rules keeps a commit's objects alive."""

    keep_refs: tuple[str, ...] = ()
    keep_tags: bool = False


@dataclass(frozen=True, slots=True)
class LiveRead:
    """What is live, as files still to be read on the engine: the server's staged list, and ranges with their counts."""

    staged: UncommittedList
    refs: RepositoryRefs
    rules: RetentionRules | None
    retained: frozenset[CommitId]
    expired: frozenset[CommitId]
    live_ranges: dict[RangeId, int]
    expired_ranges: dict[RangeId, int]  # in expired commits and in no retained one
    metaranges: frozenset[MetaRangeId]  # those that `live_ranges` was read from
    expired_metaranges: frozenset[MetaRangeId]
    notes: tuple[str, ...] = ()

    @property
    def committed_entries(self) -> int:
        """Entries in all ranges that were read."""
        return sum(self.live_ranges.values()) + sum(self.expired_ranges.values())

    def has_read(self, commit_id: CommitId) -> bool:
        """Whether a commit is known, and all of its ranges are among the live ones."""
        commit = self.refs.graph.get(commit_id)
        return commit is not None and commit.meta_range_id in self.metaranges

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
) -> LiveRead:
    """Read refs and rules now; entries are left to the engine.

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
        step.items = staged.rows_promised or 0
        step.said = (
            f"{human_count(staged.pages, 'pages')}, {human_count(len(staged.files), 'files')}"
        )
    with phases.phase("commits") as step:
        with_head_moves = repository.profile.keeps_head_moves
        refs = read_commit_graph(client, store, name, with_head_moves=with_head_moves)
        note_served(store, refs.dump_files, resources.clock())
        rules = client.rules(name)
        retained, notes = _retained(repository, resources, refs, rules, roots, now)
        step.items = len(refs.graph)
        step.said = f"{len(refs.graph)} commits, {len(retained)} retained"
    if staged.rows_promised is None:
        notes = (*notes, "the server gives no row counts with its uncommitted list")
    with phases.phase("ranges") as step:
        metaranges = frozenset(retained.values()) | (before.metaranges if before else frozenset())
        expired_metaranges = frozenset(c.meta_range_id for c in refs.graph) - metaranges
        live_ranges = count_ranges(
            resources, metaranges - before.metaranges if before else metaranges
        )
        live_ranges |= before.live_ranges if before else {}
        expired_ranges: dict[RangeId, int] = {}
        if refs.complete:
            unread = expired_metaranges - (before.expired_metaranges if before else frozenset())
            expired_ranges = count_ranges(resources, unread) | (
                before.expired_ranges if before else {}
            )
            expired_ranges = {r: n for r, n in expired_ranges.items() if r not in live_ranges}
        else:
            live_ranges |= every_other_range(store, live_ranges)
            said = "no right to dump refs: every range file counts as live, nothing expires"
            notes = (*notes, said)
        step.items = len(live_ranges) + len(expired_ranges)
        step.said = f"{len(live_ranges)} live, {len(expired_ranges)} expired"
    return LiveRead(
        staged=staged,
        refs=refs,
        rules=rules,
        retained=frozenset(c.id for c in refs.graph if c.id in retained),
        expired=frozenset(c.id for c in refs.graph if c.id not in retained),
        live_ranges=live_ranges,
        expired_ranges=expired_ranges,
        metaranges=metaranges,
        expired_metaranges=expired_metaranges,
        notes=notes,
    )


def _retained(
    repository: LakeFSRepository,
    resources: Resources,
    refs: RepositoryRefs,
    rules: RetentionRules | None,
    roots: Roots,
    now: datetime,
) -> tuple[dict[CommitId, MetaRangeId], tuple[str, ...]]:
    """Retained commits with their metaranges: ours by the rule, united with the server's own list."""
    kept = kept_roots(repository, refs, roots)
    ours = retained_commits(
        refs.graph, refs.heads, rules, now, refs.head_moves, keep=[c.id for c in kept]
    )
    retained = {commit.id: commit.meta_range_id for commit in refs.graph if commit.id in ours}
    retained |= {commit.id: commit.meta_range_id for commit in kept}
    if rules is None:
        return retained, ("the repository has no retention rules: nothing expires",)
    store = resources.store
    server = server_retained_commits(
        repository.client, store, repository.name, repository.addresses
    )
    if server is None:
        # The rules went away while we read: then nothing expires.
        every = {commit.id: commit.meta_range_id for commit in refs.graph}
        return every, ("the retention rules were removed during the run: nothing expires",)
    note_served(store, [server.key], resources.clock())
    more = {c: m for c, m in server.meta_ranges.items() if c not in retained}
    if not more:
        return retained, ()
    first = sorted(more)[0]
    note = f"{len(more)} commits are kept because the server retains them, though the rule does not ({first}, …)"
    return retained | more, (note,)


def kept_roots(repository: LakeFSRepository, refs: RepositoryRefs, roots: Roots) -> list[Commit]:
    """The commits that a user wants to be kept: those that tags point at, and those that were named."""
    tagged = [refs.graph[tag.commit_id] for tag in refs.tags] if roots.keep_tags else []
    return [*tagged, *repository.named_commits(roots.keep_refs)]
