"""The commits that hold an object: on which lines of history, from when to when, and until when they are retained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakesweep.catalogs.lakefs.graph import RepositoryRefs
from lakesweep.catalogs.lakefs.ranges import ranges_of_commits
from lakesweep.collector.lakefs.explain.range_search import FoundInRanges
from lakesweep.domain.commits import (
    BranchId,
    Commit,
    CommitGraph,
    CommitId,
    MetaRangeId,
    RangeId,
)
from lakesweep.domain.durations import format_time
from lakesweep.domain.explained_why import on_the_day
from lakesweep.domain.explanations import CommitSeen, HeldInCommits, end_order
from lakesweep.domain.retention import RetentionCause, children_first
from lakesweep.domain.retention_end import RetentionEnd, retention_ends
from lakesweep.domain.rules import RetentionRules, days_text
from lakesweep.storage import ObjectStore

__all__ = ["CommitRanges", "CommitsOfObjects", "HeldBy", "read_commit_ranges"]

# Logs tell the second in which a commit was made, and not the part of it.
_SECOND = timedelta(seconds=1)
_LATEST = datetime.max.replace(tzinfo=UTC)

# When the days of a commit began to count. Words that are true of a commit that has expired as well.
_BEGAN = {
    RetentionCause.SUPERSEDED_RECENTLY: "superseded on branch {branch} at {at}",
    RetentionCause.DANGLING_SUPERSEDED_RECENTLY: "superseded at {at}, on no branch",
    RetentionCause.WAS_HEAD: "was the head of branch {branch} until {at}",
    RetentionCause.DANGLING_RECENT: "made at {at}, and on no branch",
}

Paths = Mapping[CommitId, Sequence[str]]


@dataclass(frozen=True, slots=True)
class CommitRanges:
    """The ranges of every metarange, and how many entries each range promises."""

    of_metarange: Mapping[MetaRangeId, Sequence[RangeId]]
    counts: Mapping[RangeId, int]
    bounds: Mapping[RangeId, tuple[bytes, bytes]]


def read_commit_ranges(store: ObjectStore, refs: RepositoryRefs[CommitGraph]) -> CommitRanges:
    """Read the metaranges of all commits, each once.

    Raises:
        UnsafeToSweepError: one is missing or damaged.
    """
    of_metarange: dict[MetaRangeId, list[RangeId]] = {}
    counts: dict[RangeId, int] = {}
    bounds: dict[RangeId, tuple[bytes, bytes]] = {}
    metaranges = sorted({commit.meta_range_id for commit in refs.graph})
    for metarange, infos in ranges_of_commits(store, metaranges):
        of_metarange[metarange] = [info.id for info in infos]
        for info in infos:
            counts[info.id] = info.count
            bounds[info.id] = (info.min_key, info.max_key)
    return CommitRanges(of_metarange, counts, bounds)


@dataclass(frozen=True, slots=True)
class HeldBy:
    """What commits say of one object: their lines, the retention of the one that holds it longest, tags at them."""

    lines: tuple[HeldInCommits, ...]
    longest: RetentionEnd
    tags: tuple[str, ...] = ()

    @property
    def until(self) -> datetime | None:
        """From when on no commit holds the object; None: never."""
        return self.longest.at


@dataclass(frozen=True, slots=True)
class _Line:
    """The commits that hold an object on the line of main parents behind a commit."""

    first: Commit
    last: Commit
    commits: int
    retained: int
    longest: RetentionEnd


class CommitsOfObjects:
    """Tells of any object that was searched for which commits hold it."""

    def __init__(
        self,
        refs: RepositoryRefs[CommitGraph],
        rules: RetentionRules | None,
        keep: Sequence[CommitId],
        now: datetime,
        ranges: CommitRanges,
        found: FoundInRanges,
    ) -> None:
        self._refs, self._rules, self._now, self._found = refs, rules, now, found
        self._parents_first = children_first(refs.graph)[::-1]
        ends = retention_ends(refs.graph, refs.heads, rules, refs.head_moves, keep)
        self._ends = ends if refs.complete else {c: _rounded_up(e) for c, e in ends.items()}
        matched = {range_id for places in found.places.values() for range_id in places}
        self._matched = {
            metarange: [r for r in of_metarange if r in matched]
            for metarange, of_metarange in ranges.of_metarange.items()
        }

    def of(self, address: str) -> HeldBy | None:
        """Which commits hold the address; None when no commit that was read does."""
        paths = self._paths(address)
        if not paths:
            return None
        longest = _longest(self._ends[commit_id] for commit_id in paths)
        tags = sorted(tag.id for tag in self._refs.tags if tag.commit_id in paths)
        return HeldBy(tuple(self._lines(paths)), longest, tuple(tags))

    def _paths(self, address: str) -> Paths:
        places = self._found.places.get(address, {})
        paths: dict[CommitId, list[str]] = {}
        for commit in self._refs.graph:
            for range_id in self._matched.get(commit.meta_range_id, ()):
                if range_id in places:
                    paths.setdefault(commit.id, []).extend(places[range_id])
        return paths

    def _lines(self, paths: Paths) -> Iterator[HeldInCommits]:
        """Branches as they are, lines that branches have left, and what is on none of these."""
        lines = self._lines_behind(paths)
        on_lines: set[CommitId] = set()
        names = {head.id for head in self._refs.heads}
        for head in self._refs.heads:
            if line := lines.get(head.commit_id):
                on_lines |= self._holding_behind(head.commit_id, paths)
                yield self._told(line, paths, head.id)
        for move in self._refs.head_moves:
            left = self._holding_behind(move.commit_id, paths)
            if left and not left <= on_lines:
                on_lines |= left
                line = lines[move.commit_id]
                is_deleted = move.branch_id not in names
                yield self._told(line, paths, move.branch_id, move.until, is_deleted=is_deleted)
        # Reached by second parents, by tags, or by their ids alone.
        rest = [self._refs.graph[c] for c in paths if c not in on_lines]
        if rest:
            rest.sort(key=lambda commit: commit.creation_date)
            longest = _longest(self._ends[commit.id] for commit in rest)
            retained = sum(self._ends[commit.id].is_retained(self._now) for commit in rest)
            yield self._told(_Line(rest[0], rest[-1], len(rest), retained, longest), paths, "")

    def _lines_behind(self, paths: Paths) -> dict[CommitId, _Line]:
        """For every commit with a holding one on its line of main parents: what that line holds."""
        lines: dict[CommitId, _Line] = {}
        for commit in self._parents_first:
            behind = lines.get(commit.main_parent) if commit.main_parent is not None else None
            if commit.id in paths:
                end = self._ends[commit.id]
                is_retained = int(end.is_retained(self._now))
                behind = (
                    _Line(commit, commit, 1, is_retained, end)
                    if behind is None
                    else _Line(
                        behind.first,
                        commit,
                        behind.commits + 1,
                        behind.retained + is_retained,
                        _longest((behind.longest, end)),
                    )
                )
            if behind is not None:
                lines[commit.id] = behind
        return lines

    def _holding_behind(self, commit_id: CommitId, paths: Paths) -> set[CommitId]:
        found: set[CommitId] = set()
        at: CommitId | None = commit_id
        while at is not None:
            if at in paths:
                found.add(at)
            at = self._refs.graph[at].main_parent
        return found

    def _told(
        self,
        line: _Line,
        paths: Paths,
        branch: str,
        left_at: datetime | None = None,
        *,
        is_deleted: bool = False,
    ) -> HeldInCommits:
        return HeldInCommits(
            branch=branch,
            commits=line.commits,
            retained=line.retained,
            first=_seen(line.first, paths),
            last=_seen(line.last, paths),
            rule=self._rule(line.longest),
            until=line.longest.at,
            left_at=left_at,
            is_deleted=is_deleted,
        )

    def _rule(self, end: RetentionEnd) -> str:
        """The rule that keeps a commit, or kept it longest, in words."""
        because, branch = end.because, end.because.branch_id
        began = _BEGAN.get(because.cause)
        if began is None or because.until is None:
            return str(because)
        assert self._rules is not None
        began = began.format(branch=branch, at=format_time(because.until))
        days = self._rules.default_retention_days if branch is None else self._days(branch)
        whose = "the default" if branch is None else f"branch {branch}"
        until = f", until {on_the_day(end.at)}" if end.at is not None else ""
        return f"{began}, and {whose} keeps for {days_text(days)}{until}"

    def _days(self, branch: BranchId) -> int:
        assert self._rules is not None
        return self._rules.days_for(branch)


def _seen(commit: Commit, paths: Paths) -> CommitSeen:
    return CommitSeen(commit.id, commit.creation_date, sorted(paths[commit.id])[0])


def _longest(ends: Iterable[RetentionEnd]) -> RetentionEnd:
    """The end that comes last; one that never comes is the last of all."""
    return max(ends, key=lambda end: end_order(end.at))


def _rounded_up(end: RetentionEnd) -> RetentionEnd:
    if end.at is None or end.at > _LATEST - _SECOND:
        return end
    return RetentionEnd(end.at + _SECOND, end.because)
