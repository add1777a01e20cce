"""The reviewer: takes dropped addresses from the queue and deletes those that nothing refers to.

1. It looks whether anything refers to them. This spares users a refusal, and is no proof.
2. It *condemns* the others in the fence. From here on nobody can make a reference to them.
3. It looks again. References only vanish now, so a look that finds none proves that none is left.
4. It takes the condemnation over, by compare-and-set, and records in the same transaction what goes. Where another one
   stands by now, or none, the look proves nothing. From here on nobody else lifts it who looked before.
5. It keeps copies if asked to, deletes, and records what became of each.
6. It lifts the condemnation: of what is gone, and of what the second look found. What the store would not delete stays
   condemned, and is tried again, later and later: each try leaves a record, and copies.

A reviewer goes on with condemnations that it finds, whoever made them. If two do so, both are right: where step 4 finds
a condemnation standing, the whole look lay within it, so no later look finds a reference; and a look that found one
before can't lift what was taken over since. So nobody lifts it before the bytes are gone. An upload that a reset threw away
needs that: it stages its object again by the bytes alone. The lease is there only to spare work.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lakesweep.errors import LakesweepError, StorageError
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.hard_delete.dropped_entries import DroppedEntries
from lakesweep.lake.hard_delete.fence import Condemnation, Fence, FoundFence
from lakesweep.lake.hard_delete.ledger import DeleteLedger, LedgerRow
from lakesweep.lake.hard_delete.queue import Dropped, Queue, Queued
from lakesweep.lake.hard_delete.references import Holder, References
from lakesweep.lake.hard_delete.tombs import ABSENT, Tombs
from lakesweep.lake.kv.interface import Change, Held, unique
from lakesweep.lake.records import decode_record, encode_record, from_micros
from lakesweep.lake.refs.repositories import Repositories
from lakesweep.lake.values import Repository
from lakesweep.storage import DeleteStatus

logger = logging.getLogger(__name__)

_MOST_AT_ONCE = 4_000
"""Each review makes a few users wait, however much it takes up; makers of references read so many addresses."""
_MOST_CONDEMNED = 2 * _MOST_AT_ONCE
"""Whatever a store refuses to delete stays condemned, and whoever makes a reference reads the record of all of it."""
_MOST_WAIT_SECONDS = 10.0
_QUIET = timedelta(milliseconds=200)
_LEASE_KEY = b"hard-delete/lease"
_LEASE_LIFE = timedelta(minutes=2)
_OURS = "data/"
"""Where this lake puts objects. What lies elsewhere was put there by others, and is left to a collector."""
_LATENCY_BOUNDS = (1.0, 10.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 86400.0)


@dataclass(slots=True)
class ReviewCounts:
    """What the reviews of this process did, for metrics."""

    deleted_objects: int = 0
    deleted_bytes: int = 0
    kept: int = 0
    failed: int = 0
    latencies: Counter[float] = field(default_factory=Counter)
    """Deleted objects by the bound under which the time from their last dereference fell."""
    latency_seconds: float = 0.0

    bounds = _LATENCY_BOUNDS

    def add(self, other: ReviewCounts) -> None:
        """Count what another process did, too."""
        self.deleted_objects += other.deleted_objects
        self.deleted_bytes += other.deleted_bytes
        self.kept += other.kept
        self.failed += other.failed
        self.latencies += other.latencies
        self.latency_seconds += other.latency_seconds


def _go_on(_seconds: float) -> None:
    """Rest for no time at all."""


def _never() -> bool:
    return False


@dataclass(eq=False, repr=False)
class Reviewer:
    """Reviews the queues of all repositories."""

    _context: LakeContext
    _repositories: Repositories
    _fence: Fence
    _queue: Queue
    _references: References
    _dropped_entries: DroppedEntries
    _ledger: DeleteLedger
    _tombs: Tombs
    counts: ReviewCounts = field(default_factory=ReviewCounts, init=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)
    _next_tries: dict[str, dict[tuple[str, Condemnation], datetime]] = field(
        default_factory=dict, init=False
    )
    """When refused deletes are tried again, by partition: the queue is not read for them until then."""
    name: str = field(default_factory=lambda: uuid.uuid4().hex, init=False)
    """Of the holder of leases; who takes a dead one's place takes its name, and need not wait."""
    rest: Callable[[float], object] = field(default_factory=lambda: _go_on, init=False)
    """Called after each transaction with the time it took, which others who write may have waited for."""
    is_stopped: Callable[[], bool] = field(default_factory=lambda: _never, init=False)
    """Asked before each review of what is due: whoever is told to stop leaves the others queued."""
    pause: Callable[[float], bool] | None = field(default=None, init=False)
    """Waits for so many seconds, and says whether it was told to end. Reviews wait for a quiet moment where it is given."""

    def run(self) -> None:
        """Review what is due in every repository, as long as there is something; one at a time in a process."""
        with self._turn:
            self._run()

    def is_wanted(self) -> bool:
        """Whether a repository is to be reviewed at all."""
        return any(self._is_wanted(repository) for repository in self._repositories.all())

    def take_counts(self) -> ReviewCounts:
        """What was counted since the last call."""
        counts, self.counts = self.counts, ReviewCounts()
        return counts

    def _run(self) -> None:
        give_up_at = time.monotonic() + _MOST_WAIT_SECONDS
        wanted = [one for one in self._repositories.all() if self._is_wanted(one)]
        for repository in wanted:
            try:
                # It may have been switched off, or deleted, while others or a part of its queue were reviewed.
                while (
                    not self.is_stopped()
                    and (current := self._repositories.as_it_is(repository))
                    and self._is_wanted(current)
                    and self._has_lease(current)
                ):
                    self._await_quiet(wanted, give_up_at)
                    failed_before = self.counts.failed
                    taken = self.review(current)
                    # What the store would not delete is due still, and would be tried again without end.
                    if taken < _MOST_AT_ONCE or self.counts.failed > failed_before:
                        break
            except LakesweepError as failed:
                # What is condemned stays so, and the next review goes on with it.
                logger.warning(
                    "the review of deleted objects of repository %s stopped, and will be tried again: %s",
                    repository.id,
                    failed,
                )

    def _await_quiet(self, repositories: Sequence[Repository], give_up_at: float) -> None:
        """Let users go first: their files and those that go share a folder and a journal, for which all wait in turn."""
        while self.pause is not None and time.monotonic() < give_up_at:
            since = self._context.now() - _QUIET
            is_quiet = not any(self._queue.has_drops(one, since) for one in repositories)
            if is_quiet or self.pause(_QUIET.total_seconds() / 2):
                return

    def review(self, repository: Repository) -> int:
        """One review of what is due; how many records of the queue it took.

        Where objects are not deleted any more it takes none, and sees through what is condemned.
        """
        now = self._context.now()
        condemned = self._fence.read(repository).state.condemned
        is_on = self._context.hard_deletes(repository)
        if is_on:
            self._dropped_entries.queue_all(repository)
        most = min(_MOST_AT_ONCE, _MOST_CONDEMNED - len(condemned))
        queued = self._queue.due(repository, now, most) if most > 0 else []
        fresh = {one.dropped.address for one in queued} - condemned.keys() if is_on else set()
        held = self._references.find(repository, fresh) if fresh else {}
        foreign = {address for address in fresh if not address.startswith(_OURS)}
        self._settle(repository, queued, held, foreign, now)
        mine = self._condemn(repository, fresh - held.keys() - foreign, now)
        if mine:
            self._delete_unreferenced(repository, mine, queued)
        return len(queued) if is_on else 0

    def _settle(
        self,
        repository: Repository,
        queued: Iterable[Queued],
        held: Mapping[str, Holder],
        foreign: Collection[str],
        now: datetime,
    ) -> None:
        """Put off what is held for now, and forget what is none of ours to delete."""
        changes: list[Change] = []
        for one in queued:
            holder = held.get(one.dropped.address)
            if one.dropped.address in foreign or holder is Holder.COMMIT:
                changes.append(self._queue.done(repository, one))
            elif holder is Holder.PASSING:
                changes += self._queue.later(repository, one, now)
            else:
                continue
            self.counts.kept += 1
        if changes:
            self._change(unique(changes))

    def _change(
        self, changes: Sequence[Change], held: Sequence[Held] = (), *, is_durable: bool = False
    ) -> bool:
        """Make all changes in one transaction, or none, and let others write before the next one.

        A review that a power cut undid is made again. Only what has to be known of deleted bytes waits for the disk,
        and with it what was written before.
        """
        began = time.perf_counter()
        is_done = self._context.kv.change_all(changes, held, is_durable=is_durable)
        self.rest(time.perf_counter() - began)
        return is_done

    def _condemn(
        self, repository: Repository, addresses: Collection[str], now: datetime
    ) -> Mapping[str, Condemnation]:
        """Condemn the addresses by compare-and-set; returns every condemnation that stands then, also those of others."""
        while True:
            found = self._fence.read(repository)
            one = Condemnation(uuid.uuid4().hex, now)
            new = {address: one for address in addresses if address not in found.state.condemned}
            if not new:
                return found.state.condemned
            condemned = {**found.state.condemned, **new}
            state = replace(found.state, condemned=condemned, has_condemned=True)
            if self._change([self._fence.change(found, state)]):
                return condemned

    def _delete_unreferenced(
        self,
        repository: Repository,
        mine: Mapping[str, Condemnation],
        queued: Iterable[Queued],
    ) -> None:
        """Steps 3 to 6 of a review: look again, then delete; `mine` are the condemnations that stood before the look."""
        mine, by_address = self._take_due(repository, mine, queued)
        if not mine:
            return
        held = self._references.find(repository, mine)
        if held:
            revived = {address: mine[address] for address in held}
            standing = _standing(self._fence.read(repository), revived)
            self._put_off(repository, {name: mine[name] for name in standing}, by_address)
        unreferenced = {name: one for name, one in mine.items() if name not in held}
        self._delete_taken_over(repository, unreferenced, by_address)

    def _take_due(
        self,
        repository: Repository,
        condemned: Mapping[str, Condemnation],
        queued: Iterable[Queued],
    ) -> tuple[Mapping[str, Condemnation], dict[str, list[Queued]]]:
        """The condemned addresses but those that wait for the next try of a refused delete, with their records."""
        now, partition = self._context.now(), partition_of(repository)
        known = self._next_tries.get(partition, {})
        waiting = {one: due for one in condemned.items() if now < (due := known.get(one, now))}
        asked = dict(condemned.items() - waiting.keys())
        by_address = self._by_address(repository, asked, queued)
        for address, records in by_address.items():
            next_try = min(record.due for record in records)
            if address in asked and now < next_try:
                waiting[address, asked.pop(address)] = next_try
        self._next_tries[partition] = waiting
        return asked, by_address

    def _put_off(
        self,
        repository: Repository,
        revived: Mapping[str, Condemnation],
        by_address: Mapping[str, list[Queued]],
    ) -> None:
        """Lift the condemnations of what the look found; it is looked at again later."""
        now = self._context.now()
        changes: list[Change] = []
        for address in revived:
            for one in by_address.get(address, ()):
                changes += self._queue.later(repository, one, now)
        self.counts.kept += len(revived)
        self._lift(repository, revived, changes)

    def _delete_taken_over(
        self,
        repository: Repository,
        unreferenced: Mapping[str, Condemnation],
        by_address: Mapping[str, list[Queued]],
    ) -> None:
        """Steps 4 to 6 of a review, for addresses that the second look found no reference to."""
        now = self._context.now()
        known = {address: found[0].dropped for address, found in by_address.items()}
        while True:
            found = self._fence.read(repository)
            mine = _taken_over(found, unreferenced)
            if not mine:
                return
            # Of one that has no record any more, nothing is known but its address.
            going = {
                address: known.get(address) or Dropped(address, "", "", one.since)
                for address, one in mine.items()
            }
            told = self._ledger.begin(repository, going.values(), now)
            state = replace(found.state, condemned={**found.state.condemned, **mine})
            # While a repository is deleted, a look finds no references because they go.
            held = [self._repositories.held(repository)]
            if self._change([told, self._fence.change(found, state)], held, is_durable=True):
                break
            if self._repositories.as_it_is(repository) != repository:
                return
        rows = self._delete(repository, going, now)
        gone = {row.dropped.address for row in rows if row.outcome in _GONE}
        changes = [self._ledger.end(told, rows)]
        for address in going:
            for one in by_address.get(address, ()):
                is_gone = address in gone
                changes += (
                    [self._queue.done(repository, one)]
                    if is_gone
                    else self._queue.later(repository, one, now)
                )
        self._lift(repository, {address: mine[address] for address in gone}, changes)

    def _by_address(
        self, repository: Repository, mine: Collection[str], queued: Iterable[Queued]
    ) -> dict[str, list[Queued]]:
        """The records of the queue by address, also of what a review condemned that died."""
        found: dict[str, list[Queued]] = {}
        for one in queued:
            found.setdefault(one.dropped.address, []).append(one)
        others = set(mine) - found.keys()
        for one in self._queue.all(repository) if others else ():
            if one.dropped.address in others:
                found.setdefault(one.dropped.address, []).append(one)
        return found

    def _delete(
        self, repository: Repository, going: Mapping[str, Dropped], now: datetime
    ) -> list[LedgerRow]:
        names = list(going)
        rows: list[LedgerRow] = []
        if self._context.settings.undo_window:
            names, rows = self._bury(repository, going, now)
        for outcome in self._context.store(repository).delete_many(names):
            dropped = going[outcome.key]
            rows.append(LedgerRow(dropped, now, outcome.status.value, outcome.detail))
            if outcome.status in ABSENT:
                self._count(dropped)
            else:
                self.counts.failed += 1
        return rows

    def _bury(
        self, repository: Repository, going: Mapping[str, Dropped], now: datetime
    ) -> tuple[list[str], list[LedgerRow]]:
        """Keep copies of what goes, until one can't be made: the objects that may go now, and rows of those that stay.

        On a full disk copies without a delete behind them would leave it full for ever, and each delete makes room. Small
        ones come first: what is too big to be copied at all would keep those behind it at each try.
        """
        tombs: list[Change] = []
        names: list[str] = []
        refusal = ""
        going = dict(sorted(going.items(), key=lambda one: one[1].size_bytes))
        for name, dropped in going.items():
            try:
                tomb = self._tombs.bury(repository, dropped, now)
            except StorageError as failed:
                refusal = f"no copy could be kept to bring it back: {failed.message}"
                break
            names.append(name)
            if tomb is not None:
                tombs.append(tomb)
        if tombs:
            self._change(unique(tombs), is_durable=True)
        staying = list(going.values())[len(names) :]
        self.counts.failed += len(staying)
        outcome = DeleteStatus.FAILED.value
        return names, [LedgerRow(dropped, now, outcome, refusal) for dropped in staying]

    def _count(self, dropped: Dropped) -> None:
        took = (self._context.now() - dropped.since).total_seconds()
        self.counts.deleted_objects += 1
        self.counts.deleted_bytes += dropped.size_bytes
        self.counts.latency_seconds += took
        bound = next((b for b in self.counts.bounds if took <= b), float("inf"))
        self.counts.latencies[bound] += 1

    def _lift(
        self, repository: Repository, over: Mapping[str, Condemnation], changes: list[Change]
    ) -> None:
        """Take these very condemnations away, together with what is recorded of them."""
        while over or changes:
            found = self._fence.read(repository)
            kept = {
                address: one
                for address, one in found.state.condemned.items()
                if over.get(address) != one
            }
            state = replace(found.state, condemned=kept)
            if self._change([*unique(changes), self._fence.change(found, state)]):
                return

    def _is_wanted(self, repository: Repository) -> bool:
        if repository.is_read_only:
            return False
        if self._context.hard_deletes(repository):
            return True
        # Switched off in mid-review: what is condemned is seen through.
        return bool(self._fence.state_if_any(repository).condemned)

    def _has_lease(self, repository: Repository) -> bool:
        """Take or renew the lease: a second reviewer would do the same work again, and no harm."""
        kv, partition, now = self._context.kv, partition_of(repository), self._context.now()
        raw = kv.get(partition, _LEASE_KEY)
        if raw is not None:
            fields = decode_record(raw)
            if fields["holder"] != self.name and now < from_micros(fields["until"]):
                return False
        mine = encode_record({"holder": self.name, "until": now + _LEASE_LIFE})
        return kv.change_all([Change(partition, _LEASE_KEY, mine, raw)], is_durable=False)


_GONE = frozenset(status.value for status in ABSENT)


def _standing(found: FoundFence, mine: Mapping[str, Condemnation]) -> set[str]:
    """The addresses whose condemnation is the very one that was there when the look began."""
    condemned = found.state.condemned
    return {address for address, one in mine.items() if condemned.get(address) == one}


def _taken_over(found: FoundFence, seen: Mapping[str, Condemnation]) -> dict[str, Condemnation]:
    """New ids for the condemnations that stand as they were seen: whoever saw only the old id can't lift them any more."""
    new_id = uuid.uuid4().hex
    return {
        address: replace(seen[address], id=new_id) for address in sorted(_standing(found, seen))
    }
