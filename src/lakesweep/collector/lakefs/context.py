"""What a run works with: the catalog, the store, the engine, the clocks. Built once, handed down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from lakesweep.catalogs.lakefs.client import LakeFSClient, Repository, ServerProfile
from lakesweep.collector.guards import refuse_long_requests
from lakesweep.collector.lakefs.paths import REPORTS
from lakesweep.collector.lakefs.request import DEFAULT_KEEP_RUNS
from lakesweep.collector.phases import Phases, reporting_engine
from lakesweep.collector.report_files import FileMailbox
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.target import Target
from lakesweep.domain.cutoff import SAFETY_FULL, SafetyMargins
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Engine
from lakesweep.errors import ConfigError
from lakesweep.progress import Display
from lakesweep.storage import ObjectStore, StorageOptions


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Most tasks for reading ranges and most partitions of the anti-join; fewer where there is less to do."""

    range_tasks: int = 50
    partitions: int = 200
    list_tasks: int = 200


@dataclass(frozen=True, slots=True)
class RunContext:
    """One repository, and everything that a run on it needs."""

    repository: Repository
    profile: ServerProfile
    client: LakeFSClient
    target: Target
    engine: Engine
    phases: Phases
    parallelism: Parallelism = Parallelism()
    margins: SafetyMargins = SAFETY_FULL
    use_lease: bool = True
    keep_runs: int = DEFAULT_KEEP_RUNS
    clock: Callable[[], datetime] = field(default=utc_now)

    @property
    def name(self) -> str:
        """The repository's id."""
        return self.repository.id

    @property
    def store(self) -> ObjectStore:
        """The object store, rooted at the storage namespace."""
        return self.target.open()

    @property
    def resources(self) -> Resources:
        """What the shared steps work with."""
        tools = (self.target, self.engine, self.phases, self.clock, self.margins)
        return Resources(*tools, self.parallelism.partitions)


def open_repository(
    client: LakeFSClient,
    repository: str,
    storage: StorageOptions,
    engine: Engine,
    *,
    display: Display | None = None,
    namespace_root: str | None = None,
    parallelism: Parallelism | None = None,
    margins: SafetyMargins = SAFETY_FULL,
    use_lease: bool = True,
    keep_runs: int = DEFAULT_KEEP_RUNS,
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
    namespace = Location.parse(found.storage_namespace, namespace_root=namespace_root)
    target, phases = Target(namespace, storage, namespace_root), Phases(name, display)
    return RunContext(
        repository=found,
        profile=client.profile(found.storage_id),
        client=client,
        target=target,
        engine=reporting_engine(engine, phases, lambda: FileMailbox(target, REPORTS)),
        phases=phases,
        parallelism=parallelism or Parallelism(),
        margins=margins,
        use_lease=use_lease,
        keep_runs=keep_runs,
        clock=clock,
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
