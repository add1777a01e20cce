"""Requests that are done together are answered each for itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from lakesweep.lake.api import batches
from lakesweep.lake.api.batches import Batches


class _Work:
    """Doubles numbers; the first batch waits until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.sizes: list[int] = []

    def run(self, items: Sequence[int]) -> list[int | Exception]:
        if not self.sizes:
            self.sizes.append(len(items))
            assert self.go.wait(60)
        else:
            self.sizes.append(len(items))
        if 13 in items:
            raise LookupError("thirteen")
        return [ValueError(str(item)) if item < 0 else 2 * item for item in items]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_THREADS", 1)


async def _first_then(work: _Work, *items: int) -> list[int | BaseException]:
    """One item that keeps the thread busy, and those that arrive meanwhile."""
    shared: Batches[int, int] = Batches(work.run)
    tasks = [asyncio.create_task(shared.run(1))]
    while not work.sizes:
        await asyncio.sleep(0.001)
    tasks += [asyncio.create_task(shared.run(item)) for item in items]
    await asyncio.sleep(0)
    if 99 in items:
        tasks[1 + items.index(99)].cancel()
    work.go.set()
    async with asyncio.timeout(60):
        return await asyncio.gather(*tasks, return_exceptions=True)


def test_what_arrives_meanwhile_is_done_together() -> None:
    """In as few batches as there may be, and each gets its own answer."""
    work = _Work()
    numbers = range(2, 102)
    assert asyncio.run(_first_then(work, *[n for n in numbers if n not in (13, 99)])) == [
        2 * n for n in (1, *numbers) if n not in (13, 99)
    ]
    assert work.sizes == [1, 64, 34]


def test_one_that_fails_is_told_so_alone() -> None:
    """The others have their answers."""
    one, bad, good = asyncio.run(_first_then(_Work(), -2, 3))
    assert (one, good) == (2, 6)
    assert isinstance(bad, ValueError)


def test_nobody_waits_for_ever_when_a_batch_breaks() -> None:
    """All of it are told, and the next batch is done."""
    one, *others = asyncio.run(_first_then(_Work(), 13, 4))
    assert one == 2
    assert [type(other) for other in others] == [LookupError, LookupError]


def test_client_that_went_away_disturbs_nobody() -> None:
    """Its part of the batch may be done; the others are answered."""
    one, gone, other = asyncio.run(_first_then(_Work(), 99, 5))
    assert (one, other) == (2, 10)
    assert isinstance(gone, asyncio.CancelledError)
