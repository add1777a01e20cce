"""What every test shares: Hypothesis profiles, what tests do without and may not leave, and the run's one SparkSession."""

from __future__ import annotations

import gc
import os
import ssl
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
import typer.main
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from lakesweep.lake.kv import sqlite
from lakesweep.secrets import known_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

gc.disable()  # while modules are imported and tests collected, when next to nothing is thrown away

ROOT = Path(__file__).resolve().parent.parent

# On shared two-core machines a first call may compile or load for seconds: the time limit per test is the judge
# of slowness, not a deadline per example.
settings.register_profile("default", deadline=None, max_examples=30)
settings.register_profile("fast", deadline=None, max_examples=10)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=30,
    derandomize=True,  # CI fails for what a change broke, not for what it happened to find
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("mistakes", deadline=None, max_examples=50)
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


class FilesWithOneSession(LoadFileScheduling):
    """Deals out whole files, and those that share the run's one SparkSession as if they were one file.

    A process that starts a session pays ten seconds of CPU for its JVM: one of the processes does, not all of them.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(("tests/spark/", "tests/e2e/commands/")):
            return "the SparkSession"
        return super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)  # runs without xdist know no such hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Only where whole files are asked for."""
    return FilesWithOneSession(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long go first."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """What was imported and collected stays: Python's garbage collector need not look through it again and again.

    Nor need it look as often as in a small program. Together that saves a tenth of the CPU of small end-to-end tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    gc.enable()


@pytest.fixture(autouse=True)
def _no_jvm_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that tests run in this process start no JVM of their own: most are about being refused."""
    monkeypatch.setattr("lakesweep.engine.jvm._start", lambda *_: None)


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Ref stores of tests, of which most are thrown away after seconds, need not outlive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        careless = (*sqlite._PRAGMAS, "synchronous=OFF")
        patch.setattr(sqlite, "_PRAGMAS", careless)
        yield


@pytest.fixture(scope="session", autouse=True)
def _patient_clients() -> Iterator[None]:
    """httpx gives up after five seconds. A server's first commit may compile for longer: the time limit per test judges."""
    with pytest.MonkeyPatch.context() as patch:
        for waiting in ("connect", "read", "write", "pool"):
            patch.setattr(DEFAULT_TIMEOUT_CONFIG, waiting, 100.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _authorities_read_once() -> Iterator[None]:
    """A program makes one client of HTTP, which reads all authorities for a twentieth of a second; tests make thousands."""
    read = httpx.create_ssl_context

    @cache
    def kept() -> ssl.SSLContext:
        return read()

    def create(verify: object = True, cert: object = None, trust_env: bool = True) -> object:
        names_some = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
        if verify is True and cert is None and trust_env and not names_some:
            return kept()
        return read(verify, cert, trust_env)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx, "create_ssl_context", create)
        patch.setattr("httpx._transports.default.create_ssl_context", create)
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_built_once() -> Iterator[None]:
    """A program builds the tree of its commands once; tests that call it in this process would do so at every call."""
    build = typer.main.get_command

    @cache
    def built(app: typer.Typer, *_commands: object) -> object:
        return build(app)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", lambda app: built(app, *app.registered_commands))
        yield


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> Iterator[None]:
    """A process masks every secret that it was told of, so that one test's would be missing from another's messages."""
    spellings, pattern = set(known_secrets._spellings), known_secrets._pattern
    yield
    known_secrets._spellings, known_secrets._pattern = spellings, pattern


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with so short a name that a socket in it has a name that systems allow."""
    with tempfile.TemporaryDirectory(prefix="lakesweep-test-") as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _nothing_left_at_the_root() -> Iterator[None]:
    """Tests write into folders of their own: a file in the repository's would be committed one day."""
    before = set(os.listdir(ROOT))
    yield
    left = sorted(name for name in set(os.listdir(ROOT)) - before if not name.startswith("."))
    assert not left, f"the test left {left} in {ROOT}"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The run's one SparkSession, on two local cores. Tests that use it carry the mark `spark`."""
    from pyspark import SparkContext

    from lakesweep.engine.session import build_session

    left = SparkContext._active_spark_context
    if left is not None:
        left.stop()  # of a command that a test ran in this process, in some thread; it has settings of its own
    session = build_session(master="local[2,4]")  # a lost worker is tried again, as on a cluster
    yield session
    session.stop()
