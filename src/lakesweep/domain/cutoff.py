"""How old an object must be before it may go, and the margins that cover each race."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakesweep.domain.durations import format_duration, format_time
from lakesweep.errors import ConfigError, UnsafeToSweepError

__all__ = [
    "SAFETY_FULL",
    "Cutoff",
    "SafetyMargins",
    "assert_clocks_agree",
    "decide_cutoff",
    "is_old_enough",
]


_BEGINNING = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SafetyMargins:
    """All timing margins in one place; each field names the race it covers."""

    least_age: timedelta
    """An upload whose address was issued may be linked for a day, whatever an old server answers."""
    clock_skew: timedelta
    """The store's clock, the server's and ours may differ by this much; more is refused."""
    delete_not_after: timedelta
    """A batch is deleted within this time from the start of the re-read that authorised it, or not at all."""
    longest_not_after: timedelta = timedelta(hours=1)
    """Where the re-read itself takes long, its batches may be deleted for twice that time, and at most for this."""
    longest_request: timedelta = timedelta(minutes=3)
    """A delete that was sent in time may still take effect this much later."""
    lease_life: timedelta = timedelta(minutes=15)
    """A lease runs out this long after its last renewal. Every re-read begins with one, so whoever takes the lease over
    finds all that was authorised under it run out and answered."""

    def __post_init__(self) -> None:
        if self.lease_life <= self.delete_not_after + self.longest_request:
            raise ValueError("a lease could be taken over while its owner's deletes are under way")

    def authority_after(self, reading: timedelta) -> timedelta:
        """How long, from its start, a re-read of this length lets batches be deleted."""
        return max(self.delete_not_after, min(2 * reading, self.longest_not_after))

    @property
    def longest_authority(self) -> timedelta:
        """From the start of a re-read, when no delete that it authorised takes effect any more, by any clock."""
        longest = max(self.delete_not_after, self.longest_not_after)
        return longest + self.longest_request + self.clock_skew

    def lease_life_for(self, authority: timedelta) -> timedelta:
        """The life of a lease under which batches are authorised for this long: as much longer as the shortest has."""
        return self.lease_life + max(authority - self.delete_not_after, timedelta(0))


SAFETY_FULL = SafetyMargins(
    least_age=timedelta(hours=24),
    clock_skew=timedelta(minutes=10),
    delete_not_after=timedelta(minutes=10),
)


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Objects written before `at` (exclusive) are old enough; all others, and those without a time, are young."""

    reference_time: datetime
    min_age: timedelta
    is_lowered: bool = False  # below what is safe by the full margins, because the user said so

    def __post_init__(self) -> None:
        if self.min_age > self.reference_time - _BEGINNING:
            raise ConfigError(
                f"A minimum age of {format_duration(self.min_age)} reaches back to before the calendar begins. Nothing was "
                "touched. Give a shorter one.",
                kind="bad-min-age",
            )

    @property
    def at(self) -> datetime:
        """The store's time before which an object must have been written."""
        return self.reference_time - self.min_age

    def __str__(self) -> str:
        return f"{format_time(self.at)} (older than {format_duration(self.min_age)})"


def is_old_enough(last_modified: datetime | None, cutoff: datetime) -> bool:
    """Whether the age rule lets an object go: one written before the cut-off does. An unknown age counts as young."""
    return last_modified is not None and last_modified < cutoff


def decide_cutoff(
    store_time: datetime,
    server_grace_period: timedelta,
    *,
    requested_min_age: timedelta | None = None,
    allow_lower: bool = False,
    margins: SafetyMargins = SAFETY_FULL,
) -> Cutoff:
    """Fix the cut-off before anything is read, on the store's clock.

    The minimum age is the longest of the server's grace period and `margins.least_age`, plus the clock skew we
    tolerate. A user may ask for more; for less only with `allow_lower`.
    """
    least = max(server_grace_period, margins.least_age) + margins.clock_skew
    if requested_min_age is None:
        return Cutoff(store_time, least)
    if requested_min_age < timedelta(0):
        raise ConfigError("The minimum age can't be negative.", kind="bad-min-age")
    if requested_min_age < least and not allow_lower:
        raise ConfigError(
            f"A minimum age of {format_duration(requested_min_age)} is below the safe {format_duration(least)}: "
            "objects that wait to be linked could be deleted. Nothing was touched. Leave --min-age out, or give "
            "--unsafe-min-age with the repository's name if nobody writes to it.",
            kind="min-age-too-low",
        )
    safe = max(server_grace_period, SAFETY_FULL.least_age) + SAFETY_FULL.clock_skew
    return Cutoff(store_time, requested_min_age, is_lowered=requested_min_age < safe)


def assert_clocks_agree(
    store_time: datetime,
    other: datetime,
    whose: str,
    margins: SafetyMargins = SAFETY_FULL,
    *,
    than: str = "the object store",
) -> timedelta:
    """How far `other` is ahead of the store's clock, which tells all ages; refused beyond the tolerated skew."""
    skew = other - store_time
    if abs(skew) > margins.clock_skew:
        raise UnsafeToSweepError(
            f"The clock of {whose} says {format_time(other)}, that of {than} {format_time(store_time)}: "
            f"{format_duration(abs(skew))} apart, more than the {format_duration(margins.clock_skew)} that ages allow "
            "for. Nothing was deleted. Set the clocks right (NTP) and run again.",
            kind="clock-skew",
        )
    return skew
