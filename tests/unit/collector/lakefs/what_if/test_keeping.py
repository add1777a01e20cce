"""Classes of answers: an object that several of them hold is kept by the longest, and belongs to its owner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakesweep.collector.lakefs.what_if import keeping
from lakesweep.collector.lakefs.what_if.keeping import KeepingClasses, Question, keep_ranges
from lakesweep.collector.lakefs.what_if.kept_references import folder_of, kept_range
from lakesweep.collector.phases import Phases
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.target import Target
from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.commit_columns import texts
from lakesweep.formats.metaranges import RangeInfo, write_metarange
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

# Two questions; owners 0, 1 and 2.
CLASSES = KeepingClasses(np.array([[5, 9, 5 * 3 + 2], [7, 0, 7 * 3 + 0], [5, 4, 5 * 3 + 1]]), 3)


def test_each_question_has_its_own_longest() -> None:
    """The class that keeps an object longest by one question may not be the one by another."""
    classes = np.array([0, 1, 1, 0, 2], np.int32)
    least, owners = CLASSES.least(classes, np.array([0, 2, 3]))
    assert least.tolist() == [[5, 0], [7, 0], [5, 4]]
    assert owners.tolist() == [2, 0, 1]


def test_no_rows_have_no_answers() -> None:
    """A partition may hold none."""
    least, owners = CLASSES.least(np.empty(0, np.int32), np.empty(0, np.int64))
    assert least.shape == (0, 2)
    assert owners.shape == (0,)


def test_a_folder_ends_with_its_slash() -> None:
    """As many folders as there are, and no more than asked for."""
    folders = [folder_of(b"a/b/c", depth) for depth in range(4)]
    assert folders == [b"", b"a/", b"a/b/", b"a/b/"]


def test_a_range_is_read_for_its_paths_only_where_they_lie_in_several_folders() -> None:
    """First and last path say that all between them share a folder, if it has the full depth."""

    def folder(first: bytes, last: bytes, depth: int) -> str | None:
        info = RangeInfo(RangeId("r"), first, last, 2, 0)
        return kept_range(info, 0, depth, "").folder

    assert folder(b"a/b/1", b"a/b/9", 1) == "a/"
    assert folder(b"a/b/1", b"a/c/9", 2) is None
    assert folder(b"a/1", b"a/9", 2) is None  # between them may lie a/5/x
    assert folder(b"x", b"y", 0) == ""


@pytest.mark.parametrize("most_on_driver", [0, 1_000])
@pytest.mark.parametrize("days", [(0, 5, 9), (9, 5, 0), (5, 9, 0)])
def test_a_range_is_kept_as_long_as_the_longest_kept_of_its_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: tuple[int, ...], most_on_driver: int
) -> None:
    """Whichever commit is read first or last, here or by tasks; what one of them keeps for ever is not dated."""
    monkeypatch.setattr(keeping, "MOST_ON_DRIVER", most_on_driver)
    monkeypatch.setattr(keeping, "METARANGES_PER_TASK", 1)
    resources = resources_at(tmp_path, InProcessEngine())
    infos = [RangeInfo(RangeId(f"{n:064x}"), b"%d" % n, b"%d" % n, 1, 0) for n in range(3)]
    # The first range is in all three commits, the second in two, the third in one; the fourth commit has none.
    metaranges = [put(resources, infos[: 3 - number]) for number in range(3)]
    question = Question("days", np.array([*days, 0]))
    owners = np.zeros(4, np.int64)
    found = keep_ranges(resources, texts([*metaranges, ""]), [question], owners, 1)
    least = {info.id: int(found.classes.table[of_class, 0]) for info, of_class in found.dated}
    least |= {info.id: 0 for info in found.always}
    assert [least[info.id] for info in infos] == [min(days), min(days[:2]), days[0]]


class TaskLost(InProcessEngine):
    """Forgets what its first task did."""

    def collect(self, scatter: Scatter) -> pa.Table:
        return super().collect(replace(scatter, items=scatter.items[1:], task_of=None))


def test_metaranges_of_a_task_that_got_lost_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task says how many metaranges it read."""
    monkeypatch.setattr(keeping, "MOST_ON_DRIVER", 0)
    monkeypatch.setattr(keeping, "METARANGES_PER_TASK", 1)
    resources = resources_at(tmp_path, TaskLost())
    infos = [RangeInfo(RangeId(f"{n:064x}"), b"%d" % n, b"%d" % n, 1, 0) for n in range(3)]
    metaranges = [put(resources, [info]) for info in infos]
    question = Question("days", np.array([1, 2, 3]))
    with pytest.raises(UnsafeToSweepError, match="3 metaranges were to be read and 2 were"):
        keep_ranges(resources, texts(metaranges), [question], np.zeros(3, np.int64), 1)


def resources_at(folder: Path, engine: InProcessEngine) -> Resources:
    target = Target(Location.parse(f"file://{folder}"), StorageOptions())
    return Resources(target, engine, Phases("repo"), utc_now)


def put(resources: Resources, infos: list[RangeInfo]) -> MetaRangeId:
    metarange, data = write_metarange(infos)
    resources.store.write(f"_lakefs/{metarange}", data)
    return metarange
