"""Until when a state of a table or view is live, if nothing changes: by each reference that has it, and its policy.

`find_live_commits` answers for one moment. A reference's walk goes from its head to the first commit that the policy cuts
off, and the state at the last live commit is live as well. So a state is live by a reference for as long as the newest
commit that has it is on that walk. Only a duration moves with time: it cuts a commit off once the commit is older than
the duration, so the oldest time on the way from the head decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakesweep.catalogs.nessie.history import ROOT, CommitHistory
from lakesweep.catalogs.nessie.identify import CatalogHistory
from lakesweep.catalogs.nessie.values import Reference, TableState
from lakesweep.domain.cutoff_policies import CutoffPolicy, parse_policies

__all__ = ["ContentEnds", "HeldByReference"]

_DAY = timedelta(days=1)
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class HeldByReference:
    """A reference that keeps a state live: the newest commit that has it, the policy, and until when (None: for good)."""

    reference: str
    policy: str
    commit: str
    made_at: datetime
    content_key: tuple[str, ...]
    until: datetime | None


@dataclass(frozen=True, slots=True)
class _Rule:
    """A policy as it is now, and the duration by which it moves; None for one that stands still."""

    policy: CutoffPolicy
    duration: timedelta | None


class ContentEnds:
    """Tells of any state which references keep it live."""

    def __init__(
        self,
        catalog: CatalogHistory,
        default_policy: str,
        policy_texts: tuple[tuple[str, str], ...],
        now: datetime,
        *,
        keep_state_at_cutoff: bool,
    ) -> None:
        self._catalog, self._now = catalog, now
        self._keep_state_at_cutoff = keep_state_at_cutoff
        self._policies = parse_policies(default_policy, policy_texts, now)
        self._tomorrow = parse_policies(default_policy, policy_texts, now + _DAY)
        self._lines: dict[str, list[int]] = {}

    def of(
        self, content_id: str, metadata_location: str, snapshot_id: int
    ) -> list[HeldByReference]:
        """Every reference and policy that keeps this state live now."""
        held = self._ever(content_id, metadata_location, snapshot_id)
        return [one for one in held if one.until is None or self._now < one.until]

    def last_end(
        self, content_id: str, metadata_location: str, snapshot_id: int
    ) -> datetime | None:
        """When the last reference stopped keeping a state that none keeps now; None where that is not known."""
        held = self._ever(content_id, metadata_location, snapshot_id)
        ends = [one.until for one in held if one.until is not None]
        return max(ends, default=None)

    def _ever(
        self, content_id: str, metadata_location: str, snapshot_id: int
    ) -> Iterator[HeldByReference]:
        """Every reference and policy that keeps the state live now, or did."""
        wanted = (content_id, metadata_location, snapshot_id)
        for reference in self._catalog.references:
            yield from self._by(reference, wanted)

    def turning_points(self, grace: timedelta) -> set[datetime]:
        """Every instant at which a dropped table may become one that is collected: a grace after policies let it go."""
        rules = {rule for reference in self._catalog.references for rule in self._rules(reference)}
        waits = {timedelta(0), *(rule.duration for rule in rules if rule.duration is not None)}
        times = self._catalog.history.times
        return {time + wait + grace + _MOMENT for time in times for wait in waits}

    def _by(self, reference: Reference, wanted: tuple[str, str, int]) -> Iterator[HeldByReference]:
        history = self._catalog.history
        line = self._line(reference)
        found = _newest_with(history, line, wanted)
        if found is None:
            return
        depth, key = found
        for rule in self._rules(reference):
            is_kept, until = self._end(line, depth, rule)
            if is_kept:
                commit = line[depth]
                yield HeldByReference(
                    str(reference),
                    _in_seconds(rule.policy),
                    history.hashes[commit],
                    history.times[commit],
                    key,
                    until,
                )

    def _end(self, line: list[int], depth: int, rule: _Rule) -> tuple[bool, datetime | None]:
        """Whether the commit at this depth is live now or was, and until when."""
        policy, times = rule.policy, self._catalog.history.times
        if self._keep_state_at_cutoff and policy.timestamp is not None:
            # The state at the first commit that a time cuts off is live too: the commit behind must be cut off.
            depth -= 1
        if depth <= 0:
            return True, None  # at the head, which is live however old it is
        if policy.commits is not None:
            return not policy.is_cut_off(times[line[depth]], depth + 1), None
        if policy.timestamp is None:
            return True, None
        oldest = min(times[number] for number in line[1 : depth + 1])
        if rule.duration is None:
            return not policy.is_cut_off(oldest, depth + 1), None
        return True, oldest + rule.duration + _MOMENT

    def _rules(self, reference: Reference) -> Iterator[_Rule]:
        now, tomorrow = (p.policies_for(reference.name) for p in (self._policies, self._tomorrow))
        # Two policies that are one at this very moment are told apart a day later, and count as the first.
        for policy, later in zip(now, tomorrow, strict=False):
            cut_off_at = policy.timestamp
            is_moving = cut_off_at is not None and cut_off_at != later.timestamp
            duration = self._now - cut_off_at if cut_off_at is not None and is_moving else None
            yield _Rule(policy, duration)

    def _line(self, reference: Reference) -> list[int]:
        """The commits of a reference from its head to the root."""
        if reference.hash not in self._lines:
            history = self._catalog.history
            number = history.number_of(reference.hash)
            line: list[int] = []
            while number is not None and number != ROOT:
                line.append(number)
                number = history.parents[number]
            self._lines[reference.hash] = line
        return self._lines[reference.hash]


def _in_seconds(policy: CutoffPolicy) -> str:
    """A policy for people, its time to the second."""
    time = policy.timestamp
    return str(policy if time is None else replace(policy, timestamp=time.replace(microsecond=0)))


def _newest_with(
    history: CommitHistory, line: list[int], wanted: tuple[str, str, int]
) -> tuple[int, tuple[str, ...]] | None:
    """How far behind the head the newest commit is that has a state, and under which key; None where none has it."""
    keys: dict[tuple[str, ...], None] = {}
    newest: tuple[int, tuple[str, ...]] | None = None
    for depth in range(len(line) - 1, -1, -1):
        number = line[depth]
        for key in history.deleted[number]:
            keys.pop(key, None)
        for content in history.contents[number]:
            if isinstance(content, TableState) and _is(content, wanted):
                keys[content.content_key] = None
            else:
                keys.pop(content.content_key, None)
        if keys:
            newest = (depth, next(iter(keys)))
    return newest


def _is(content: TableState, wanted: tuple[str, str, int]) -> bool:
    return (content.content_id, content.metadata_location, content.snapshot_id) == wanted
