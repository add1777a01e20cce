"""A lakeFS repository, and the server that is asked about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from lakesweep.catalogs.lakefs.client import LakeFSClient, Repository, ServerProfile
from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.guards import ClockReading


@dataclass(frozen=True, slots=True)
class LakeFSRepository:
    """A repository with a client of its server, what both are, and which addresses lie in its storage namespace."""

    client: LakeFSClient
    details: Repository
    profile: ServerProfile
    addresses: AddressNormaliser

    @property
    def name(self) -> str:
        """The repository's id."""
        return self.details.id

    def clock_readings(self, store_time: datetime) -> Iterator[ClockReading]:
        """The server's clock beside the store's, which says `store_time` now."""
        yield ClockReading(store_time, "the lakeFS server", self.client.server_time())
