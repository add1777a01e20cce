"""The clocks that a run relies on: the store's dates objects and ends authorisations, and the others must agree with it."""

from __future__ import annotations

from datetime import datetime

from lakesweep.domain.cutoff import assert_clocks_agree
from lakesweep.runs.context import RunContext


def compare_clocks(context: RunContext, store_time: datetime) -> None:
    """Refuse to go on when the server's clock or this machine's is not the store's, which says `store_time` now."""
    server_time = context.client.server_time()
    if server_time is not None:
        assert_clocks_agree(store_time, server_time, "the lakeFS server", context.margins)
    assert_clocks_agree(store_time, context.clock(), "this machine", context.margins)
