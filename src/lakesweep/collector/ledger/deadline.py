"""Until when a chunk may be deleted, told by the store's clock, whatever the executor's own clock says."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakesweep.domain.durations import format_duration, format_time
from lakesweep.storage import ObjectStore

# Stores that tell whole seconds tell up to one too few.
_STORE_TICK = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment by two clocks of this machine: its wall clock, and its monotonic clock (`counted`)."""

    wall: datetime
    counted: float

    def seconds_since(self, earlier: Moment) -> float:
        """Seconds since then, by the clock that says more: the wall clock may be set back, the monotonic one stops in sleep."""
        told = (self.wall - earlier.wall).total_seconds()
        return max(told, self.counted - earlier.counted)


def this_moment() -> Moment:
    """The present moment by this machine's wall clock and monotonic clock."""
    return Moment(datetime.now(UTC), time.monotonic())


@dataclass(frozen=True, slots=True)
class Deadline:
    """Until when a chunk may be deleted, by the store's clock, with one reading of that clock to count on from."""

    not_after: datetime
    store_time: datetime  # of a write that began at `begun`
    begun: Moment

    def seconds_left(self) -> float:
        """How many seconds deleting is still allowed: never more than the store's own clock would say."""
        passed = this_moment().seconds_since(self.begun)
        return (self.not_after - self.store_time - _STORE_TICK).total_seconds() - passed


def write_and_time(
    store: ObjectStore, key: str, data: bytes, not_after: datetime, tolerance: timedelta
) -> tuple[Deadline | None, str]:
    """Write a file and read the store's clock off its time; returns the deadline, or why there can be none."""
    begun = this_moment()
    info = store.write(key, data)
    store_time = info.last_modified or store.stat(key).last_modified
    if store_time is None:
        return (
            None,
            "the store gives no time of modification, so nobody knows until when deletes are allowed",
        )
    ended = this_moment()
    # The write took some time, and within it the store may have read its clock at any moment.
    skew = max(store_time - ended.wall, begun.wall - store_time - _STORE_TICK)
    if skew > tolerance:
        return None, (
            f"this executor's clock says {format_time(ended.wall)}, the object store's {format_time(store_time)}: more "
            f"than {format_duration(tolerance)} apart. Set the clocks right (NTP)"
        )
    return Deadline(not_after, store_time, begun), ""
