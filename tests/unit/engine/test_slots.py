"""How many tasks are made depends on what a cluster says of itself, and on who has come."""

from __future__ import annotations

import os

import pytest

from lakesweep.engine.slots import SETTINGS, slots_of

DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}


def slots(now: int = 0, **made: str) -> int:
    settings = dict.fromkeys(SETTINGS, "") | {"spark.master": "spark://host:7077"}
    return slots_of(settings | made, lambda: now)


@pytest.mark.parametrize(
    ("settings", "now", "expected"),
    [
        ({"spark.default.parallelism": "7", "spark.cores.max": "3"}, 90, 7),
        ({"spark.cores.max": "3"}, 90, 3),
        ({"spark.master": "local[3]"}, 90, 3),
        ({"spark.master": "local[2,4]"}, 90, 2),
        ({"spark.executor.instances": "10", "spark.executor.cores": "4"}, 8, 40),
        ({}, 0, 4),
        ({}, 96, 96),
        ({"spark.executor.cores": "8"}, 2, 32),
    ],
)
def test_a_cluster_of_a_size(settings: dict[str, str], now: int, expected: int) -> None:
    """What it is told has the first word; one that says nothing is as large as the executors that have come."""
    assert slots(now, **settings) == expected


def test_all_cores_of_this_machine() -> None:
    """`local[*]`, which is the default."""
    assert slots(**{"spark.master": "local[*]"}) == os.cpu_count()


def test_executors_come_for_tasks_that_wait() -> None:
    """With dynamic allocation there are tasks for the most executors, not for the few that it starts with."""
    most = {"spark.dynamicAllocation.maxExecutors": "50", "spark.executor.instances": "1"}
    assert slots(1, **DYNAMIC, **most, **{"spark.executor.cores": "2"}) == 100
    assert slots(12, **DYNAMIC) == 12
    unlimited = {"spark.dynamicAllocation.maxExecutors": str(2**31 - 1)}
    assert slots(12, **DYNAMIC, **unlimited) == 12
