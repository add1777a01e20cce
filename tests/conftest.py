"""What every test shares: Hypothesis profiles and the run's one SparkSession."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# On shared two-core machines a first call may compile or load for seconds: the time limit per test is the judge
# of slowness, not a deadline per example.
settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=100,
    derandomize=True,  # CI fails for what a change broke, not for what it happened to find
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile(
    "nightly",
    deadline=None,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default")
)


@pytest.fixture(autouse=True)
def _no_jvm_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that tests run in this process start no JVM of their own: most are about being refused."""
    monkeypatch.setattr("lakesweep.engine.jvm._start", lambda *_: None)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The run's one SparkSession, on two local cores. Tests that use it carry the mark `spark`."""
    from lakesweep.engine.session import build_session

    session = build_session(master="local[2,4]")  # a lost worker is tried again, as on a cluster
    yield session
    session.stop()
