"""Congestion control: slows down where it is told to, and recovers by itself."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakesweep.storage.congestion import CongestionControl


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_throttling_halves_one_prefix_and_leaves_the_others() -> None:
    """A hot prefix does not slow the store."""
    control = CongestionControl(64, FakeClock())
    before = control.limit("cold/")
    control.throttled("hot/")
    assert control.limit("hot/") == before // 2
    assert control.limit("cold/") == before


def test_success_grows_the_window_by_about_one_a_round_up_to_the_ceiling() -> None:
    """Additive increase."""
    control = CongestionControl(20, FakeClock())
    control.throttled("p/")
    low = control.limit("p/")
    for _ in range(low):
        control.succeeded("p/")
    assert low <= control.limit("p/") <= low + 1
    for _ in range(1000):
        control.succeeded("p/")
    assert control.limit("p/") == 20


def test_there_is_always_room_for_one() -> None:
    """However often it is throttled, a prefix is never shut."""
    control = CongestionControl(64, FakeClock())
    for _ in range(50):
        control.throttled("p/")
    assert control.limit("p/") == 1
    with control.slot("p/"):
        pass


def test_a_prefix_at_its_floor_slows_the_store() -> None:
    """Throttling that one prefix can't cure is the store's."""
    control = CongestionControl(64, FakeClock())
    for _ in range(12):
        control.throttled("p/")
    assert control.limit("fresh/") < 16


def test_requests_under_way_do_not_cut_twice() -> None:
    """One overload, reported by many requests at once, is one cut."""
    control = CongestionControl(64, lambda: 10.0)
    before = control.limit("p/")
    for _ in range(10):
        control.throttled("p/")
    assert control.limit("p/") == before // 2


def test_no_more_than_the_limit_is_in_flight() -> None:
    """Slots are held to the window, whoever asks."""
    control = CongestionControl(4)
    lock = threading.Lock()
    running = most = 0

    def work(number: int) -> None:
        nonlocal running, most
        with control.slot(f"p{number % 2}/"):
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.001)
            with lock:
                running -= 1

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(work, range(200)))
    assert 1 < most <= 4


def test_a_slot_is_given_back_after_an_error() -> None:
    """Failing requests do not use the store up."""
    control = CongestionControl(1)
    for _ in range(3):
        with pytest.raises(RuntimeError), control.slot("p/"):
            raise RuntimeError
    with control.slot("p/"):
        pass


def test_many_prefixes_are_forgotten_again() -> None:
    """Memory does not grow with the number of prefixes."""
    control = CongestionControl(8)
    for number in range(5000):
        with control.slot(f"{number}/"):
            pass
    assert len(control._prefixes) <= 1024
