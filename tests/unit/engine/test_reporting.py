"""An engine whose tasks report gives the same rows as one whose tasks do not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakesweep.collector.report_files import FileMailbox
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.engine.cells import single_cell
from lakesweep.engine.reporting import ReportingEngine
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter
from lakesweep.progress import ProgressBoard, advance
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

SCHEMA = pa.schema([pa.field("n", pa.int64())])


class Elsewhere(InProcessEngine):
    """An engine of whose tasks nobody knows where they run."""

    @property
    def process_tree(self) -> str:
        return ""

    def collect(self, scatter: Scatter) -> pa.Table:
        batches = [b for items in scatter.tasks_of_items() for b in scatter.work(iter(items))]
        return pa.Table.from_batches(batches, schema=scatter.schema)


def numbers(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for item in items:
        advance(item, 10 * item)
        yield pa.RecordBatch.from_pylist([{"n": item}], schema=SCHEMA)


def cells(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for batch in numbers(items):
        yield single_cell(1, 0, batch)


def both(left: pa.Table, right: pa.Table) -> pa.Table:
    return pa.table({"n": [left.num_rows + right.num_rows]}, schema=SCHEMA)


@pytest.fixture
def target() -> Target:
    return Target(Location.parse("mem://reports/ns"), StorageOptions())


def test_objects_and_bytes_of_tasks_reach_the_phase() -> None:
    """And the rows are those of the work."""
    board = ProgressBoard("repo")
    engine = ReportingEngine(InProcessEngine(), board, lambda: None)
    with board.phase("list", "objects") as phase:
        rows = engine.collect(Scatter([1, 2, 3], numbers, SCHEMA, 2, objects=6, size_bytes=60))
        seen = phase.snapshot()
    assert sorted(rows.column("n").to_pylist()) == [1, 2, 3]
    assert (seen.items, seen.size_bytes, seen.total, seen.total_bytes) == (6, 60, 6, 60)


def test_both_sides_of_a_meeting_report() -> None:
    """A total is told where both sides know theirs."""
    board = ProgressBoard("repo")
    engine = ReportingEngine(InProcessEngine(), board, lambda: None)
    with board.phase("judge", "names") as phase:
        left = Scatter([1, 2], cells, CELL_SCHEMA, 1, objects=3)
        right = Scatter([4], cells, CELL_SCHEMA, 1, objects=4)
        met = engine.meet(left, right, both, SCHEMA, 1)
        seen = phase.snapshot()
    assert met.column("n").to_pylist() == [3]
    assert (seen.items, seen.total) == (7, 7)


def test_tasks_on_other_machines_leave_files_that_go_again(target: Target) -> None:
    """Files of nobody else are touched, and a damaged one stops nothing."""
    store = target.open()
    store.write("reports/mine.json", b"a user's")
    board = ProgressBoard("repo")
    mailboxes: list[FileMailbox] = []

    def mailbox() -> FileMailbox:
        mailboxes.append(FileMailbox(target, "reports/", every_seconds=0.0))
        return mailboxes[-1]

    def damaging(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
        folder = mailboxes[-1].channel.folder
        yield from numbers(items)
        assert [report.counts.objects for report in mailboxes[-1].take()] == [4]
        store.write(f"{folder}x.json", b"{")

    engine = ReportingEngine(Elsewhere(), board, mailbox)
    with board.phase("list", "objects") as phase:
        engine.collect(Scatter([1, 2, 3], numbers, SCHEMA, 2))
        assert (phase.snapshot().items, phase.snapshot().size_bytes) == (6, 60)
        rows = engine.collect(Scatter([4], damaging, SCHEMA, 1))
    assert rows.column("n").to_pylist() == [4]
    assert list(store.keys("reports/")) == ["reports/mine.json"]


def test_a_quick_task_elsewhere_costs_no_request(target: Target) -> None:
    """Reports are seconds apart, and one that comes after them is not worth a file."""
    board = ProgressBoard("repo")
    written: list[str] = []
    engine = ReportingEngine(Elsewhere(), board, lambda: FileMailbox(target, "quick/"))
    with board.phase("list", "objects") as phase:
        engine.collect(Scatter([1], numbers, SCHEMA, 1))
        written += target.open().keys("quick/")
        assert phase.snapshot().items == 0
    assert written == []


def test_without_a_mailbox_nothing_is_reported() -> None:
    """The rows are the same."""
    board = ProgressBoard("repo")
    engine = ReportingEngine(Elsewhere(), board, lambda: None)
    rows = engine.collect(Scatter([5], numbers, SCHEMA, 1))
    assert json.dumps(rows.to_pylist()) == '[{"n": 5}]'
