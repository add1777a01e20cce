"""Phases are timed and told; an engine that starts late starts once, and only if it is needed."""

from __future__ import annotations

import io
import logging

import pytest

from lakesweep.collector.phases import Phases
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.late import LateEngine
from lakesweep.engine.tasks import Engine
from lakesweep.progress import Display
from lakesweep.progress.terminal import TerminalSink
from lakesweep_testing.inprocess import InProcessEngine


def test_a_phase_ends_with_one_line_of_its_numbers(caplog: pytest.LogCaptureFixture) -> None:
    """Where nobody watches bars."""
    caplog.set_level(logging.INFO)
    phases = Phases("repo")
    with phases.phase("list") as step:
        step.items, step.said = 3, "3 objects"
    (line,) = caplog.messages
    assert line.startswith("repo#repo list: 3 objects (")
    assert [(p.name, p.items) for p in phases.done] == [("list", 3)]


def test_a_terminal_takes_the_place_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    """It shows the numbers of each phase when it ends, nested ones too."""
    caplog.set_level(logging.INFO)
    shown = io.StringIO()
    phases = Phases("repo", Display([TerminalSink(shown)], is_terminal=True))
    with phases.phase("re-verify") as step:
        with phases.phase("ranges") as inner:
            inner.items = 7
        phases.show_tasks(3, 4)
        step.handled(Tally(1234, 2048))
    assert caplog.messages == []
    assert "ranges: 7 ranges" in shown.getvalue()
    assert "re-verify: 1,234 objects, 2.0 KiB" in shown.getvalue()
    assert [(p.name, p.items, p.bytes) for p in phases.done] == [
        ("ranges", 7, 0),
        ("re-verify", 1234, 2048),
    ]


def test_tasks_and_counts_are_told_to_the_phase_under_way() -> None:
    """Also after a phase inside it has ended; between phases to nobody."""
    phases = Phases("repo")
    with phases.phase("re-verify"):
        with phases.phase("commits"):
            phases.show_tasks(1, 2)
            phases.advance(5)
            inner = phases.board.snapshot().phases[1]
            assert (inner.tasks_done, inner.tasks, inner.items) == (1, 2, 5)
        phases.show_tasks(3, 4)
        outer = phases.board.snapshot().phases[0]
        assert (outer.tasks_done, outer.tasks) == (3, 4)
    phases.show_tasks(1, 1)
    phases.advance(1)


def test_a_phase_that_fails_is_not_among_those_done() -> None:
    """Its numbers would be half the truth."""
    phases = Phases("repo")
    with pytest.raises(RuntimeError), phases.phase("list"):
        raise RuntimeError
    assert phases.done == []


def test_the_engine_starts_once_and_late() -> None:
    """What is refused before it is needed never waits for Spark."""
    started: list[Engine] = []

    def start() -> Engine:
        started.append(InProcessEngine(slots=3))
        return started[0]

    engine = LateEngine(start)
    assert started == []
    assert engine.slots == 3
    assert engine.slots == 3
    assert len(started) == 1
