"""For how many days ranges are kept. Few answers differ, so a range carries the number of a class of answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lakesweep.catalogs.lakefs.ranges import add_ranges, ranges_of_commits
from lakesweep.domain.commits import Commit, CommitId, MetaRangeId, RangeId
from lakesweep.formats.metaranges import RangeInfo
from lakesweep.storage import ObjectStore

__all__ = ["Ints", "KeepingClasses", "KeptRanges", "Question", "keep_ranges"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Question:
    """One way to vary the rules: for each commit the least days that retain it."""

    name: str
    least_days: Mapping[CommitId, int]


@dataclass(frozen=True, slots=True, eq=False)
class KeepingClasses:
    """Distinct answers to all questions. A row has the least days by question, and a rank as its last column.

    The rank is the first question's days times the number of owners, plus the owner's number. Of several classes that
    hold one object, the one of least rank keeps it longest, and its owner is the object's. Picklable: it travels with tasks.
    """

    table: Ints
    owners: int

    @property
    def ranks(self) -> Ints:
        """The rank of each class."""
        return self.table[:, -1]

    def least(self, classes: npt.NDArray[np.int32], starts: Ints) -> tuple[Ints, Ints]:
        """Least days by question, and the owner, of runs of classes that hold one object each; `starts` begins each run."""
        if not len(starts):
            return self.table[:0, :-1], self.table[:0, -1]
        least = np.minimum.reduceat(self.table[classes], starts, axis=0)
        return least[:, :-1], least[:, -1] % self.owners


@dataclass(frozen=True, slots=True)
class KeptRanges:
    """All ranges of a repository: those that some head or root keeps for ever, and the others with their class."""

    always: tuple[RangeInfo, ...]
    dated: tuple[tuple[RangeInfo, int], ...]
    classes: KeepingClasses

    @property
    def entries(self) -> int:
        """Entries in all ranges."""
        return sum(info.count for info in (*self.always, *(info for info, _ in self.dated)))


def keep_ranges(
    store: ObjectStore,
    commits: Iterable[Commit],
    questions: Sequence[Question],
    owner_of: Mapping[CommitId, int],
    owners: int,
) -> KeptRanges:
    """Read every metarange once. A range is kept as long as the longest-kept of its commits."""
    rows: dict[MetaRangeId, Ints] = {}
    for commit in commits:
        days = [question.least_days[commit.id] for question in questions]
        row = np.array([*days, days[0] * owners + owner_of[commit.id]], np.int64)
        known = rows.get(commit.meta_range_id)
        rows[commit.meta_range_id] = row if known is None else np.minimum(row, known)
    found = _Ranges(len(questions) + 1)
    for meta_range_id, infos in ranges_of_commits(store, rows):
        found.add(meta_range_id, infos, rows[meta_range_id])
    infos = list(found.infos.values())
    table = found.table[: len(infos)]
    is_always = (table[:, :-1] == 0).all(axis=1)
    classes, class_of = np.unique(table[~is_always], axis=0, return_inverse=True)
    dated = (info for info, always in zip(infos, is_always.tolist(), strict=True) if not always)
    return KeptRanges(
        tuple(info for info, always in zip(infos, is_always.tolist(), strict=True) if always),
        tuple(zip(dated, class_of.reshape(-1).tolist(), strict=True)),
        KeepingClasses(classes, owners),
    )


@dataclass(slots=True)
class _Ranges:
    """Ranges in the order in which they came, each with a row of the table, which grows with them."""

    columns: int
    infos: dict[RangeId, RangeInfo] = field(default_factory=dict)
    places: dict[RangeId, int] = field(default_factory=dict)
    table: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.table = self._empty(1024)

    def add(self, meta_range_id: MetaRangeId, infos: Sequence[RangeInfo], row: Ints) -> None:
        add_ranges(self.infos, meta_range_id, infos)
        at = [self.places.setdefault(info.id, len(self.places)) for info in infos]
        if len(self.places) > len(self.table):
            self.table = np.concatenate((self.table, self._empty(2 * len(self.places))))
        self.table[at] = np.minimum(self.table[at], row)

    def _empty(self, rows: int) -> Ints:
        return np.full((rows, self.columns), np.iinfo(np.int64).max)
