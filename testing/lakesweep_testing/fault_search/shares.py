"""The stages there are, and a share of all faults for each."""

from __future__ import annotations

import logging
import math
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from lakesweep_testing.fault_search.lakefs_stages import LAKEFS_RUNS, LakeStage
from lakesweep_testing.fault_search.nessie_stages import NESSIE_RUNS, NessieStage
from lakesweep_testing.fault_search.search import (
    Ending,
    Injected,
    Injection,
    inject,
    injections_of,
)
from lakesweep_testing.fault_search.stages import Stage
from lakesweep_testing.scene import old_lake

__all__ = ["STAGES", "in_turn", "open_stage", "search", "search_quietly", "shares"]

# The catalog and the run of each stage.
STAGES = (
    *(("Nessie", run) for run in NESSIE_RUNS),
    *(("embedded lake", run) for run in LAKEFS_RUNS),
    *(("lakeFS server", run) for run in LAKEFS_RUNS),
)
_WEIGHT_WITHOUT_SOCKET = 2


def open_stage(catalog: str, run: str, stack: ExitStack) -> Stage:
    """A stage, with a lake of its own where it needs one."""
    if catalog == "Nessie":
        stage: Stage = NessieStage(run)
    else:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        lake = stack.enter_context(old_lake(Path(folder)))
        stage = LakeStage(lake, run, is_embedded=catalog == "embedded lake")
    stack.callback(stage.close)
    return stage


def search(catalog: str, run: str, injections: int, seed: int) -> dict[str, object]:
    """Make a run with so many faults, one at a time, at every operation in turn; the seed chooses which. How they ended."""
    began = time.monotonic()
    with ExitStack() as stack:
        stage = open_stage(catalog, run, stack)
        possible = injections_of(stage)
        chosen = in_turn(possible, injections, random.Random(f"{seed} {catalog} {run}"))
        injected = [inject(stage, injection) for injection in sorted(chosen, key=lambda i: i.at)]
    return _summary(catalog, run, injected, len(possible), time.monotonic() - began)


def in_turn(possible: Sequence[Injection], count: int, chance: random.Random) -> list[Injection]:
    """Choose `count` injections by chance; no operation gets a second fault before every operation has had one."""
    ranked = []
    by_operation: Counter[int] = Counter()
    for one in chance.sample(possible, len(possible)):
        ranked.append((by_operation[one.at], one))
        by_operation[one.at] += 1
    ranked.sort(key=lambda pair: pair[0])
    return [one for _, one in ranked[:count]]


def _summary(
    catalog: str, run: str, injected: Sequence[Injected], possible: int, seconds: float
) -> dict[str, object]:
    endings = Counter(one.ending for one in injected)
    wrong = [f"{one.injection} -> {one.said}" for one in injected if one.ending is Ending.WRONG]
    return {
        "catalog": catalog,
        "run": run,
        "possible": possible,
        "injections": len(injected),
        "right": endings[Ending.RIGHT],
        "errors": endings[Ending.ERROR],
        "unseen": endings[Ending.UNSEEN],
        "losses": sum(one.is_lost for one in injected),
        "wrong": wrong,
        "seconds": round(seconds, 1),
    }


def shares(injections: int) -> Iterator[tuple[str, str, int]]:
    """How many of the injections each stage gets: more where no socket lies between a run and its server."""
    weights = [_WEIGHT_WITHOUT_SOCKET if catalog == "Nessie" else 1 for catalog, _ in STAGES]
    for (catalog, run), weight in zip(STAGES, weights, strict=True):
        yield catalog, run, math.ceil(injections * weight / sum(weights))


def search_quietly(order: tuple[str, str, int, int]) -> dict[str, object]:
    logging.disable(logging.CRITICAL)  # every injected fault is warned of
    return search(*order)
