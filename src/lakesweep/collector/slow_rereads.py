"""What to say of a re-read that took longer than its result may be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from lakesweep.collector.record import Phase
from lakesweep.domain.durations import format_duration
from lakesweep.errors import UnsafeToSweepError

__all__ = ["LAKEFS_ADVICE", "NESSIE_ADVICE", "too_slow"]

_MORE_EXECUTORS = "Give the job more executors."
_LESS_STAGED = (
    "Commit or reset branches that have much staged, or give the lakeFS server more resources."
)
LAKEFS_ADVICE = {
    "canaries": "The lakeFS server answers slowly: give it more resources.",
    "uncommitted": _LESS_STAGED,
    "commits": "The lakeFS server writes down all of its commits: give it more resources.",
    "ranges": "One small file of each new commit is read from the store: run nearer to it.",
    "judge": _MORE_EXECUTORS,
    "verify": _LESS_STAGED,
    "delete": _MORE_EXECUTORS,
}
NESSIE_ADVICE = {
    "ask again": "Nessie answers slowly, or much became live since the mark: give Nessie more resources, or mark again.",
    "re-verify": _MORE_EXECUTORS,
    "delete": _MORE_EXECUTORS,
}


def too_slow(
    repository: str,
    took: timedelta,
    valid_for: timedelta,
    steps: Sequence[Phase],
    advice: Mapping[str, str],
) -> UnsafeToSweepError:
    """The error of a sweep whose re-read leaves no time to delete; it names the slowest of its steps, with advice on it."""
    known = [step for step in steps if step.name in advice]
    slowest = max(known, key=lambda step: step.seconds)
    return UnsafeToSweepError(
        f"Reading again what is live in {repository} took {format_duration(round_seconds(took))}, and what it found may be "
        f"deleted until {format_duration(valid_for)} after its start: that was too late, and nothing was deleted. The "
        f"slowest step was '{slowest.name}' ({slowest.seconds:.0f} s). {advice[slowest.name]}",
        kind="verification-too-slow",
    )


def round_seconds(duration: timedelta) -> timedelta:
    """A duration without fractions of a second."""
    return timedelta(seconds=round(duration.total_seconds()))
