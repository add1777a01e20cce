"""Which contents are live for which cut-off: one reading of a catalog's commits answers for many numbers of days.

The rule is that of `identify`, asked for one cut-off after another. A longer cut-off keeps all that a shorter one keeps, so
each content has a first number of days that keeps it. Between two days on which a commit is cut off nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.history import CommitHistory
from lakesweep.catalogs.nessie.identify import heads_with_policies, read_catalog, read_states
from lakesweep.catalogs.nessie.live_contents import States, keep_newest
from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.catalogs.nessie.liveness import LiveCommits, find_live_commits
from lakesweep.catalogs.nessie.values import CatalogContent, TableState
from lakesweep.domain.cutoff_policies import CutoffPolicies, CutoffPolicy
from lakesweep.domain.nessie_contents import OtherContent

__all__ = ["MOST_DAYS", "KeptContents", "contents_by_days", "state_of"]

# As many cut-offs as a signed number has bits, but for one that tells what is at a head: references carry one for each.
MOST_DAYS = 62
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class KeptContents:
    """Contents by the bits of the cut-offs that keep them; bit i stands for `days[i]`.

    `last` has each table or view as it was put last, with the bits of the cut-offs for which it is dropped.
    """

    days: tuple[int, ...]
    left_out: int  # days on which something changes, and that are not among `days`
    states: dict[DistinctContent, int]
    keys: dict[str, tuple[str, ...]]  # content id → its key
    others: dict[OtherContent, int]
    last: dict[DistinctContent, int]
    at_heads: frozenset[str]  # metadata files of contents at the head of a reference
    commits: int


def contents_by_days(
    client: NessieClient,
    policies: CutoffPolicies,
    now: datetime,
    chosen: Iterable[int] = (),
    *,
    keep_state_at_cutoff: bool = False,
    parallelism: int = 4,
) -> KeptContents:
    """Ask for cut-offs of so many days before `now` in place of the default policy; patterns keep their own.

    Days are those `chosen` and those on which a commit is cut off, at most `MOST_DAYS` of them.
    """
    catalog = read_catalog(client, parallelism=parallelism)
    references, history = catalog.references, catalog.history
    days, left_out = _days(history, now, chosen)
    lives = []
    for number in days:
        by_days = replace(policies, default=CutoffPolicy(timestamp=now - number * _DAY))
        heads = heads_with_policies(history, references, by_days)
        lives.append(find_live_commits(history, heads, keep_state_at_cutoff=keep_state_at_cutoff))
    at_heads = {n for r in references if (n := history.number_of(r.hash)) is not None}
    wanted = at_heads.union(*(live.states for live in lives))
    states = read_states(client, history, wanted, parallelism)
    first = _first_days(history, lives, states)
    every = (1 << len(days)) - 1
    tables: dict[DistinctContent, int] = {}
    live_ids: dict[str, int] = {}
    for content, index in first.items():
        bits = every & ~((1 << index) - 1)
        live_ids[content.content_id] = live_ids.get(content.content_id, 0) | bits
        if isinstance(content, TableState):
            state = state_of(content)
            tables[state] = tables.get(state, 0) | bits
    newest: dict[str, tuple[int, TableState]] = {}
    for number, contents in enumerate(history.contents):
        for content in contents:
            if isinstance(content, TableState):
                keep_newest(newest, history, number, content)
    return KeptContents(
        days=days,
        left_out=left_out,
        states=tables,
        keys={c.content_id: c.content_key for c in first},
        others={
            c: every & ~((1 << index) - 1)
            for c, index in first.items()
            if isinstance(c, OtherContent)
        },
        last={
            state_of(state): every & ~live_ids.get(content_id, 0)
            for content_id, (_, state) in newest.items()
            if live_ids.get(content_id, 0) != every
        },
        at_heads=frozenset(
            content.metadata_location
            for number in at_heads
            for content in states[number]
            if isinstance(content, TableState)
        ),
        commits=len(history),
    )


def state_of(content: TableState) -> DistinctContent:
    """What decides which files a content needs."""
    return DistinctContent(
        content.content_id, content.content_type, content.metadata_location, content.snapshot_id
    )


def _days(
    history: CommitHistory, now: datetime, chosen: Iterable[int]
) -> tuple[tuple[int, ...], int]:
    """0, the chosen days, and those from which on one more commit is kept: all, or evenly some of them."""
    steps = {max(0, -((time - now) // _DAY)) for time in history.times}
    # The last step keeps everything.
    wanted = {0, *chosen, *([max(steps)] if steps else [])}
    rest = sorted(steps - wanted)
    room = max(0, MOST_DAYS - len(wanted))
    picked = rest if len(rest) <= room else [rest[i * len(rest) // room] for i in range(room)]
    return tuple(sorted(wanted | set(picked))), len(rest) - len(picked)


def _first_days(
    history: CommitHistory, lives: Sequence[LiveCommits], states: dict[int, States]
) -> dict[CatalogContent, int]:
    """For each content the place, in the order of days, of the first cut-off that keeps it."""
    first: dict[CatalogContent, int] = {}
    flagged, stated = bytearray(len(history)), set[int]()
    for index, live in enumerate(lives):
        for number in range(len(history)):
            if live.flags[number] and not flagged[number]:
                flagged[number] = 1
                for content in history.contents[number]:
                    first.setdefault(content, index)
        for number in live.states - stated:
            stated.add(number)
            for content in states[number]:
                first.setdefault(content, index)
    return first
