"""The same snapshot on a terminal, in a log, in a notebook."""

from __future__ import annotations

import io
import json
import logging
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from lakesweep.progress import PhaseSnapshot, ProgressSnapshot
from lakesweep.progress.displays import fitting_display
from lakesweep.progress.file import FileSink
from lakesweep.progress.log_lines import LogSink
from lakesweep.progress.notebook import NotebookSink, is_notebook, progress_html
from lakesweep.progress.terminal import TerminalSink

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
LIST = PhaseSnapshot("list", items=2000, size_bytes=1 << 20, seconds=4, is_running=False)
DELETE = PhaseSnapshot("delete", items=500, size_bytes=1 << 19, total=1000, seconds=5)


def snapshot(*phases: PhaseSnapshot, name: str = "repo") -> ProgressSnapshot:
    return ProgressSnapshot(name, BEGAN, 9.0, phases, {"list": 4.0, "delete": 10.0})


def test_a_terminal_keeps_what_is_done_and_draws_what_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each ended phase is printed once, with its final numbers."""
    monkeypatch.setenv("COLUMNS", "160")
    out = io.StringIO()
    sink = TerminalSink(out)
    for _ in range(2):
        sink.show(snapshot(LIST, DELETE))
    sink.show(snapshot(LIST))
    said = out.getvalue()
    assert said.count("list: 2,000 objects, 1.0 MiB, 500/s") == 1
    assert "━━━━━━━━━━━━┄┄┄┄┄┄┄┄┄┄┄┄ delete: 500 of 1,000 objects" in said
    assert "whole run: 9 s" in said


def test_names_are_no_markup() -> None:
    """A name from a lake is printed as it is."""
    out = io.StringIO()
    TerminalSink(out).show(
        snapshot(PhaseSnapshot("[red]x[/red]", items=1, seconds=1, is_running=False))
    )
    assert "[red]x[/red]: 1 object" in out.getvalue()


def test_a_log_gets_a_line_every_thirty_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """However often it is told, and whichever phase is under way."""
    caplog.set_level(logging.INFO)
    times = iter([0.0, *[29.9], *[30.0, 30.0], *[59.0], *[60.0, 60.0]])
    sink = LogSink(lambda: next(times))
    for phase in (LIST, DELETE, DELETE, DELETE, DELETE):
        sink.show(snapshot(phase))
    assert (
        caplog.messages
        == [
            "repo#repo delete: 500 of 1,000 objects, 512.0 KiB, 100/s, 102.4 KiB/s, 50%, about 5 s left; "
            "whole run: 9 s, 500 objects, 512.0 KiB, about 5 s left"
        ]
        * 2
    )


def test_html_escapes_what_a_lake_says() -> None:
    """Names are hostile input."""
    html = progress_html(snapshot(LIST, DELETE, name="<script>alert(1)</script>"))
    assert "<script>" not in html
    assert '<progress max="1" value="0.500">' in html
    assert "about 5 s left" in html


def fake_ipython(monkeypatch: pytest.MonkeyPatch, shell: object) -> list[str]:
    """An IPython that keeps what it displays."""
    shown: list[str] = []
    handle = SimpleNamespace(update=shown.append)

    def display(html: str, display_id: bool) -> SimpleNamespace:
        shown.append(html)
        return handle

    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    module = ModuleType("IPython.display")
    module.HTML, module.display = str, display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return shown


def test_a_notebook_replaces_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most once a second, and once more at the end of a phase."""
    shown = fake_ipython(monkeypatch, SimpleNamespace(kernel=object()))
    now = [0.0]
    sink = NotebookSink(lambda: now[0])
    sink.show(snapshot(DELETE))
    sink.show(snapshot(DELETE))
    now[0] = 1.0
    sink.show(snapshot(DELETE))
    sink.show(snapshot(LIST))
    assert len(shown) == 3
    assert "2,000 objects" in shown[-1]


def test_a_display_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython is never imported by us; a terminal is drawn on only by a program of ours."""
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not is_notebook()
    assert "IPython" not in sys.modules
    assert [type(s) for s in fitting_display("x", may_draw=True).sinks] == [LogSink]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert [type(s) for s in fitting_display("x", may_draw=True).sinks] == [TerminalSink]
    assert [type(s) for s in fitting_display("x", may_draw=False).sinks] == [LogSink]
    fake_ipython(monkeypatch, SimpleNamespace())  # a terminal's shell has no kernel
    assert not is_notebook()
    fake_ipython(monkeypatch, SimpleNamespace(kernel=object()))
    assert NotebookSink in [type(s) for s in fitting_display("x", may_draw=True).sinks]


def test_a_file_always_holds_a_whole_snapshot(tmp_path: Path) -> None:
    """Programs read it whenever they like; the last one is written whatever the time."""
    now = 0.0
    sink = FileSink(tmp_path / "progress.json", clock=lambda: now)
    under_way = ProgressSnapshot("repo", BEGAN, 1.0, (PhaseSnapshot("list", items=3),))
    sink.show(under_way)
    sink.show(replace(under_way, repository="too soon"))
    assert json.loads((tmp_path / "progress.json").read_text())["repository"] == "repo"
    ended = (replace(under_way.phases[0], is_running=False),)
    sink.show(replace(under_way, repository="ended", phases=ended))
    assert json.loads((tmp_path / "progress.json").read_text())["repository"] == "ended"
    assert [path.name for path in tmp_path.iterdir()] == ["progress.json"]
