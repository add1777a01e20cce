"""Retries: bounded, jittered, and only of what may work the next time."""

from __future__ import annotations

from lakesweep.errors import StorageDeniedError, StorageError, ThrottledError
from lakesweep.storage import StorageOptions
from lakesweep.storage.retry import Patience
from lakesweep.storage.translate import TRANSIENT

BROKEN = StorageError("broken", kind=TRANSIENT)


def patience(options: StorageOptions, pauses: list[float], *, share: float = 1.0) -> Patience:
    clock = iter(range(100_000))
    return Patience(
        options, clock=lambda: float(next(clock)), sleep=pauses.append, random=lambda: share
    )


def test_transient_errors_are_retried_so_many_times() -> None:
    """The count bounds them; pauses double."""
    pauses: list[float] = []
    tries = patience(StorageOptions(transient_retries=4), pauses)
    assert [tries.try_again(BROKEN) for _ in range(6)] == [True] * 4 + [False] * 2
    assert pauses == [0.1, 0.2, 0.4, 0.8]


def test_pauses_are_jittered_and_have_a_longest() -> None:
    """Full jitter, and never more than ten seconds."""
    pauses: list[float] = []
    tries = patience(StorageOptions(transient_retries=30), pauses, share=0.5)
    for _ in range(30):
        tries.try_again(BROKEN)
    assert max(pauses) == 5.0


def test_refusals_are_not_retried() -> None:
    """Denied stays denied."""
    tries = patience(StorageOptions(), [])
    assert not tries.try_again(StorageDeniedError("no"))
    assert not tries.try_again(StorageError("no"))


def test_throttling_is_bounded_by_time_and_costs_no_retries() -> None:
    """Throttled is not failed."""
    tries = patience(StorageOptions(transient_retries=1, throttle_patience_seconds=10), [])
    waited = sum(tries.try_again(ThrottledError("slow down")) for _ in range(50))
    assert waited == 10
    assert tries.try_again(BROKEN)
    tries.renew()
    assert tries.try_again(ThrottledError("slow down"))


def test_no_pause_is_longer_than_the_time_left() -> None:
    """Waiting ends with the permission, and without any left there is no other try."""
    pauses: list[float] = []
    left = [0.05, 7.0, 0.0]
    tries = patience(StorageOptions(transient_retries=9), pauses)
    tries.seconds_left = lambda: left.pop(0)
    assert tries.try_again(BROKEN)
    assert tries.try_again(ThrottledError("slow down"))
    assert not tries.try_again(ThrottledError("slow down"))
    assert pauses == [0.05, 0.1]
