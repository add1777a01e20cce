"""Publish a run that has ended, in a metrics file or to an OTLP collector. Nothing of the run depends on whether that works."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from lakesweep.metrics.otlp import export_run, wants_otlp
from lakesweep.metrics.outcome import RunOutcome
from lakesweep.metrics.prometheus import write_metrics_file
from lakesweep.metrics.values import run_samples

__all__ = ["is_asked", "publish_outcome"]

logger = logging.getLogger(__name__)


def is_asked(metrics_file: Path | None, env: Mapping[str, str] = os.environ) -> bool:
    """Whether anybody wants to hear of runs."""
    return metrics_file is not None or wants_otlp(env)


def publish_outcome(
    outcome: RunOutcome, metrics_file: Path | None, env: Mapping[str, str] = os.environ
) -> None:
    """Write the metrics file, and send to the collector that the environment names."""
    samples = run_samples(outcome)
    if metrics_file is not None:
        try:
            write_metrics_file(metrics_file, samples)
        except OSError as error:
            logger.warning(
                "The metrics file %s was not written: %s. The run itself is not affected. "
                "Name a file in a folder that exists and may be written to.",
                metrics_file,
                error,
            )
    if wants_otlp(env):
        try:
            export_run(outcome, samples, env)
        except ModuleNotFoundError as error:
            logger.warning(
                "OTEL_EXPORTER_OTLP_ENDPOINT is set, and %s is not installed, so nothing was sent. "
                "Run `pip install 'lakesweep[otel]'`.",
                error.name,
            )
        except Exception as error:  # noqa: BLE001 (a collector's trouble is no trouble of the run)
            logger.warning(
                "The OTLP collector did not get everything of this run: %s. The run itself is not affected. "
                "Look at the variables OTEL_EXPORTER_OTLP_… and at the collector.",
                error,
            )
