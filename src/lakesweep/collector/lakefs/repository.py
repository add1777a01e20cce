"""A lakeFS repository, and the server that is asked about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakesweep.catalogs.lakefs.client import LakeFSClient, Repository, ServerProfile
from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.guards import ClockReading
from lakesweep.collector.lakefs.namespace import normaliser_of
from lakesweep.collector.target import Target
from lakesweep.domain.commits import Commit
from lakesweep.domain.cutoff import Cutoff, SafetyMargins, decide_cutoff
from lakesweep.domain.location import Location
from lakesweep.errors import CatalogNotFoundError, ConfigError
from lakesweep.storage import StorageOptions


@dataclass(frozen=True, slots=True)
class LakeFSRepository:
    """A repository with a client of its server, what both are, and which addresses lie in its storage namespace."""

    client: LakeFSClient
    details: Repository
    profile: ServerProfile
    addresses: AddressNormaliser

    @classmethod
    def of(cls, client: LakeFSClient, details: Repository, target: Target) -> LakeFSRepository:
        """The repository that the client has found, with its namespace in the target."""
        return cls(client, details, client.profile(details.storage_id), normaliser_of(target))

    @property
    def name(self) -> str:
        """The repository's id."""
        return self.details.id

    def clock_readings(self, store_time: datetime) -> Iterator[ClockReading]:
        """The server's clock beside the store's, which says `store_time` now."""
        yield ClockReading(store_time, "the lakeFS server", self.client.server_time())

    def cutoff(
        self,
        at: datetime,
        min_age: timedelta | None,
        margins: SafetyMargins,
        *,
        allow_lower: bool,
    ) -> Cutoff:
        """The time before which an object must have been written, counted back from `at` by the server's grace period."""
        return decide_cutoff(
            at,
            self.client.grace_period(),
            requested_min_age=min_age,
            allow_lower=allow_lower,
            margins=margins,
        )

    def named_commits(self, keep_refs: Iterable[str]) -> list[Commit]:
        """The commits that a user names to be kept."""
        commits: list[Commit] = []
        for ref in keep_refs:
            try:
                commits.append(self.client.commit(self.name, ref))
            except CatalogNotFoundError as error:
                raise ConfigError(
                    f"--keep-ref {ref}: {self.name} has no such branch, tag or commit. Nothing was deleted.",
                    kind="bad-keep-ref",
                ) from error
        return commits


def namespace_of(
    repository: Repository, storage: StorageOptions, namespace_root: str | None
) -> Target:
    """Where a repository keeps its data, and how to reach it."""
    location = Location.parse(repository.storage_namespace, namespace_root=namespace_root)
    return Target(location, storage, namespace_root)
