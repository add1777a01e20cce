"""Phases are timed and told; an engine that starts late starts once, and only if it is needed."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakesweep.collector.phases import Phases
from lakesweep.engine.late import LateEngine
from lakesweep.engine.tasks import Engine
from lakesweep.progress import Phase, RichProgress, SilentProgress
from lakesweep_testing.inprocess import InProcessEngine


class _Bars(SilentProgress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @contextmanager
    def phase(
        self, name: str, *, unit: str = "objects", total: int | None = None
    ) -> Iterator[Phase]:
        with super().phase(name, unit=unit, total=total) as phase:
            phase.on_change = lambda: self._tell(phase)
            yield phase
            phase.on_change = lambda: None

    def _tell(self, phase: Phase) -> None:
        self.told.append(f"{phase.name} {phase.items}/{phase.total} {phase.unit}")


def test_a_phase_ends_with_one_line_of_its_numbers(caplog: pytest.LogCaptureFixture) -> None:
    """Where nobody watches bars."""
    caplog.set_level(logging.INFO)
    phases = Phases("repo")
    with phases.phase("list") as step:
        step.items, step.said = 3, "3 objects"
    (line,) = caplog.messages
    assert line.startswith("repo#repo list: 3 objects (")
    assert [(p.name, p.items) for p in phases.done] == [("list", 3)]


def test_bars_take_the_place_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    """And show tasks until the phase knows its own number."""
    caplog.set_level(logging.INFO)
    shown = io.StringIO()
    phases = Phases("repo", RichProgress(shown))
    with phases.phase("re-verify") as step:
        with phases.phase("ranges") as inner:
            inner.items = 7
        phases.show_tasks(3, 4)
        step.items = 1234
    assert caplog.messages == []
    assert "7 ranges" in shown.getvalue()
    assert "1,234 objects" in shown.getvalue()
    phases.show_tasks(1, 1)  # between phases it is told to nobody


def test_tasks_are_told_to_the_phase_under_way() -> None:
    """Also after a phase inside it has ended."""
    bars = _Bars()
    phases = Phases("repo", bars)
    with phases.phase("re-verify"):
        with phases.phase("ranges"):
            phases.show_tasks(1, 2)
        phases.show_tasks(3, 4)
    assert bars.told == ["ranges 1/2 tasks", "re-verify 3/4 tasks"]


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
