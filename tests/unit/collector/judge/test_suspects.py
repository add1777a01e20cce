"""Suspects that travel with the verdicts, spans of paths to look up, and references dealt out by pack."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakesweep.collector.judge.meeting import ReferenceSide
from lakesweep.collector.judge.references import CANARY, LIVE
from lakesweep.collector.judge.suspects import Sizes, Suspects
from lakesweep.collector.lakefs.checks.reupload_lookups import (
    FAR,
    NEAR,
    Reuploads,
    SizeCosts,
    close_together,
    requests_by_size,
)
from lakesweep.collector.lakefs.references import AddressList, RangeReference, Reference, StagedFile
from lakesweep.domain.commits import RangeId
from lakesweep.engine.tasks import Work
from lakesweep.formats.hashing import hash_addresses


def _sizes(*values: int | None, most: int = 100) -> Sizes:
    return Sizes.of(pa.array(values, pa.int64()), most)


def _suspects(rows: dict[str, int | None], most: int = 100) -> Suspects:
    hashes = hash_addresses(pa.array(rows, pa.string()))
    return Suspects.of(hashes, pa.array(rows.values(), pa.int64()), most)


def _matches(sizes: Sizes, *values: int) -> list[bool]:
    return sizes.matches(np.array(values, np.int64)).tolist()


def test_each_size_counts_once() -> None:
    """The set is small where many objects have few sizes."""
    assert _sizes(7, 3, 7, 3).values.tolist() == [3, 7]
    assert _matches(_sizes(7, 3), 1, 3, 5, 7, 9) == [False, True, False, True, False]
    assert _matches(_sizes(), 1) == [False]


def test_suspects_of_several_tasks_come_together() -> None:
    """Encoded by each task, one value on the driver."""
    blobs = [_suspects({"a": 1, "b": 2}).encode(), _suspects({"c": 2}).encode()]
    together = Suspects.union([*blobs, Suspects().encode()])
    assert together.sizes.values.tolist() == [1, 2]
    assert together.among(["a", "x", "c", "a"]) == ["a", "c", "a"]
    assert Suspects.union([]).among(["a"]) == []


def test_sizes_that_are_not_whole_match_everything() -> None:
    """Too many sizes, or one unknown: whoever asks must take every size for one of them."""
    for broken in ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": None}):
        suspects = _suspects(broken, most=2)
        assert not suspects.sizes.is_complete
        together = Suspects.union([_suspects({"d": 4}).encode(), suspects.encode()])
        assert _matches(together.sizes, 5) == [True]


def test_hashes_that_are_too_many_exclude_no_address() -> None:
    """Without them every address may be a suspect."""
    many = _suspects({"a": 1, "b": 1, "c": 1}, most=2)
    assert many.sizes.is_complete
    together = Suspects.union([_suspects({"d": 4}).encode(), many.encode()])
    assert together.among(["x", "a"]) == ["x", "a"]


def test_there_is_something_to_keep_when_sizes_are_not_known() -> None:
    """An empty set of sizes keeps nothing, an unknown one keeps all."""
    assert not Reuploads()
    assert Reuploads(addresses=frozenset({"data/a/b"}))
    assert Reuploads(undecided=_sizes(1))
    assert Reuploads(undecided=_sizes(None))


@pytest.mark.parametrize(
    ("at", "spans"),
    [
        ([5], [(5, 5)]),
        ([0, 1, 2, 40], [(0, 40)]),
        ([0, 51, 500, 501], [(0, 0), (51, 51), (500, 501)]),
    ],
)
def test_entries_close_together_are_looked_up_together(
    at: list[int], spans: list[tuple[int, int]]
) -> None:
    """A page of a listing pays off only where it holds several of the paths."""
    assert close_together(np.array(at), NEAR) == spans


def test_requests_of_a_size_are_counted_as_if_it_were_looked_up_alone() -> None:
    """Far entries cost a request each, near ones their pages; other sizes between them change nothing."""
    at = np.array([0, 10, 11, 5_000, 9_000, 9_500, 10_000])
    sizes = np.array([0, 7, 0, 0, 7, 7, 7])
    found, requests = requests_by_size(at, sizes, FAR)
    total = SizeCosts.sum([(found, requests), (np.array([3]), np.array([1]))])
    assert total.sizes.tolist() == [0, 3, 7]
    assert total.requests.tolist() == [1 + 1, 1, 1 + 2]
    assert SizeCosts.sum([]).beyond(0).values.tolist() == []


@pytest.mark.parametrize(
    ("budget", "given_up"), [(0, [0, 7, 9]), (1, [0, 9]), (4, [0]), (103, [0]), (104, [])]
)
def test_sizes_that_take_the_most_requests_are_given_up_first(
    budget: int, given_up: list[int]
) -> None:
    """A crowded size keeps no other from being looked up."""
    costs = SizeCosts(np.array([0, 7, 9]), np.array([100, 1, 3]))
    assert costs.beyond(budget).values.tolist() == given_up


def read_nothing(partitions: int) -> Work:
    raise AssertionError(f"asked for {partitions} partitions")


def test_ranges_of_one_pack_are_read_by_one_task() -> None:
    """A pack that every task needs would be read by every task."""
    references: list[Reference] = [
        RangeReference(RangeId(f"r{n}"), 3_000, LIVE, f"pack-{n % 4}") for n in range(400)
    ]
    references += [StagedFile("s"), AddressList("canaries", ("a", "b"), CANARY)]
    references += [RangeReference(RangeId(f"fresh{n}"), 3_000, LIVE) for n in range(400)]
    packs = [getattr(item, "pack", "") for item in references]
    weights = [getattr(item, "count", 2) for item in references]
    side = ReferenceSide(references, read_nothing, 8, weights, packs, file_cost=1_000)
    task_of = side.dealt(8)
    assert len(task_of) == len(references)
    for pack in range(4):
        assert len({task_of[n] for n in range(pack, 400, 4)}) == 1
    laden = np.bincount(task_of, weights=[getattr(r, "count", 0) for r in references])
    assert laden.max() < 1.5 * laden.mean()
