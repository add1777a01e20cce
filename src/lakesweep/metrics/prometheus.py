"""A run's metrics as a file for node_exporter's textfile collector. Nobody ever reads half a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from lakesweep.metrics.values import METRICS, Sample
from lakesweep.secrets import known_secrets

__all__ = ["prometheus_text", "write_metrics_file"]

_KEPT = "lakesweep_last_success_timestamp_seconds"


def prometheus_text(samples: Iterable[Sample], before: Iterable[str] = ()) -> str:
    """The text format of Prometheus, one block for each metric; `before` are lines of last successes to keep."""
    by_name: dict[str, list[str]] = {metric.name: [] for metric in METRICS}
    series: set[str] = set()
    for sample in samples:
        by_name[sample.metric.name].append(_line(sample))
        series.add(_line(sample).rpartition(" ")[0])
    by_name[_KEPT] += [line for line in before if line.rpartition(" ")[0] not in series]
    blocks = [
        f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} gauge\n"
        + "".join(f"{line}\n" for line in by_name[metric.name])
        for metric in METRICS
        if by_name[metric.name]
    ]
    return known_secrets.mask("".join(blocks))


def write_metrics_file(path: Path, samples: Iterable[Sample]) -> None:
    """Write the file in one step. The time of a good run stays until a later good run takes its place."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")  # the collector reads *.prom
    try:
        draft.write_text(prometheus_text(samples, _last_successes(path)), "utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _last_successes(path: Path) -> list[str]:
    """Lines of an earlier file that tell of good runs; none where it can't be read."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return []
    return [line for line in lines if re.fullmatch(_KEPT + r"\{.*\} [0-9.e+]+", line)]


def _line(sample: Sample) -> str:
    written = ",".join(f'{label}="{_escaped(text)}"' for label, text in sample.labels.items())
    value = float(sample.value)
    number = str(int(value)) if value.is_integer() else repr(value)
    return f"{sample.metric.name}{{{written}}} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
