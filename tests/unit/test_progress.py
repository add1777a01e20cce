"""Progress is told the same way to nobody, to a log and to a terminal."""

from __future__ import annotations

import io
import logging

import pytest

from lakesweep.progress import LogProgress, Progress, RichProgress, SilentProgress, human_bytes


@pytest.mark.parametrize("progress", [SilentProgress(), LogProgress(), RichProgress(io.StringIO())])
def test_every_twin_counts_alike(progress: Progress) -> None:
    """What a phase counted can be read after its end, whoever was told."""
    with progress.phase("list", total=3) as phase:
        phase.advance(2, 1024)
        phase.advance()
    assert (phase.items, phase.size_bytes) == (3, 1024)
    ended = phase.seconds
    assert phase.seconds == ended


def test_a_log_has_one_line_for_each_phase(caplog: pytest.LogCaptureFixture) -> None:
    """With count, size and time."""
    with caplog.at_level(logging.INFO), LogProgress().phase("delete", unit="keys") as phase:
        phase.advance(1200, 3 << 20)
    (record,) = caplog.records
    assert record.getMessage().startswith("delete: 1,200 keys (3.0 MiB) in ")


def test_a_phase_that_fails_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A phase that was stopped is not told like one that is done."""

    def fail() -> None:
        with LogProgress().phase("list") as phase:
            phase.advance(5)
            raise ValueError("x")

    with caplog.at_level(logging.INFO), pytest.raises(ValueError, match="x"):
        fail()
    assert caplog.records[0].getMessage() == "list: stopped after 5 objects"


def test_bars_show_counts() -> None:
    """The last picture of a bar has the final count."""
    out = io.StringIO()
    with RichProgress(out).phase("list") as phase:
        phase.expect(2000)
        phase.advance(2000)
    assert "2,000 objects" in out.getvalue()


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 40, "1.0 TiB")]
)
def test_bytes_for_people(count: int, text: str) -> None:
    """Powers of 1,024, named as such."""
    assert human_bytes(count) == text
