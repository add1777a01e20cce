"""All series of kills there are."""

from __future__ import annotations

import logging

from lakesweep_testing.kill_search.collectors import (
    LAKEFS_RUNS,
    NESSIE_RUNS,
    kill_collections,
    kill_nessie_runs,
)
from lakesweep_testing.kill_search.kills import Kills
from lakesweep_testing.kill_search.lake_server import kill_lake_servers

__all__ = ["SERIES", "kill", "kill_quietly"]

# Who is killed, in which run.
SERIES = (
    ("lake server", "a day"),
    *((who, run) for run in LAKEFS_RUNS for who in ("driver", "executor")),
    *((who, run) for run, whose in NESSIE_RUNS.items() for who in whose),
)


def kill(who: str, run: str, share: float = 1.0, seed: int = 1) -> Kills:
    """One series of kills: after every write, or after a share of them chosen by the seed."""
    if who == "lake server":
        return kill_lake_servers(share, seed)
    if run in NESSIE_RUNS:
        return kill_nessie_runs(run, who, share, seed)
    return kill_collections(run, who, share, seed)


def kill_quietly(order: tuple[str, str, float, int]) -> dict[str, object]:
    logging.disable(logging.CRITICAL)
    return kill(*order).as_json()
