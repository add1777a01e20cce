"""Canaries: addresses that branches read, taken through the server's API, which must all come out as live.

They catch what no count can: an address that the collector spells otherwise than the server does, and a list of what
is staged that the server cut short without a word.

They are taken at random places, of what is staged and of what is committed apart. A sample of 920 staged entries
notices a list that lost one entry in two hundred with 99 % (0.995^920 < 0.01).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from random import Random

from lakesweep.catalogs.lakefs.wire import ObjectStatsWire
from lakesweep.collector.judge.meeting import Canaries
from lakesweep.collector.lakefs.live import LiveRead
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.domain.commits import BranchHead, BranchId
from lakesweep.errors import CatalogNotFoundError, UnsafeToSweepError

logger = logging.getLogger(__name__)

_CANARIES = 1000
_STAGED = 920
# Every branch gives a page of what is staged on it; so many more pages are dealt out among those that have more.
_MORE_PAGES = 100
# What lies behind those pages is looked at in so many random places.
_JUMPS = 20
_PLACES = 10  # in the commit at a head, at most
_IN_FLIGHT = 16
_LAST_ASCII = 0x7E


@dataclass(frozen=True, slots=True)
class Canary:
    """An entry that a branch, or the commit at its head (`branch@`), read before anything else was read."""

    ref: str
    path: str
    address: str


# Whether an earlier round has judged the range that holds a path at a branch's head.
IsJudged = Callable[[BranchId, str], bool]


def take_canaries(
    repository: LakeFSRepository, now: datetime, before: LiveRead | None = None
) -> list[Canary]:
    """About a thousand entries inside the namespace, at random places that are other ones each time.

    Of heads that `before` has read nothing is taken but what is staged: their ranges are not judged again.
    """
    seed = f"{repository.name} {now.isoformat()}"
    branches = repository.client.branches(repository.name)
    with ThreadPoolExecutor(_IN_FLIGHT) as pool:
        sampler = _Sampler(repository, Random(seed), pool)
        staged = sampler.take_staged(branches)
        new = [b for b in branches if before is None or not before.has_read(b.commit_id)]
        committed = sampler.take_committed(new, _CANARIES - len(staged))
    logger.info(
        "repo#%s canaries, objects known to be live: %d staged and %d committed ones, picked by seed %r",
        repository.name,
        len(staged),
        len(committed),
        seed,
    )
    return staged + committed


def judged_canaries(
    repository: LakeFSRepository,
    taken: Sequence[Canary],
    is_judged: IsJudged = lambda branch, path: False,
) -> Canaries:
    """Canaries as the judge takes them: one that no reference explains ends the run, if it is still read.

    One whose branch reads something else by now is no canary any more, and one whose range an earlier round has judged
    is in no reference of this round.
    """
    by_address: dict[str, list[Canary]] = {}
    for canary in taken:
        by_address.setdefault(canary.address, []).append(canary)

    def error(address: str) -> UnsafeToSweepError | None:
        for canary in by_address[address]:
            if _is_committed(repository, canary, is_judged):
                continue
            if _look_up(repository, canary.ref, canary.path) == canary:
                return _dead_canary(repository.name, canary)
        return None

    return Canaries(list(by_address), error)


def _dead_canary(repository: str, canary: Canary) -> UnsafeToSweepError:
    return UnsafeToSweepError(
        f"{canary.path} at {canary.ref} of {repository} reads {canary.address}, which was judged not to be live. "
        "What is live was not understood, or the server left it out of its list; nothing was deleted. Run again; "
        "if it happens twice, report it with the run record.",
        kind="dead-canary",
    )


def _is_committed(repository: LakeFSRepository, canary: Canary, is_judged: IsJudged) -> bool:
    """Whether a canary lies in a range that was judged before; a staged one may have been committed since it was taken."""
    head = f"{canary.ref.removesuffix('@')}@"
    if not is_judged(BranchId(head.removesuffix("@")), canary.path):
        return False
    if canary.ref == head:
        return True
    committed = _look_up(repository, head, canary.path)
    return committed is not None and committed.address == canary.address


def refuse_unread_heads(
    repository: LakeFSRepository, heads: Sequence[BranchHead], live: LiveRead
) -> None:
    """Refuse the run when a branch that was there before anything was read has a head whose ranges were not read.

    One that was deleted or has moved since then is none of them.
    """
    unread = {(head.id, head.commit_id) for head in heads if not live.has_read(head.commit_id)}
    if unread:
        now = repository.client.branches(repository.name)
        unread &= {(head.id, head.commit_id) for head in now}
    for branch, commit_id in sorted(unread):
        raise UnsafeToSweepError(
            f"Branch {branch} of {repository.name} is at commit {commit_id}, which was not among those that the server "
            "gave. What is live was not read in full; nothing was deleted. Run again; if it happens twice, report it.",
            kind="unread-head",
        )


@dataclass(frozen=True, slots=True)
class _Sampler:
    """Takes entries of a repository's branches at random places, by many requests at a time."""

    repository: LakeFSRepository
    chance: Random
    pool: ThreadPoolExecutor

    def take_staged(self, branches: Sequence[BranchHead]) -> list[Canary]:
        budget = min(_STAGED, _CANARIES)
        chosen = [head.id for head in self.chance.sample(branches, min(len(branches), budget))]
        picked = _pick(self._staged_paths(chosen), budget, self.chance)
        found = self.pool.map(lambda item: _look_up(self.repository, *item), picked)
        return [canary for canary in found if canary is not None]

    def _staged_paths(self, branches: Sequence[BranchId]) -> dict[BranchId, list[str]]:
        """Paths staged on these branches: all of them, or the first pages and random ones behind them."""
        seen: dict[BranchId, list[str]] = {branch: [] for branch in branches}
        offsets: dict[BranchId, str] = dict.fromkeys(branches, "")
        pages_left = len(branches) + _MORE_PAGES

        def read(where: dict[BranchId, str]) -> dict[BranchId, str]:
            """One more page of each; where those go on that have more."""
            pages = self.pool.map(lambda item: self._staged_page(*item), where.items())
            more: dict[BranchId, str] = {}
            for branch, (paths, following) in zip(where, pages, strict=True):
                seen[branch] += paths
                if following:
                    more[branch] = following
            return more

        while offsets and pages_left >= len(offsets):
            pages_left -= len(offsets)
            offsets = read(offsets)
        for _ in range(_JUMPS if offsets else 0):
            branch = self.chance.choice(list(offsets))
            read({branch: _place_behind(offsets[branch], self.chance)})
        return {branch: sorted(set(paths)) for branch, paths in seen.items()}

    def _staged_page(self, branch: BranchId, after: str) -> tuple[list[str], str | None]:
        try:
            return self.repository.client.staged_page(self.repository.name, branch, after=after)
        except CatalogNotFoundError:
            return [], None  # the branch went away

    def take_committed(self, branches: Sequence[BranchHead], budget: int) -> list[Canary]:
        # Of branches with the same head, one.
        heads = sorted({head.commit_id: f"{head.id}@" for head in branches}.values())
        if not heads or budget <= 0:
            return []
        chosen = self.chance.sample(heads, min(len(heads), budget))
        share = budget // len(chosen)
        seeds = [self.chance.random() for _ in chosen]

        def take(head: str, seed: float) -> list[Canary]:
            entries = self._random_entries(head, share, Random(seed))
            found = (_canary(self.repository, head, entry) for entry in entries)
            return [canary for canary in found if canary is not None]

        return list(chain.from_iterable(self.pool.map(take, chosen, seeds)))

    def _random_entries(self, head: str, amount: int, chance: Random) -> list[ObjectStatsWire]:
        """Committed entries at a branch's head, `amount` of them, from a few random places."""

        def entries(after: str) -> dict[str, ObjectStatsWire]:
            client, name = self.repository.client, self.repository.name
            try:
                listed = client.list_objects(name, head, after=after, limit=limit)
                return {entry.path: entry for entry in listed}
            except CatalogNotFoundError:
                return {}  # the branch went away

        places = max(2, min(amount // 10, _PLACES))
        limit = max(1, amount // places)
        found = entries("")
        # A first page that is not full is all there is.
        for _ in range(places - 1 if len(found) == limit else 0):
            found |= entries(_place_behind(chance.choice(list(found)), chance))
        return chance.sample(list(found.values()), min(len(found), amount))


def _pick(
    seen: dict[BranchId, list[str]], budget: int, chance: Random
) -> list[tuple[BranchId, str]]:
    """One path of every branch, and of all others as many as the budget allows."""
    firsts: list[tuple[BranchId, str]] = []
    rest: list[tuple[BranchId, str]] = []
    for branch, paths in seen.items():
        if paths:
            one = chance.randrange(len(paths))
            firsts.append((branch, paths[one]))
            rest += [(branch, path) for at, path in enumerate(paths) if at != one]
    return firsts + chance.sample(rest, min(len(rest), budget - len(firsts)))


def _place_behind(path: str, chance: Random) -> str:
    """An offset somewhere behind a path, near or far: the path cut at random, and there a greater character."""
    # A cut near the front soon leads behind the last path, so cuts near the end are likelier.
    at = max(chance.randrange(len(path)), chance.randrange(len(path)))
    least = ord(path[at])
    greater = chance.randint(least + 1, _LAST_ASCII) if least < _LAST_ASCII else least
    return path[:at] + chr(greater)


def _look_up(repository: LakeFSRepository, ref: str, path: str) -> Canary | None:
    entry = repository.client.stat_object(repository.name, ref, path)
    return None if entry is None else _canary(repository, ref, entry)


def _canary(repository: LakeFSRepository, ref: str, entry: ObjectStatsWire) -> Canary | None:
    """None for an entry outside the namespace."""
    address = repository.addresses.relative(entry.physical_address)
    return None if address is None else Canary(ref, entry.path, address)
