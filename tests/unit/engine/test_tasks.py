"""How items are dealt out to tasks, and how an engine that takes long to start is waited for."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakesweep.engine.late import LateEngine
from lakesweep.engine.tasks import Engine, Scatter, deal_evenly
from lakesweep.errors import ConfigError
from lakesweep_testing.inprocess import InProcessEngine

_SCHEMA = pa.schema([pa.field("item", pa.int64())])


def _together(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    """One row per task: the sum of its items."""
    yield pa.RecordBatch.from_pydict({"item": [sum(items)]}, schema=_SCHEMA)


def test_items_go_to_the_tasks_they_are_given() -> None:
    """What belongs together is worked on together."""
    scatter = Scatter([1, 10, 2, 20], _together, _SCHEMA, 2, task_of=[1, 0, 1, 0])
    assert InProcessEngine().collect(scatter).column("item").to_pylist() == [30, 3]


def test_items_without_a_task_are_dealt_in_turn() -> None:
    """The first to the first task, the second to the second, and round again."""
    assert Scatter([1, 2, 3], _together, _SCHEMA, 2).dealt() == [0, 1, 0]


@pytest.mark.parametrize("task_of", [[0], [0, 2], [0, -1]])
def test_an_item_without_a_proper_task_is_refused(task_of: list[int]) -> None:
    """It would never be worked on."""
    with pytest.raises(ValueError, match="item"):
        Scatter([1, 2], _together, _SCHEMA, 2, task_of=task_of)


def test_weights_are_dealt_evenly() -> None:
    """No task gets much more than another, and the heaviest item none beside it that could go elsewhere."""
    weights = [100, 1, 1, 50, 50, 1, 1]
    task_of = deal_evenly(weights, 2)
    laden = [sum(w for w, t in zip(weights, task_of, strict=True) if t == n) for n in (0, 1)]
    assert sorted(laden) == [102, 102]
    assert deal_evenly([], 3) == []


def test_a_late_engine_begins_beside_its_caller() -> None:
    """Inside its block `begin` starts it once, in another thread, and the first use waits for it."""
    threads: list[threading.Thread] = []

    def start() -> Engine:
        threads.append(threading.current_thread())
        return InProcessEngine(slots=3)

    with LateEngine(start) as engine:
        engine.begin()
        engine.begin()
        assert engine.slots == 3
        engine.begin()
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_leaving_the_block_waits_for_a_start_under_way() -> None:
    """What is written after the block can't be caught between the start's own doings."""
    going_on, done = threading.Event(), threading.Event()

    def start() -> Engine:
        going_on.wait(5)
        done.set()
        return InProcessEngine()

    with LateEngine(start) as engine:
        engine.begin()
        going_on.set()
    assert done.is_set()


def test_a_failed_start_is_told_at_the_first_use() -> None:
    """An error in a thread is not lost."""

    def start() -> Engine:
        raise ConfigError("no Java")

    with LateEngine(start) as engine:
        engine.begin()
        with pytest.raises(ConfigError, match="no Java"):
            _ = engine.slots


def test_outside_its_block_a_late_engine_does_not_begin() -> None:
    """Nobody would wait for the thread."""
    started: list[Engine] = []

    def start() -> Engine:
        started.append(InProcessEngine())
        return started[0]

    engine = LateEngine(start)
    engine.begin()
    assert started == []
    assert engine.slots == 2
