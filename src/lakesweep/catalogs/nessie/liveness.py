"""Which commits are live under which policy, and at which commits the full state is live too."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from lakesweep.catalogs.nessie.history import ROOT, CommitHistory
from lakesweep.domain.cutoff_policies import CutoffPolicy

__all__ = ["LiveCommits", "find_live_commits"]

_NOT_WALKED = -1


class _WalkEnd(NamedTuple):
    """The last live commit of a walk and the first that is cut off, or ROOT."""

    last_live: int
    first_cut_off: int


@dataclass(slots=True)
class LiveCommits:
    """Live commits as flags by number, and the numbers of the commits whose full state is live."""

    flags: bytearray
    states: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return self.flags.count(1)


def find_live_commits(
    history: CommitHistory,
    heads: Iterable[tuple[int, CutoffPolicy]],
    *,
    keep_state_at_cutoff: bool,
) -> LiveCommits:
    """Walk from every head to the first commit that its policy cuts off.

    The state at the last live commit is live: what was written before it and is still there. With
    `keep_state_at_cutoff` the state at the first commit that a time cuts off is live as well, since at the cut-off
    time that was what readers saw.
    """
    live = LiveCommits(bytearray(len(history)))
    walks: dict[CutoffPolicy, _Walks] = {}
    for head, policy in heads:
        if policy.commits is not None and policy.commits >= len(history):
            policy = CutoffPolicy()
        end = walks.setdefault(policy, _Walks(history, policy, live.flags)).walk(head)
        live.states.add(end.last_live)
        is_at_time = keep_state_at_cutoff and policy.timestamp is not None
        if is_at_time and end.first_cut_off != ROOT:
            live.states.add(end.first_cut_off)
    return live


class _Walks:
    """All walks under one policy. Where a time decides, a walk that meets an older one ends where that did."""

    def __init__(self, history: CommitHistory, policy: CutoffPolicy, flags: bytearray) -> None:
        self._history = history
        self._policy = policy
        self._flags = flags
        self._ends: list[_WalkEnd] = []
        self._end_of: array[int] | None = None
        if policy.commits is None:
            self._end_of = array("q", [_NOT_WALKED]) * len(history)

    def walk(self, head: int) -> _WalkEnd:
        """Mark what is live from a head on. The head itself is, however old."""
        parents, times = self._history.parents, self._history.times
        self._flags[head] = 1
        last_live, commit, count = head, parents[head], 2
        walked: list[int] = []
        while commit != ROOT and not self._policy.is_cut_off(times[commit], count):
            if self._end_of is not None:
                met = self._end_of[commit]
                if met != _NOT_WALKED:
                    return self._remember(walked, met)
                walked.append(commit)
            self._flags[commit] = 1
            last_live, commit, count = commit, parents[commit], count + 1
        self._ends.append(_WalkEnd(last_live, commit))
        return self._remember(walked, len(self._ends) - 1)

    def _remember(self, walked: Iterable[int], end: int) -> _WalkEnd:
        if self._end_of is not None:
            for commit in walked:
                self._end_of[commit] = end
        return self._ends[end]
