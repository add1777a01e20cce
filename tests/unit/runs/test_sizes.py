"""Sets of sizes that travel with the verdicts, and references dealt out by pack."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakesweep.domain.commits import RangeId
from lakesweep.runs.judging import deal_references
from lakesweep.runs.work.references import (
    CANARY,
    LIVE,
    AddressList,
    RangeReference,
    Reference,
    StagedFile,
)
from lakesweep.runs.work.reuploads import Reuploads
from lakesweep.runs.work.sizes import Sizes


def _sizes(*values: int | None, most: int = 100) -> Sizes:
    return Sizes.of(pa.array(values, pa.int64()), most)


def _matches(sizes: Sizes, *values: int) -> list[bool]:
    return sizes.matches(np.array(values, np.int64)).tolist()


def test_each_size_counts_once() -> None:
    """The set is small where many objects have few sizes."""
    assert _sizes(7, 3, 7, 3).values.tolist() == [3, 7]
    assert _matches(_sizes(7, 3), 1, 3, 5, 7, 9) == [False, True, False, True, False]
    assert _matches(_sizes(), 1) == [False]


def test_sets_of_several_tasks_come_together() -> None:
    """Encoded by each task, one set on the driver."""
    together = Sizes.union([_sizes(1, 2).encode(), _sizes(2, 9).encode(), _sizes().encode()])
    assert together.values.tolist() == [1, 2, 9]
    assert together.is_complete
    assert Sizes.union([]).is_complete


def test_a_set_that_is_not_whole_matches_everything() -> None:
    """Too many sizes, or one unknown: whoever asks must take every size for one of them."""
    for broken in (_sizes(1, 2, 3, most=2), _sizes(1, None)):
        assert not broken.is_complete
        assert _matches(broken, 5) == [True]
        together = Sizes.union([_sizes(4).encode(), broken.encode()])
        assert _matches(together, 5) == [True]


def test_there_is_something_to_keep_when_sizes_are_not_known() -> None:
    """An empty set of sizes keeps nothing, an unknown one keeps all."""
    assert not Reuploads()
    assert Reuploads(addresses=frozenset({"data/a/b"}))
    assert Reuploads(sizes=_sizes(1))
    assert Reuploads(sizes=_sizes(None))


def test_ranges_of_one_pack_are_read_by_one_task() -> None:
    """A pack that every task needs would be read by every task."""
    references: list[Reference] = [
        RangeReference(RangeId(f"r{n}"), 3_000, LIVE, f"pack-{n % 4}") for n in range(400)
    ]
    references += [StagedFile("s"), AddressList("canaries", ("a", "b"), CANARY)]
    references += [RangeReference(RangeId(f"fresh{n}"), 3_000, LIVE) for n in range(400)]
    task_of = deal_references(references, 8)
    assert len(task_of) == len(references)
    for pack in range(4):
        assert len({task_of[n] for n in range(pack, 400, 4)}) == 1
    laden = np.bincount(task_of, weights=[getattr(r, "count", 0) for r in references])
    assert laden.max() < 1.5 * laden.mean()
