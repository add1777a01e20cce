"""A lakeFS repository, and the server that is asked about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from lakesweep.catalogs.lakefs.client import LakeFSClient, Repository, ServerProfile
from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.guards import ClockReading
from lakesweep.collector.lakefs.namespace import normaliser_of
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
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


def namespace_of(
    repository: Repository, storage: StorageOptions, namespace_root: str | None
) -> Target:
    """Where a repository keeps its data, and how to reach it."""
    location = Location.parse(repository.storage_namespace, namespace_root=namespace_root)
    return Target(location, storage, namespace_root)
