"""The clocks that a run on a lakeFS repository relies on: the store's, the server's and this machine's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector import guards
from lakesweep.collector.guards import ClockReading
from lakesweep.collector.lakefs.context import RunContext


def compare_clocks(context: RunContext, store_time: datetime) -> None:
    """Refuse to go on when the server's clock or this machine's is not the store's, which says `store_time` now."""
    readings = clock_readings(context.client, store_time)
    guards.compare_clocks(store_time, readings, context.clock, context.margins)


def clock_readings(client: LakeFSClient, store_time: datetime) -> Iterator[ClockReading]:
    """The server's clock beside the store's, which says `store_time` now."""
    yield ClockReading(store_time, "the lakeFS server", client.server_time())
