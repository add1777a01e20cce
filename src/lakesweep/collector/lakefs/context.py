"""All that a run on a repository works with. Only the top of a run holds it; functions below take what they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.guards import refuse_long_requests
from lakesweep.collector.lakefs.paths import REPORTS
from lakesweep.collector.lakefs.repository import LakeFSRepository, namespace_of
from lakesweep.collector.lakefs.request import DEFAULT_KEEP_RUNS
from lakesweep.collector.phases import Phases, reporting_engine
from lakesweep.collector.report_files import FileMailbox
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.domain.cutoff import SAFETY_FULL, SafetyMargins
from lakesweep.engine.tasks import Engine
from lakesweep.errors import ConfigError
from lakesweep.progress import Display
from lakesweep.storage import ObjectStore, StorageOptions


@dataclass(frozen=True, slots=True)
class RunContext:
    """One repository, what a run on it works with, and how its own files are guarded and kept."""

    repository: LakeFSRepository
    resources: Resources
    use_lease: bool = True
    keep_runs: int = DEFAULT_KEEP_RUNS

    @property
    def name(self) -> str:
        """The repository's id."""
        return self.repository.name

    @property
    def store(self) -> ObjectStore:
        """The object store, rooted at the storage namespace."""
        return self.resources.store


def open_repository(
    client: LakeFSClient,
    repository: str,
    storage: StorageOptions,
    engine: Engine,
    *,
    display: Display | None = None,
    namespace_root: str | None = None,
    margins: SafetyMargins = SAFETY_FULL,
    clock: Callable[[], datetime] = utc_now,
) -> RunContext:
    """Look the repository up and reach for its namespace; `lakefs://name` is accepted."""
    name = repository_name(repository)
    found = client.repository(name)
    if found.read_only:
        raise ConfigError(
            f"The repository {name} is read-only, so its server refuses to prepare a collection. Nothing was touched.",
            kind="read-only",
        )
    refuse_long_requests(storage, margins)
    target, phases = namespace_of(found, storage, namespace_root), Phases(name, display)
    engine = reporting_engine(engine, phases, lambda: FileMailbox(target, REPORTS))
    return RunContext(
        LakeFSRepository.of(client, found, target),
        Resources(target, engine, phases, clock, margins),
    )


def repository_name(text: str) -> str:
    """`example-repo`, also when written `lakefs://example-repo`."""
    name = text.removeprefix("lakefs://").strip("/")
    if not name or "/" in name:
        raise ConfigError(
            f"{text!r} is not a repository: write example-repo or lakefs://example-repo. Nothing was touched.",
            kind="bad-repository",
        )
    return name
