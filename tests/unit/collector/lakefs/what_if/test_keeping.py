"""Classes of answers: an object that several of them hold is kept by the longest, and belongs to its owner."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from lakesweep.collector.lakefs.what_if.keeping import KeepingClasses, Question, keep_ranges
from lakesweep.collector.lakefs.what_if.kept_references import folder_of, kept_range
from lakesweep.domain.commits import Commit, CommitId, RangeId
from lakesweep.domain.location import Location
from lakesweep.formats.metaranges import RangeInfo, write_metarange
from lakesweep.storage import StorageOptions, open_store

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


@pytest.mark.parametrize("days", [(0, 5, 9), (9, 5, 0), (5, 9, 0)])
def test_a_range_is_kept_as_long_as_the_longest_kept_of_its_commits(days: tuple[int, ...]) -> None:
    """Whichever commit is read first or last; what one of them keeps for ever is not dated."""
    store = open_store(
        Location.parse(f"mem://keeping-{'-'.join(map(str, days))}/ns"), StorageOptions()
    )
    infos = [RangeInfo(RangeId(f"{n:064x}"), b"%d" % n, b"%d" % n, 1, 0) for n in range(3)]
    now = datetime(2024, 6, 1, tzinfo=UTC)
    commits = []
    # The first range is in all three commits, the second in two, the third in one.
    for number in range(3):
        meta_range_id, data = write_metarange(infos[: 3 - number])
        store.write(f"_lakefs/{meta_range_id}", data)
        commits.append(Commit(CommitId(f"c{number}"), "", "", now, meta_range_id, ()))
    question = Question("days", dict(zip((c.id for c in commits), days, strict=True)))
    found = keep_ranges(store, commits, [question], {c.id: 0 for c in commits}, 1)
    least = {info.id: int(found.classes.table[of_class, 0]) for info, of_class in found.dated}
    least |= {info.id: 0 for info in found.always}
    assert [least[info.id] for info in infos] == [min(days), min(days[:2]), days[0]]
