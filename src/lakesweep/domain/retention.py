"""Which commits keep their objects.

A commit is retained when it is the head of a branch, or when on *some* path of main parents from a start its main
child on that path is younger (strictly) than the path's threshold: until that child was made, the commit was what the
start's branch pointed at. Starts are

- every branch head, with the days of its branch;
- every commit that a branch pointed at until a known time (a head move), with the days of that branch, as if a child
  had been made at that time;
- every dangling leaf (the main parent of no commit, and no head), with the default days, as if a child with its own
  creation time pointed at it.

The rule looks at all paths; a server that stops at a commit which an earlier path has passed may drop commits that
this rule retains. All paths through a commit share the rest of their way, so the earliest threshold among them decides
for everything below: one pass over the graph, children before parents, is enough.

A day is 24 hours, counted back from `now`; no calendar and no time zone takes part.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from lakesweep.domain.commits import BranchHead, BranchId, Commit, CommitGraph, CommitId, HeadMove
from lakesweep.domain.durations import format_time
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import UnsafeToSweepError

__all__ = [
    "RetainedBecause",
    "RetainedCommits",
    "RetentionCause",
    "assert_all_known",
    "children_first",
    "graph_has_cycle",
    "graph_is_incomplete",
    "retained_commits",
]

_BEGINNING = datetime.min.replace(tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)


class RetentionCause(StrEnum):
    """The first of these that holds for a retained commit."""

    NO_RULES = "the repository has no retention rules"
    HEAD = "head of branch"
    KEPT_REF = "named to be kept"
    WAS_HEAD = "was the head of branch"
    SUPERSEDED_RECENTLY = "superseded recently on branch"
    DANGLING_RECENT = "recent, on no branch"
    DANGLING_SUPERSEDED_RECENTLY = "superseded recently, on no branch"


@dataclass(frozen=True, slots=True)
class RetainedBecause:
    """Why a commit is retained: the cause, its branch where there is one, and until when it was what was read."""

    cause: RetentionCause
    branch_id: BranchId | None = None
    until: datetime | None = None

    def __str__(self) -> str:
        branch = f" {self.branch_id}" if self.branch_id is not None else ""
        until = f" (until {format_time(self.until)})" if self.until is not None else ""
        return f"{self.cause}{branch}{until}"


@dataclass(frozen=True, slots=True)
class RetainedCommits:
    """The retained commits of a graph, each with one reason; every other commit of the graph has expired."""

    why: dict[CommitId, RetainedBecause]
    ids: frozenset[CommitId] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", frozenset(self.why))

    def __contains__(self, commit_id: CommitId) -> bool:
        return commit_id in self.why

    def __len__(self) -> int:
        return len(self.why)


def retained_commits(
    graph: CommitGraph,
    heads: Sequence[BranchHead],
    rules: RetentionRules | None,
    now: datetime,
    head_moves: Iterable[HeadMove] = (),
    keep: Iterable[CommitId] = (),
) -> RetainedCommits:
    """The commits whose objects stay.

    Args:
        graph: all commits of the repository, dangling ones included.
        heads: every branch, hidden ones too.
        rules: None when the repository has none; then everything is retained.
        now: the reference time that days are counted back from.
        head_moves: what branches pointed at before, and until when, where the server keeps such a log.
        keep: further roots (tags, refs named by the user). A ref reaches the objects of its own commit, so only that
            commit is retained, not the history behind it.

    Raises:
        UnsafeToSweepError: the graph lacks a commit that a branch, a move, a root or another commit names.
    """
    order = children_first(graph)
    moves = list(head_moves)
    kept = list(keep)
    assert_all_known(graph, heads, moves, kept)
    if rules is None:
        because = RetainedBecause(RetentionCause.NO_RULES)
        return RetainedCommits({commit.id: because for commit in order})

    starts = _Starts(rules, now)
    why: dict[CommitId, RetainedBecause] = {}
    for head in heads:
        starts.add(head.commit_id, head.id)
        why.setdefault(head.commit_id, RetainedBecause(RetentionCause.HEAD, head.id))
    for commit_id in kept:
        why.setdefault(commit_id, RetainedBecause(RetentionCause.KEPT_REF))
    for move in moves:
        starts.add(move.commit_id, move.branch_id)
        if move.until > starts.threshold(move.branch_id):
            because = RetainedBecause(RetentionCause.WAS_HEAD, move.branch_id, move.until)
            why.setdefault(move.commit_id, because)

    on_branches = {head.commit_id for head in heads}
    superseded = {commit.main_parent for commit in order}
    for commit in order:
        # A branch that moved away or was deleted leaves its commit dangling all the same.
        if commit.id not in superseded and commit.id not in on_branches:
            starts.add(commit.id, None)
            if commit.creation_date > starts.threshold(None):
                because = RetainedBecause(
                    RetentionCause.DANGLING_RECENT, until=commit.creation_date
                )
                why.setdefault(commit.id, because)
        threshold, branch_id = starts.earliest[commit.id]
        parent = commit.main_parent
        if parent is None:
            continue
        starts.lower(parent, threshold, branch_id)
        if commit.creation_date > threshold and parent not in why:
            cause = (
                RetentionCause.DANGLING_SUPERSEDED_RECENTLY
                if branch_id is None
                else RetentionCause.SUPERSEDED_RECENTLY
            )
            why[parent] = RetainedBecause(cause, branch_id, commit.creation_date)
    return RetainedCommits(why)


class _Starts:
    """For every commit the earliest threshold of the paths through it, and the branch it came from."""

    def __init__(self, rules: RetentionRules, now: datetime) -> None:
        self._rules = rules
        self._now = now
        self._thresholds: dict[BranchId | None, datetime] = {}
        self.earliest: dict[CommitId, tuple[datetime, BranchId | None]] = {}

    def threshold(self, branch_id: BranchId | None) -> datetime:
        """Now minus the branch's days; the default days for None."""
        if branch_id not in self._thresholds:
            rules = self._rules
            days = rules.default_retention_days if branch_id is None else rules.days_for(branch_id)
            self._thresholds[branch_id] = _days_before(self._now, days)
        return self._thresholds[branch_id]

    def add(self, commit_id: CommitId, branch_id: BranchId | None) -> None:
        """A path starts at this commit."""
        self.lower(commit_id, self.threshold(branch_id), branch_id)

    def lower(self, commit_id: CommitId, threshold: datetime, branch_id: BranchId | None) -> None:
        """A path with this threshold passes through the commit."""
        known = self.earliest.get(commit_id)
        if known is None or threshold < known[0]:
            self.earliest[commit_id] = (threshold, branch_id)


def _days_before(now: datetime, days: int) -> datetime:
    try:
        return now - timedelta(days=days)
    except (
        OverflowError
    ):  # "keep a million days" means for ever; a negative number of that size, never
        return _BEGINNING if days > 0 else _END


def children_first(graph: CommitGraph) -> list[Commit]:
    """The commits ordered so that each comes after all commits whose main parent it is.

    Generations would give the same order, but they are the server's word; the links are the truth.
    """
    children_left: dict[CommitId, int] = {}
    for commit in graph:
        missing = next((parent for parent in commit.parents if parent not in graph), None)
        if missing is not None:
            raise graph_is_incomplete(f"commit {commit.id} names a parent {missing}")
        if commit.main_parent is not None:
            children_left[commit.main_parent] = children_left.get(commit.main_parent, 0) + 1
    order = [commit for commit in graph if commit.id not in children_left]
    for commit in order:  # grows while it is read
        parent = commit.main_parent
        if parent is None:
            continue
        children_left[parent] -= 1
        if not children_left[parent]:
            order.append(graph[parent])
    if len(order) != len(graph):
        raise graph_has_cycle()
    return order


def assert_all_known(
    graph: Container[CommitId],
    heads: Sequence[BranchHead],
    moves: Sequence[HeadMove],
    kept: Sequence[CommitId],
) -> None:
    """Refuse a graph that lacks a commit which a branch, a head move or a root names."""
    for head in heads:
        if head.commit_id not in graph:
            raise graph_is_incomplete(f"branch {head.id} points at {head.commit_id}")
    for move in moves:
        if move.commit_id not in graph:
            raise graph_is_incomplete(
                f"the log says that branch {move.branch_id} was at {move.commit_id}"
            )
    for commit_id in kept:
        if commit_id not in graph:
            raise graph_is_incomplete(f"a ref that must be kept names {commit_id}")


def graph_has_cycle() -> UnsafeToSweepError:
    """The error about commits that descend from themselves."""
    return UnsafeToSweepError(
        "The commit graph has a cycle, so it is not known which commits are retained. Nothing was deleted. "
        "The refs dump or the server's answers are damaged; take them again.",
        kind="commit-graph-cycle",
    )


def graph_is_incomplete(found: str) -> UnsafeToSweepError:
    """The error about something that names a commit which the graph lacks."""
    return UnsafeToSweepError(
        f"The commit graph is not complete: {found}, which is not in it. Nothing was deleted. Run again; if it "
        "stays so, the server has lost a commit and no retention can be computed.",
        kind="commit-graph-incomplete",
    )
