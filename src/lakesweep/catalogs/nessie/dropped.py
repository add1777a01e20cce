"""Tables and views that no live commit has: until when a reference had them, and which have been gone long enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter

from lakesweep.catalogs.nessie.history import ROOT, CommitHistory
from lakesweep.catalogs.nessie.live_contents import States, keep_newest, live_contents
from lakesweep.catalogs.nessie.liveness import LiveCommits, find_live_commits
from lakesweep.catalogs.nessie.state_walk import StateWalk
from lakesweep.catalogs.nessie.values import TableState
from lakesweep.domain.cutoff_policies import CutoffPolicy
from lakesweep.domain.live_sets import DroppedTable

__all__ = ["CollectDropped", "dropped_tables"]

_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CollectDropped:
    """A dropped table is collected that was live at no time from `grace` before `now` on."""

    now: datetime
    grace: timedelta

    @property
    def since(self) -> datetime:
        """The begin of that time."""
        return _before(self.now, self.grace)


def dropped_tables(
    history: CommitHistory,
    live: LiveCommits,
    states: Mapping[int, States],
    heads: Iterable[tuple[int, CutoffPolicy]],
    collect: CollectDropped | None,
    *,
    keep_state_at_cutoff: bool,
) -> tuple[DroppedTable, ...]:
    """Tables and views that some commit put and no live commit or state has, as they were put last."""
    live_ids = {
        content.content_id
        for _, contents in live_contents(history, live, states)
        for content in contents
    }
    newest: dict[str, tuple[int, TableState]] = {}
    for number, contents in enumerate(history.contents):
        for content in contents:
            if isinstance(content, TableState) and content.content_id not in live_ids:
                keep_newest(newest, history, number, content)
    if not newest:
        return ()
    last_seen = {content_id: history.times[number] for content_id, (number, _) in newest.items()}

    def note_end(content_id: str, commit: int) -> None:
        if content_id in last_seen:
            last_seen[content_id] = max(last_seen[content_id], history.times[commit])

    within = frozenset[int]()
    if collect is not None:
        keep = keep_state_at_cutoff
        within = _live_within(history, heads, collect, keep_state_at_cutoff=keep)
    seen_within = StateWalk(history, within, attrgetter("content_id"), note_end).found()
    return tuple(
        DroppedTable(
            *newest[content_id][1],
            last_seen=last_seen[content_id],
            is_collected=collect is not None
            and content_id not in seen_within
            and last_seen[content_id] < collect.since,
        )
        for content_id in sorted(newest)
    )


def _live_within(
    history: CommitHistory,
    heads: Iterable[tuple[int, CutoffPolicy]],
    collect: CollectDropped,
    *,
    keep_state_at_cutoff: bool,
) -> frozenset[int]:
    """Commits whose state was live at some time since the grace began, by the policies of now.

    What a policy keeps at any of these times is what a policy that is longer by the grace keeps now, and the state that
    was the head's when the grace began. A head is live however old it is, and where the state at the cut-off is kept,
    that of the commit before it is: so it was with that head, too.
    """
    walks: list[tuple[int, CutoffPolicy]] = []
    heads_then: dict[int, int] = {}
    for head, policy in heads:
        longer = _longer(history, head, policy, collect)
        walks.append((head, longer))
        if longer.timestamp is not None and keep_state_at_cutoff:
            head_then = _head_at(history, head, collect.since, heads_then)
            walks += [(head_then, longer)] if head_then != ROOT else []
    live = find_live_commits(history, walks, keep_state_at_cutoff=True)
    return frozenset(live.states | {n for n, is_live in enumerate(live.flags) if is_live})


def _longer(
    history: CommitHistory, head: int, policy: CutoffPolicy, collect: CollectDropped
) -> CutoffPolicy:
    if policy.commits is not None:
        later, commit = 0, head
        while commit != ROOT and history.times[commit] >= collect.since:
            later, commit = later + 1, history.parents[commit]
        return CutoffPolicy(commits=policy.commits + later)
    if policy.timestamp is None:
        return policy
    return CutoffPolicy(timestamp=_before(min(policy.timestamp, collect.now), collect.grace))


def _head_at(history: CommitHistory, head: int, time: datetime, known: dict[int, int]) -> int:
    """The commit that was the head at that time, or ROOT; `known` has what earlier calls found, and gets more."""
    walked: list[int] = []
    while head != ROOT and head not in known and history.times[head] > time:
        walked.append(head)
        head = history.parents[head]
    found = known.get(head, head)
    known.update(dict.fromkeys(walked, found))
    return found


def _before(time: datetime, duration: timedelta) -> datetime:
    return time - duration if time - _EARLIEST > duration else _EARLIEST
