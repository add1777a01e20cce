"""A run as OpenTelemetry: one span with its phases inside, and its metrics, sent over OTLP/HTTP when the run has ended.

opentelemetry is imported only where an endpoint is set.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta

from lakesweep.metrics.outcome import RunOutcome
from lakesweep.metrics.values import Sample

__all__ = ["SECONDS", "NotSentError", "export_run", "wants_otlp"]

_TRACES, _METRICS = "TRACES_", "METRICS_"
# For the trace, and again for the metrics, retries included: a collector that does not answer must not hold up whoever
# waits for the run.
SECONDS = 3.0


class NotSentError(Exception):
    """A collector did not take what was sent to it."""


def wants_otlp(env: Mapping[str, str] = os.environ) -> bool:
    """Whether a collector is named, and OpenTelemetry is not switched off."""
    is_off = env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not is_off and (_has_endpoint(env, _TRACES) or _has_endpoint(env, _METRICS))


def _has_endpoint(env: Mapping[str, str], signal: str) -> bool:
    names = (f"OTEL_EXPORTER_OTLP_{which}ENDPOINT" for which in ("", signal))
    return any(env.get(name, "").strip() for name in names)


def export_run(
    outcome: RunOutcome, samples: list[Sample], env: Mapping[str, str] = os.environ
) -> None:
    """Send everything; an error of the export is raised, and nothing of the run depends on it.

    Raises:
        NotSentError: the collector is out of reach, or refused.
        ModuleNotFoundError: the extra `otel` is not installed.
    """
    from importlib.metadata import version

    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource

    named = {SERVICE_NAME: "lakesweep"} if "OTEL_SERVICE_NAME" not in os.environ else {}
    resource = Resource.create({**named, SERVICE_VERSION: version("lakesweep")})
    missing = []
    with _messages_of_the_sdk() as messages:
        if _has_endpoint(env, _TRACES) and not _export_spans(outcome, resource, env):
            missing.append("the trace")
        if _has_endpoint(env, _METRICS) and not _export_metrics(outcome, samples, resource, env):
            missing.append("the metrics")
    if missing:
        raise NotSentError(f"{' and '.join(missing)} did not arrive ({' '.join(messages)})")


@contextmanager
def _messages_of_the_sdk() -> Iterator[list[str]]:
    """What OpenTelemetry logs meanwhile, kept from the log: it warns of every try."""
    messages: list[str] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, handler = logging.getLogger("opentelemetry"), Keeping()
    passed_on, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = passed_on


def _seconds(env: Mapping[str, str], signal: str) -> float | None:
    """How long sending may take; None where OpenTelemetry's own variables say it."""
    names = (f"OTEL_EXPORTER_OTLP_{which}TIMEOUT" for which in ("", signal))
    return None if any(env.get(name, "").strip() for name in names) else SECONDS


def _export_spans(outcome: RunOutcome, resource: object, env: Mapping[str, str]) -> bool:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import Status, StatusCode

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)  # type: ignore[arg-type]
    ended = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(ended))
    tracer = provider.get_tracer("lakesweep")
    record = outcome.record
    run = tracer.start_span(
        f"lakesweep {outcome.command}",
        start_time=_nanoseconds(outcome.started_at),
        attributes={
            **{f"lakesweep.{name}": text for name, text in outcome.labels.items()},
            "lakesweep.exit_status": outcome.exit_status,
            "lakesweep.status": record.status.value if record is not None else "",
            "lakesweep.run_id": record.run_id if record is not None else "",
            **({"error.type": outcome.kind} if outcome.kind else {}),
        },
    )
    if not outcome.is_good:
        run.set_status(Status(StatusCode.ERROR, outcome.kind))
    inside = trace.set_span_in_context(run)
    for phase in outcome.phases:
        zero = outcome.phases_began_at or outcome.started_at
        began = zero + timedelta(seconds=phase.began or 0.0)
        span = tracer.start_span(
            phase.name,
            context=inside,
            start_time=_nanoseconds(began),
            attributes={"lakesweep.items": phase.items, "lakesweep.bytes": phase.bytes},
        )
        span.end(_nanoseconds(began + timedelta(seconds=phase.seconds)))
    run.end(_nanoseconds(outcome.finished_at))
    provider.shutdown()
    exporter = OTLPSpanExporter(timeout=_seconds(env, _TRACES))
    sent = exporter.export(ended.get_finished_spans())
    exporter.shutdown()  # type: ignore[no-untyped-call]
    return sent is SpanExportResult.SUCCESS


def _export_metrics(
    outcome: RunOutcome, samples: list[Sample], resource: object, env: Mapping[str, str]
) -> bool:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)  # type: ignore[arg-type]
    meter = provider.get_meter("lakesweep")
    metrics = {sample.metric.name: sample.metric for sample in samples}
    gauges = {name: meter.create_gauge(name, m.unit, m.help) for name, m in metrics.items()}
    for sample in samples:
        gauges[sample.metric.name].set(sample.value, dict(sample.labels))
    data = reader.get_metrics_data()
    provider.shutdown()
    if data is None:
        return True
    exporter = OTLPMetricExporter(timeout=_seconds(env, _METRICS))
    sent = exporter.export(data)
    exporter.shutdown()
    return sent is MetricExportResult.SUCCESS


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1e9)
