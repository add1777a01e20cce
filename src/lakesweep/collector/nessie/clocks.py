"""One time for all: the stores' clocks date files, Nessie's dates commits, this machine's dates the mark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.collector.lakefs.clocks import assert_run_clocks_agree
from lakesweep.collector.lease import Lease
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.domain.cutoff import assert_clocks_agree
from lakesweep.domain.location import Location
from lakesweep.storage.clocks import store_time

_MACHINE, _NESSIE = "this machine", "the Nessie server"


def assert_nessie_agrees(client: NessieClient, clock: Callable[[], datetime]) -> None:
    """Refuse a mark whose time Nessie would not know again: by it, commits and files are compared later."""
    server = client.server_time()
    if server is not None:
        assert_clocks_agree(clock(), server, _NESSIE, than=_MACHINE)


def assert_stores_agree(
    context: NessieContext, lease: Lease, folders: Iterable[Location], client: NessieClient | None
) -> None:
    """Refuse to judge ages where a store that tables lie in, our own store, Nessie or this machine is wrong by minutes."""
    for time in _store_times(context, lease, folders):
        server = client.server_time() if client is not None else None
        assert_run_clocks_agree(time, server, _NESSIE, context.clock(), context.margins)


def _store_times(
    context: NessieContext, lease: Lease, folders: Iterable[Location]
) -> Iterator[datetime]:
    """Each store's time at the moment it is asked for."""
    yield lease.store_now()
    for container in sorted({replace(folder, key="") for folder in folders}, key=str):
        time = store_time(context.lake.open(container))
        if time is not None:
            yield time
