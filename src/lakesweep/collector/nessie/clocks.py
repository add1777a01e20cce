"""One time for all: the stores' clocks date files, Nessie's dates commits, this machine's dates the mark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.collector.guards import ClockReading
from lakesweep.collector.nessie.places import TableStores
from lakesweep.domain.cutoff import assert_clocks_agree
from lakesweep.domain.location import Location
from lakesweep.storage.clocks import store_time

_MACHINE, _NESSIE = "this machine", "the Nessie server"


def assert_nessie_agrees(client: NessieClient, clock: Callable[[], datetime]) -> None:
    """Refuse a mark whose time Nessie would not know again: by it, commits and files are compared later."""
    server = client.server_time()
    if server is not None:
        assert_clocks_agree(clock(), server, _NESSIE, than=_MACHINE)


def clock_readings(
    stores: TableStores,
    our_time: datetime,
    folders: Iterable[Location],
    client: NessieClient | None,
) -> Iterator[ClockReading]:
    """Nessie's clock beside our own store's, which says `our_time` now, and beside each store that tables lie in."""
    containers = sorted({replace(folder, key="") for folder in folders}, key=str)
    for time in (our_time, *(store_time(stores.open(one)) for one in containers)):
        if time is not None:
            server_time = client.server_time() if client is not None else None
            yield ClockReading(time, _NESSIE, server_time)
