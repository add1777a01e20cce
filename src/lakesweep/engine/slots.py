"""How many tasks a cluster runs at the same time, from its settings and from what Spark counts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

_DYNAMIC, _MOST = "spark.dynamicAllocation.enabled", "spark.dynamicAllocation.maxExecutors"
_INSTANCES, _CORES = "spark.executor.instances", "spark.executor.cores"
_TOLD = ("spark.default.parallelism", "spark.cores.max")
# All that the number depends on.
SETTINGS = (*_TOLD, "spark.master", _CORES, _INSTANCES, _DYNAMIC, _MOST)

_UNLIMITED = 2**31 - 1  # Spark's word for "as many as there are tasks"
# A cluster that says nothing of its size counts as one of so many executors until more have come.
_EXECUTORS = 4


def slots_of(settings: Mapping[str, str], cores_now: Callable[[], int]) -> int:
    """Slots of a session with these settings (empty where they are not made).

    Args:
        cores_now: how many cores the executors have that have come so far; 0 where nobody can tell.
    """
    told = next(filter(None, map(settings.__getitem__, _TOLD)), "")
    if told:
        return max(1, int(told))
    local = re.fullmatch(r"local\[(\d+|\*).*\]", settings["spark.master"])
    if local:
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
    cores = max(1, int(settings[_CORES] or 1))
    # Executors come for tasks that wait. Were there fewer tasks than all executors can run, the last would never come.
    is_dynamic = settings[_DYNAMIC].lower() == "true"
    executors = int(settings[_MOST if is_dynamic else _INSTANCES] or 0)
    if 0 < executors < _UNLIMITED:
        return executors * cores
    return max(_EXECUTORS * cores, cores_now())
