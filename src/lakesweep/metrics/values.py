"""The metrics of a run as plain values. The table below is all there are: alerts and dashboards may name no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lakesweep.collector.record import COUNTERS, RunStatus
from lakesweep.metrics.outcome import RunOutcome

__all__ = ["METRICS", "Metric", "Sample", "run_samples"]

# What became of planned objects; the other counters say what was found.
OUTCOMES = ("deleted", "already_gone", "revived", "kept_undecided", "failed")

Points = Iterator[tuple[Mapping[str, str], float]]


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge. Its values are those of the last run, so they may go up and down."""

    name: str
    help: str
    points: Callable[[RunOutcome], Points]
    unit: str = "1"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric."""

    metric: Metric
    labels: Mapping[str, str]
    value: float


def run_samples(outcome: RunOutcome) -> list[Sample]:
    """Every value that is known of a run."""
    return [
        Sample(metric, {**outcome.labels, **labels}, value)
        for metric in METRICS
        for labels, value in metric.points(outcome)
    ]


def _one(value: Callable[[RunOutcome], float | None]) -> Callable[[RunOutcome], Points]:
    def points(outcome: RunOutcome) -> Points:
        found = value(outcome)
        if found is not None:
            yield {}, found

    return points


def _success(outcome: RunOutcome) -> float | None:
    return outcome.finished_at.timestamp() if outcome.is_good else None


def _statuses(outcome: RunOutcome) -> Points:
    """One for the status of the run, zero for the others: an alert on each needs no text."""
    if outcome.record is not None:
        for status in RunStatus:
            yield {"status": status.value}, float(outcome.record.status is status)


def _error(outcome: RunOutcome) -> Points:
    if outcome.kind:
        yield {"kind": outcome.kind}, 1.0


def _oldest(outcome: RunOutcome) -> float | None:
    record = outcome.record
    if record is None or record.oldest_garbage is None:
        return None
    return (outcome.finished_at - record.oldest_garbage).total_seconds()


def _counted(label: str, of_bytes: bool, is_outcome: bool) -> Callable[[RunOutcome], Points]:
    def points(outcome: RunOutcome) -> Points:
        if outcome.record is None:
            return
        counted = outcome.record.bytes if of_bytes else outcome.record.objects
        for name in COUNTERS:
            if (name in OUTCOMES) is is_outcome:
                yield {label: name}, counted.get(name, 0)

    return points


def _phases(attribute: str) -> Callable[[RunOutcome], Points]:
    def points(outcome: RunOutcome) -> Points:
        sums: dict[str, float] = {}
        for phase in outcome.phases:
            sums[phase.name] = sums.get(phase.name, 0) + getattr(phase, attribute)
        for name, value in sums.items():
            yield {"phase": name}, value

    return points


METRICS = (
    Metric(
        "lakesweep_last_run_timestamp_seconds",
        "When the last run ended.",
        _one(lambda outcome: outcome.finished_at.timestamp()),
        "s",
    ),
    Metric(
        "lakesweep_last_success_timestamp_seconds",
        "When the last run with exit status 0 ended.",
        _one(_success),
        "s",
    ),
    Metric(
        "lakesweep_last_run_duration_seconds",
        "How long the last run took.",
        _one(lambda outcome: (outcome.finished_at - outcome.started_at).total_seconds()),
        "s",
    ),
    Metric(
        "lakesweep_last_run_exit_status",
        "The exit status of the last run: 4 is refused as unsafe, 5 is not complete.",
        _one(lambda outcome: outcome.exit_status),
    ),
    Metric("lakesweep_last_run_status", "1 for the status of the last run's record.", _statuses),
    Metric("lakesweep_last_run_error", "1 for the kind of error that ended the last run.", _error),
    Metric(
        "lakesweep_objects",
        "Objects that the last run found, by what they are.",
        _counted("state", of_bytes=False, is_outcome=False),
        "{object}",
    ),
    Metric(
        "lakesweep_object_bytes",
        "Bytes of the objects that the last run found, by what they are.",
        _counted("state", of_bytes=True, is_outcome=False),
        "By",
    ),
    Metric(
        "lakesweep_deletes",
        "Planned objects of the last run, by what became of them.",
        _counted("outcome", of_bytes=False, is_outcome=True),
        "{object}",
    ),
    Metric(
        "lakesweep_delete_bytes",
        "Bytes of the planned objects of the last run, by what became of them.",
        _counted("outcome", of_bytes=True, is_outcome=True),
        "By",
    ),
    Metric(
        "lakesweep_oldest_garbage_age_seconds",
        "Age of the oldest object that the last run found to be garbage.",
        _one(_oldest),
        "s",
    ),
    Metric(
        "lakesweep_requests_retried",
        "Requests to object stores that the last run sent again, as far as its tasks reported.",
        _one(lambda outcome: outcome.retries.retries),
        "{request}",
    ),
    Metric(
        "lakesweep_requests_throttled",
        "Requests that the last run sent again because the store asked it to slow down.",
        _one(lambda outcome: outcome.retries.throttled),
        "{request}",
    ),
    Metric(
        "lakesweep_phase_duration_seconds",
        "How long each phase of the last run took.",
        _phases("seconds"),
        "s",
    ),
    Metric("lakesweep_phase_items", "What each phase of the last run handled.", _phases("items")),
    Metric(
        "lakesweep_phase_bytes",
        "Bytes of the objects that each phase of the last run handled.",
        _phases("bytes"),
        "By",
    ),
)
