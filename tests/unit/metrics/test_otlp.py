"""A collector gets spans and metrics over OTLP/HTTP, and its trouble is none of the run's."""

from __future__ import annotations

import gzip
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lakesweep.metrics.otlp import SECONDS, wants_otlp
from lakesweep.metrics.outcome import RunOutcome
from lakesweep.metrics.publish import publish_outcome
from lakesweep.metrics.values import METRICS

MakeOutcome = Callable[..., RunOutcome]
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"


class Collector:
    """A small OTLP/HTTP receiver on a free port."""

    def __init__(self) -> None:
        received = self.received = dict[str, list[bytes]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                is_packed = self.headers.get("Content-Encoding") == "gzip"
                received.setdefault(self.path, []).append(
                    gzip.decompress(data) if is_packed else data
                )
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *words: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv(ENDPOINT, made.url)
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_phases_are_spans_inside_the_run(make_outcome: MakeOutcome, collector: Collector) -> None:
    """With their real times, objects and bytes; a failed run is an error of its kind."""
    outcome = make_outcome(exit_status=5, kind="keys-failed")
    publish_outcome(outcome, None)
    (data,) = collector.received["/v1/traces"]
    (of_resource,) = ExportTraceServiceRequest.FromString(data).resource_spans
    named = {a.key: a.value.string_value for a in of_resource.resource.attributes}
    assert named["service.name"] == "lakesweep"
    spans = [span for scope in of_resource.scope_spans for span in scope.spans]
    run = next(span for span in spans if span.name == "lakesweep gc")
    phases = [span for span in spans if span is not run]
    assert [span.name for span in phases] == ["list", "delete", "delete"]
    assert {span.parent_span_id for span in phases} == {run.span_id}
    assert run.end_time_unix_nano - run.start_time_unix_nano == 10 * 10**9
    first = phases[0]
    assert first.start_time_unix_nano - run.start_time_unix_nano == round(1.5 * 10**9)
    assert first.end_time_unix_nano - first.start_time_unix_nano == 2 * 10**9
    assert {a.key: a.value.int_value for a in first.attributes} == {
        "lakesweep.items": 100,
        "lakesweep.bytes": 1000,
    }
    told = {a.key: a.value.string_value for a in run.attributes}
    assert (told["error.type"], told["lakesweep.run_id"]) == ("keys-failed", "run-1")
    assert run.status.code == 2


def test_every_metric_arrives_with_its_labels(
    make_outcome: MakeOutcome, collector: Collector
) -> None:
    """The same values that the file has."""
    publish_outcome(make_outcome(), None)
    (data,) = collector.received["/v1/metrics"]
    (of_resource,) = ExportMetricsServiceRequest.FromString(data).resource_metrics
    metrics = {m.name: m for scope in of_resource.scope_metrics for m in scope.metrics}
    assert set(metrics) == {metric.name for metric in METRICS} - {"lakesweep_last_run_error"}
    points = {
        tuple(sorted((a.key, a.value.string_value) for a in point.attributes)): point
        for point in metrics["lakesweep_deletes"].gauge.data_points
    }
    labels = {"catalog": "lakefs", "repository": "repo", "command": "gc", "outcome": "deleted"}
    assert points[tuple(sorted(labels.items()))].as_int == 40
    assert metrics["lakesweep_object_bytes"].unit == "By"


def test_a_collector_that_is_not_there_is_one_line_of_warning(
    make_outcome: MakeOutcome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a port where nobody listens; OpenTelemetry's own lines are inside it. The run has ended as it did."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        env = {ENDPOINT: f"http://127.0.0.1:{nobody.getsockname()[1]}", TIMEOUT: "0.2"}
    for name, text in env.items():
        monkeypatch.setenv(name, text)
    publish_outcome(make_outcome(), None, env)
    (said,) = caplog.messages
    assert "the trace and the metrics did not arrive" in said
    assert "Failed to export spans batch" in said


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, [SECONDS, SECONDS]),
        ({TIMEOUT: "20"}, [None, None]),
        ({"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "20"}, [SECONDS, None]),
    ],
)
def test_sending_may_take_a_few_seconds(
    variables: dict[str, str],
    expected: list[float | None],
    make_outcome: MakeOutcome,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A silent collector would hold up the end of every run; OpenTelemetry's own variables count before ours."""
    passed = []

    class Silent:
        def __init__(self, timeout: float | None) -> None:
            passed.append(timeout)

        def export(self, data: object) -> None:
            """Like a collector that does not answer."""

        def shutdown(self) -> None:
            pass

    package = "opentelemetry.exporter.otlp.proto.http"
    monkeypatch.setattr(f"{package}.trace_exporter.OTLPSpanExporter", Silent)
    monkeypatch.setattr(f"{package}.metric_exporter.OTLPMetricExporter", Silent)
    publish_outcome(make_outcome(), None, {ENDPOINT: "http://127.0.0.1:9", **variables})
    assert passed == expected
    assert SECONDS <= 5


def test_a_missing_extra_is_said_once(
    make_outcome: MakeOutcome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    publish_outcome(make_outcome(), None, {ENDPOINT: "http://127.0.0.1:9"})
    (said,) = caplog.messages
    assert "pip install 'lakesweep[otel]'" in said


@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ({}, False),
        ({ENDPOINT: " "}, False),
        ({ENDPOINT: "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({ENDPOINT: "http://x", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_it_is_asked_for_by_the_environment(env: dict[str, str], wanted: bool) -> None:
    """By OpenTelemetry's own variables."""
    assert wants_otlp(env) is wanted
