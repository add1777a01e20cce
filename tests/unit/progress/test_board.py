"""The board adds up what tasks report, and trouble with the display is no trouble of the run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesweep.progress import Counts, Display, ProgressBoard, ProgressSnapshot
from lakesweep.progress.task_reports import Report, process_id


class Kept:
    """A sink that keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[ProgressSnapshot] = []

    def show(self, snapshot: ProgressSnapshot) -> None:
        self.shown.append(snapshot)


class Broken:
    """A sink that can't show anything."""

    calls = 0

    def show(self, snapshot: ProgressSnapshot) -> None:
        self.calls += 1
        raise OSError("the terminal is gone")


class Delivered:
    """A mailbox with reports in it."""

    channel = None

    def __init__(self, *reports: Report) -> None:
        self.reports = list(reports)

    def take(self) -> Iterator[Report]:
        raise OSError("out of reach")

    def finish(self) -> Iterator[Report]:
        yield from self.reports


def report(scatter: str, task: str, process: str = "else@where", **counts: int) -> Report:
    return Report(scatter, task, process, Counts(**counts))


def test_a_later_report_takes_the_place_of_an_earlier_one() -> None:
    """A lost report changes nothing: the next one says all."""
    board = ProgressBoard("repo")
    with board.phase("list", "objects") as phase:
        scatter = board.scatter_begins(None, None)
        mailbox = Delivered(
            report(scatter, "a", objects=5, size_bytes=50),
            report(scatter, "a", objects=7, size_bytes=70),
            report(scatter, "b", objects=1, size_bytes=10),
            report("another run's", "c", objects=1000),
        )
        with board.listening(mailbox):  # type: ignore[arg-type]
            pass
        seen = phase.snapshot()
        assert (seen.items, seen.size_bytes, seen.total) == (8, 80, None)
        phase.end(9, 90)
    ended = board.snapshot().phases[0]
    assert (ended.items, ended.size_bytes, ended.is_running) == (9, 90, False)


def test_totals_of_scatters_add_up_as_long_as_all_are_known() -> None:
    """One scatter of unknown size, and no total is told."""
    board = ProgressBoard("repo")
    with board.phase("judge", "names") as phase:
        board.scatter_begins(100, None)
        board.scatter_begins(20, 7)
        assert (phase.total, phase.total_bytes) == (120, None)
        board.scatter_begins(None, 7)
        assert phase.total is None


def test_a_sink_that_fails_is_left_out_and_the_others_go_on() -> None:
    """The run never hears of it."""
    broken, kept = Broken(), Kept()
    board = ProgressBoard("repo", Display([broken, kept]))
    with board.phase("list", "objects"):
        pass
    with board.phase("judge", "names"):
        pass
    assert broken.calls == 1
    assert [phase.name for phase in kept.shown[-1].phases] == ["list", "judge"]
    assert kept.shown[-1].running is None


def test_a_phase_that_fails_keeps_what_it_had_counted() -> None:
    """And is over."""
    board = ProgressBoard("repo")

    def fail() -> None:
        with board.phase("list", "objects") as phase:
            phase.advance(5, 50)
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    (seen,) = board.snapshot().phases
    assert (seen.items, seen.size_bytes, seen.is_running) == (5, 50, False)


def test_retries_of_this_process_are_counted_once() -> None:
    """A task in this process reports what this process counts already."""
    board = ProgressBoard("repo")
    mailbox = Delivered(
        report("s", "a", retries=3, throttled=2),
        report("s", "b", process=process_id(), retries=40),
    )
    with board.listening(mailbox):  # type: ignore[arg-type]
        pass
    assert (board.retries().retries, board.retries().throttled) == (3, 2)
