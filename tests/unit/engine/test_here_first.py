"""Small work is done in this process; Spark is started for large work, and gets all that comes after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pytest

from lakesweep.engine import here_first
from lakesweep.engine.here_first import HereFirst
from lakesweep.engine.process_tree import VARIABLE
from lakesweep.engine.tasks import CELL_SCHEMA, Engine, Scatter
from lakesweep.errors import StorageError
from lakesweep_testing.inprocess import InProcessEngine

SCHEMA = pa.schema([pa.field("item", pa.int64())])


class Large(InProcessEngine):
    """Stands for Spark, and notes what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[list[int]] = []
        self.met = 0

    def collect(self, scatter: Scatter) -> pa.Table:
        self.given.append(list(scatter.items))
        return super().collect(scatter)

    def meet(self, *sides: object, **named: object) -> pa.Table:
        self.met += 1
        return pa.table({"item": [1]}, schema=SCHEMA)


@pytest.fixture
def large() -> Large:
    return Large()


@pytest.fixture
def engine(large: Large) -> Iterator[HereFirst]:
    with HereFirst(lambda: large, seconds=10.0) as made:
        yield made


def as_rows(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"item": list(items)}, schema=SCHEMA)


def as_cells(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    rows = [{"partition": item % 2, "kind": 1, "blob": b"x"} for item in items]
    yield pa.RecordBatch.from_pylist(rows, schema=CELL_SCHEMA)


def count_both(ours: pa.Table, theirs: pa.Table) -> pa.Table:
    return pa.table({"item": [10 * ours.num_rows + theirs.num_rows]}, schema=SCHEMA)


def rows_of(engine: Engine, seconds: float | None, tasks: int = 3) -> list[int]:
    scatter = Scatter(list(range(7)), as_rows, SCHEMA, tasks, seconds=seconds)
    return sorted(engine.collect(scatter).column("item").to_pylist())


def let_tasks_take(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Whatever reads the clock twice sees so many seconds between."""
    now = count(0.0, seconds)
    monkeypatch.setattr(here_first.time, "monotonic", lambda: next(now))


def test_small_work_starts_nothing(large: Large, engine: HereFirst) -> None:
    """Every item is done once, in this process."""
    assert rows_of(engine, 4.0) == list(range(7))
    assert rows_of(engine, 4.0) == list(range(7))
    assert large.given == []


def test_what_is_too_much_together_goes_to_spark_and_all_after_it(
    large: Large, engine: HereFirst, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small scatters are large work; and where Spark runs, it may as well do the rest."""
    let_tasks_take(monkeypatch, 2.0)
    rows_of(engine, 6.0)
    assert rows_of(engine, 6.0) == list(range(7))
    rows_of(engine, 0.1)
    assert [len(items) for items in large.given] == [7, 7]


def test_of_work_of_unknown_size_spark_does_what_is_left(
    large: Large, engine: HereFirst, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing may turn out to be long; each item is still done once."""
    let_tasks_take(monkeypatch, 6.0)
    assert rows_of(engine, None) == list(range(7))
    assert large.given == [[2, 5]], "two tasks of six seconds each were done here"


def test_meetings_are_held_where_both_sides_are_small(
    large: Large, engine: HereFirst, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All partitions, and what both sides cost together counts; reading them and the meetings take time."""
    let_tasks_take(monkeypatch, 1.0)
    sides = [Scatter(list(range(n)), as_cells, CELL_SCHEMA, 2, seconds=3.0) for n in (4, 6)]
    met = engine.meet(*sides, count_both, SCHEMA, 2)
    assert met.column("item").to_pylist() == [23, 23]
    assert large.met == 0
    assert engine.seconds_here == 10.0 - 4 * 1.0 - 1.0
    engine.meet(*sides, count_both, SCHEMA, 2)
    assert large.met == 1


def test_a_meeting_of_unknown_size_is_spark_s(large: Large, engine: HereFirst) -> None:
    """Both sides would be in this process's memory."""
    small = Scatter([1], as_cells, CELL_SCHEMA, 1, seconds=1.0)
    unknown = Scatter([1], as_cells, CELL_SCHEMA, 1)
    engine.meet(small, unknown, count_both, SCHEMA, 1)
    assert large.met == 1


def test_a_lease_tells_of_processes_before_they_are_there(engine: HereFirst) -> None:
    """It is written before a delete is sent, and that may be what starts Spark."""
    assert engine.process_tree == os.environ[VARIABLE]


def test_an_error_of_the_work_is_its_own(engine: HereFirst) -> None:
    """As from any engine."""

    def fails(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
        raise StorageError("away")

    with pytest.raises(StorageError, match="away"):
        engine.collect(Scatter([1], fails, SCHEMA, 1, seconds=0.0))


@pytest.fixture
def careful(large: Large) -> Iterator[HereFirst]:
    """As runs on repositories have it: only what tells its cost is done here."""
    with HereFirst(lambda: large, seconds=10.0, takes_unknown=False) as made:
        yield made


def test_work_of_unknown_cost_is_spark_s_from_its_first_task(
    large: Large, careful: HereFirst
) -> None:
    """A single task may hold millions of objects."""
    assert rows_of(careful, 4.0) == list(range(7))
    assert large.given == []
    assert rows_of(careful, None) == list(range(7))
    rows_of(careful, 0.1)
    assert [len(items) for items in large.given] == [7, 7]
    assert careful.seconds_here == 0.0


@pytest.mark.parametrize(
    ("seconds", "is_begun"), [(0.0, False), (9.0, False), (10.0, True), (None, True)]
)
def test_spark_starts_ahead_of_work_that_will_be_its_own(
    seconds: float | None, is_begun: bool
) -> None:
    """And of small work it is not started: leaving the block would wait for that."""
    started: list[Large] = []

    def start() -> Large:
        started.append(Large())
        return started[-1]

    with HereFirst(start, seconds=10.0, takes_unknown=False) as engine:
        engine.begin(seconds)
        assert engine.seconds_here == (0.0 if is_begun else 10.0)
        rows_of(engine, 0.1)
        assert engine.slots > 0
    assert [large.given for large in started] == ([[[0, 1, 2, 3, 4, 5, 6]]] if is_begun else [])


def test_where_unknown_work_is_begun_here_its_announcement_starts_nothing(
    large: Large, engine: HereFirst
) -> None:
    """As runs on a Nessie catalog have it."""
    engine.begin()
    assert rows_of(engine, None) == list(range(7))
    assert large.given == []


def test_work_is_charged_by_what_it_took(
    careful: HereFirst, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Less than was told leaves more for other work, and more than was told leaves none."""
    now = iter([0.0, 2.0, 100.0, 200.0])
    monkeypatch.setattr(here_first.time, "monotonic", lambda: next(now))
    scatter = Scatter([1], as_rows, SCHEMA, 1, seconds=5.0)
    careful.collect(scatter)
    assert careful.seconds_here == 8.0
    careful.collect(scatter)
    assert careful.seconds_here == 0.0
