"""The guards of a sweep, with their limits and refusals.

The shared sweep calls them, and no catalog does: a catalog gives the facts, and can't leave a guard out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain

from lakesweep.collector.record import Phase, RunRecord, RunStatus
from lakesweep.domain.cutoff import SafetyMargins, assert_clocks_agree
from lakesweep.domain.durations import format_duration
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ConfigError, StorageError, UnsafeToSweepError
from lakesweep.storage import StorageOptions

# A plan of at most so many objects and bytes needs no confirmation: the share of a small lake says little.
SMALL_PLAN_OBJECTS = 1000
SMALL_PLAN_BYTES = 10 * 2**30
# A row that could not be deleted is tried again in the next round, after another look, so many times in all.
TRIES = 2
# After a round that came too late, one more may: what its look has read of files that never change is known to the next.
LATE_ROUNDS_ALLOWED = 1


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """What a plan would delete, beside what is live. Young and foreign objects count on neither side."""

    plan_id: str
    mark: str  # as messages name it
    garbage: Tally
    live: Tally
    confirming_command: str

    @property
    def share(self) -> float:
        """The larger of the shares of objects and of bytes of live + garbage, in percent."""
        whole = self.live + self.garbage
        of_objects = self.garbage.objects / whole.objects if whole.objects else 0.0
        of_bytes = self.garbage.bytes / whole.bytes if whole.bytes else 0.0
        return 100.0 * max(of_objects, of_bytes)

    def check_confirmed(self, confirm: str | None, max_delete_share: float) -> None:
        """Refuse a large plan that nobody confirmed, and a confirmation of another plan."""
        if confirm is None:
            if self._is_too_large(max_delete_share):
                raise UnsafeToSweepError(
                    f"The plan {self.plan_id} would delete {self._said(max_delete_share)} Nothing was deleted. Look at "
                    f"the mark {self.mark}; if it is right: {self.confirming_command}",
                    kind="blast-radius",
                )
        elif confirm != self.plan_id:
            raise ConfigError(
                f"--confirm {confirm} names another plan: mark {self.mark} has plan {self.plan_id}. Nothing was deleted.",
                kind="other-plan",
            )

    def check_widening(self, named: Tally, max_delete_share: float) -> None:
        """Refuse a mark that names a large share now and more than its plan, which alone was measured or confirmed."""
        if named.objects <= self.garbage.objects and named.bytes <= self.garbage.bytes:
            return
        now = replace(self, garbage=named)
        if now._is_too_large(max_delete_share):
            raise UnsafeToSweepError(
                f"The mark {self.mark} names {named} that are garbage, its plan {self.plan_id} {self.garbage}: somebody "
                f"added to it, and it would delete {now._said(max_delete_share)} Nothing was deleted. Mark again.",
                kind="blast-radius",
            )

    def _is_too_large(self, max_delete_share: float) -> bool:
        is_small = (
            self.garbage.objects <= SMALL_PLAN_OBJECTS and self.garbage.bytes <= SMALL_PLAN_BYTES
        )
        return not is_small and self.share > max_delete_share

    def _said(self, max_delete_share: float) -> str:
        return (
            f"{self.garbage}, {self.share:.1f} % of what is live or garbage ({self.live + self.garbage}), more than the "
            f"{max_delete_share:g} % that are deleted without asking."
        )


def confirmation_of(plan_id: str, confirm: str | None, earlier: RunRecord | None) -> str | None:
    """What confirms a plan: the user's --confirm, or a sweep of this very plan that began and so was confirmed then."""
    begun = (RunStatus.PARTLY_SWEPT, RunStatus.SWEPT)
    has_begun = earlier is not None and earlier.plan_id == plan_id and earlier.status in begun
    return plan_id if has_begun and confirm is None else confirm


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A store's clock, and that of the catalog's server at the moment; None where the server tells no time."""

    store_time: datetime
    server: str  # as messages name it
    server_time: datetime | None


def compare_clocks(
    our_time: datetime,
    readings: Iterable[ClockReading],
    clock: Callable[[], datetime],
    margins: SafetyMargins,
) -> None:
    """Refuse to go on when a server's clock or this machine's is not the stores', which tell ages and authority.

    The store of our own folder says `our_time` now.
    """
    # `readings` is lazy where a catalog has many stores: this machine's clock is read beside each of them.
    for reading in chain(readings, [ClockReading(our_time, "", None)]):
        store_time = reading.store_time
        if reading.server_time is not None:
            assert_clocks_agree(store_time, reading.server_time, reading.server, margins)
        assert_clocks_agree(store_time, clock(), "this machine", margins)


def refuse_long_requests(storage: StorageOptions, margins: SafetyMargins) -> None:
    """Refuse timeouts by which a delete could outlive the lease that it was sent under."""
    # A request on a connection that the server had closed is sent once more.
    seconds = 2 * (storage.connect_timeout_seconds + storage.request_timeout_seconds)
    if timedelta(seconds=seconds) > margins.longest_request:
        allowed = margins.longest_request.total_seconds() / 2
        raise ConfigError(
            f"The storage options connect_timeout_seconds ({storage.connect_timeout_seconds:g}) and "
            f"request_timeout_seconds ({storage.request_timeout_seconds:g}) are more than {allowed:g} together: a delete "
            "could take effect after the lease that it was sent under. Nothing was touched. Set them lower.",
            kind="long-requests",
        )


def refuse_lost_rows(planned: int, counted: int, noun: str) -> None:
    """Refuse to go on after a round in which a row got no outcome, or two."""
    if counted != planned:
        raise UnsafeToSweepError(
            f"{planned} {noun}s were to be deleted, {counted} have an outcome. No further {noun} was deleted.",
            kind="not-conserved",
        )


def refuse_executor_clocks(example: str) -> None:
    """Refuse to go on where no executor's clock is the store's; `example` says how one differs."""
    raise UnsafeToSweepError(
        f"No executor could delete in time: {example}. Nothing more was deleted.",
        kind="clock-skew",
    )


def refuse_more_rounds(failed: Tally, why: str, left: int) -> None:
    """Refuse to go on where what the store does not delete takes all the time, and nothing else is reached."""
    raise StorageError(
        f"{failed} could not be deleted ({why}), round after round, and the time to delete was over before {left} others "
        "were tried. Nothing was deleted in these rounds. Look for what keeps the objects: a missing right, a retention "
        "policy, a lock on objects, or a store that asks to slow down.",
        kind="refused-deletes",
    )


def too_slow(
    repository: str,
    took: timedelta,
    valid_for: timedelta,
    steps: Sequence[Phase],
    advice: Mapping[str, str],
) -> UnsafeToSweepError:
    """The error of a sweep whose re-read leaves no time to delete; it names the slowest of its steps, with advice on it."""
    known = [step for step in steps if step.name in advice]
    slowest = max(known, key=lambda step: step.seconds)
    took = timedelta(seconds=round(took.total_seconds()))
    return UnsafeToSweepError(
        f"Reading again what is live in {repository} took {format_duration(took)}, and what it found may be "
        f"deleted until {format_duration(valid_for)} after its start: that was too late, and nothing was deleted. The "
        f"slowest step was '{slowest.name}' ({slowest.seconds:.0f} s). {advice[slowest.name]}",
        kind="verification-too-slow",
    )
