"""The clocks that a run relies on: the store's dates objects and ends authorisations, and the others must agree with it."""

from __future__ import annotations

from datetime import datetime

from lakesweep.collector.lakefs.context import RunContext
from lakesweep.domain.cutoff import SAFETY_FULL, SafetyMargins, assert_clocks_agree


def compare_clocks(context: RunContext, store_time: datetime) -> None:
    """Refuse to go on when the server's clock or this machine's is not the store's, which says `store_time` now."""
    server_time = context.client.server_time()
    assert_run_clocks_agree(
        store_time, server_time, "the lakeFS server", context.clock(), context.margins
    )


def assert_run_clocks_agree(
    store_time: datetime,
    server_time: datetime | None,
    server: str,
    machine_time: datetime,
    margins: SafetyMargins = SAFETY_FULL,
) -> None:
    """Refuse to go on when the catalog server's clock (None: it tells none) or this machine's is not the store's."""
    if server_time is not None:
        assert_clocks_agree(store_time, server_time, server, margins)
    assert_clocks_agree(store_time, machine_time, "this machine", margins)
