"""Work in parallel behind plain iterators."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator

import pytest

from lakesweep.storage.parallel import Crew, merged_streams, ordered_parallel


def test_results_keep_the_items_order() -> None:
    """Whoever finishes first, the first item comes first."""
    assert list(ordered_parallel(lambda item: item * 2, range(100), 8)) == [
        (n, 2 * n) for n in range(100)
    ]


def test_an_error_in_one_item_is_raised() -> None:
    """It is not passed over."""
    with pytest.raises(ZeroDivisionError):
        list(ordered_parallel(lambda item: 1 // item, [3, 2, 1, 0], 2))


def test_a_crew_does_every_item_once_and_keeps_their_order() -> None:
    """Also when there are fewer items than threads, or none; and it can be asked again."""
    done: list[int] = []

    def work(item: int) -> int:
        done.append(item)
        return item * 2

    with Crew(8) as crew:
        for count in (1000, 3, 0):
            done.clear()
            assert crew.each(work, range(count)) == [2 * n for n in range(count)]
            assert sorted(done) == list(range(count))


def test_a_crew_stops_at_an_error() -> None:
    """It is raised, and what nobody has begun stays undone."""
    done: list[int] = []

    def work(item: int) -> None:
        if item == 5:
            raise RuntimeError("the fifth")
        done.append(item)

    with Crew(2) as crew, pytest.raises(RuntimeError, match="the fifth"):
        crew.each(work, range(10_000))
    assert len(done) < 10_000 - 1


def test_streams_are_merged_whole() -> None:
    """Every result of every source comes once."""
    sources = [lambda first=first: iter(range(first, first + 10)) for first in range(0, 1000, 10)]
    assert sorted(merged_streams(sources, 8, 4)) == list(range(1000))
    assert list(merged_streams([], 8, 4)) == []


def test_one_broken_stream_breaks_the_whole() -> None:
    """A merged listing never ends early without a word."""

    def broken() -> Iterator[int]:
        yield 1
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        list(merged_streams([lambda: iter(range(5)), broken], 2, 1))


def test_stopping_early_stops_the_threads() -> None:
    """No thread is left reading for nobody."""

    def endless() -> Iterator[int]:
        while True:
            yield 1

    stream = merged_streams([endless, endless], 2, 2)
    next(stream)
    readers = [thread for thread in threading.enumerate() if thread.name == "lakesweep-list"]
    assert readers
    stream.close()
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive()


def _left_within_seconds(stream: Generator[object, None, None]) -> bool:
    """Whether a reader that leaves is free, though threads of the stream are busy."""
    leaving = threading.Thread(target=stream.close, daemon=True)
    leaving.start()
    leaving.join(30)
    return not leaving.is_alive()


def test_who_leaves_early_waits_for_no_thread() -> None:
    """The garbage collector may be who leaves, inside of a lock that a thread needs to end: both would wait for ever."""
    go_on = threading.Event()

    def slow(number: int) -> int:
        if number:
            go_on.wait(90)
        return number

    def slow_stream() -> Iterator[int]:
        yield 1
        go_on.wait(90)

    results = ordered_parallel(slow, [0, 1, 2, 3, 4], 2)
    merged = merged_streams([slow_stream], 1, 1)
    try:
        for stream in (results, merged):
            next(stream)
            assert _left_within_seconds(stream)
    finally:
        go_on.set()
