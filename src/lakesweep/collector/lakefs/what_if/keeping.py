"""For how many days ranges are kept. Few answers differ, so a range carries the number of a class of answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.catalogs.lakefs.ranges import add_ranges, ranges_of_commits
from lakesweep.collector.lakefs.range_counts import (
    METARANGES_PER_TASK,
    MOST_ON_DRIVER,
    names_of,
    refuse_unread,
)
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.formats.commit_columns import Ids
from lakesweep.formats.metaranges import RangeInfo
from lakesweep.storage import ObjectStore

__all__ = ["Ints", "KeepingClasses", "KeptRanges", "Question", "keep_ranges"]

Ints = npt.NDArray[np.int64]

_LONGEST = np.iinfo(np.int64).max
_INFO = ("id", "min_key", "max_key", "count", "estimated_size")

RANGES_SCHEMA = pa.schema(
    [
        pa.field("metaranges", pa.int64(), nullable=False),  # that were read
        pa.field("metarange", pa.string(), nullable=False),  # one that has the range
        pa.field("row", pa.binary(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("min_key", pa.binary(), nullable=False),
        pa.field("max_key", pa.binary(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("estimated_size", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One way to vary the rules: for each commit of a history the least days that retain it."""

    name: str
    least_days: Ints


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
    resources: Resources,
    meta_range_ids: Ids,
    questions: Sequence[Question],
    owner_of: Ints,
    owners: int,
) -> KeptRanges:
    """Read every metarange once. A range is kept as long as the longest-kept of its commits.

    Metaranges, the answers to questions and `owner_of` have a value for each commit.
    """
    days = [question.least_days for question in questions]
    rows = np.stack([*days, days[0] * owners + owner_of], axis=1)
    ids, group = np.unique(meta_range_ids, return_inverse=True)
    by_metarange = np.full((len(ids), rows.shape[1]), _LONGEST)
    np.minimum.at(by_metarange, group, rows)
    is_file = ids != b""  # a repository's first commit has none
    found = _read_ranges(resources, ids[is_file], by_metarange[is_file])
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


def _read_ranges(resources: Resources, ids: Ids, rows: Ints) -> _Ranges:
    """The ranges of metaranges, each with its row. Metaranges grow with the history: where they are many, tasks read them."""
    if len(ids) <= MOST_ON_DRIVER:
        return _Ranges.of(resources.store, ids, rows)
    engine = resources.engine
    tasks = tasks_for(
        len(ids), engine.slots, at_most=resources.most_readers, per_task=METARANGES_PER_TASK
    )
    shares = zip(np.array_split(ids, tasks), np.array_split(rows, tasks), strict=True)
    work = partial(_read_share, resources.target)
    read = engine.collect(Scatter(list(shares), work, RANGES_SCHEMA, tasks)).to_pylist()
    refuse_unread(len(ids), sum(row["metaranges"] for row in read))
    found = _Ranges(rows.shape[1])
    for row in read:
        if row["metarange"]:
            info = RangeInfo(**{name: row[name] for name in _INFO})
            found.add(row["metarange"], [info], np.frombuffer(row["row"], np.int64))
    return found


def _read_share(target: Target, shares: Iterator[tuple[Ids, Ints]]) -> Iterator[pa.RecordBatch]:
    """Work function: a row for each range of the task's metaranges, and one that says how many metaranges it read."""
    for ids, rows in shares:
        found = _Ranges.of(target.open(), ids, rows)
        none = RangeInfo(RangeId(""), b"", b"", 0, 0)
        lines = [_line(none, len(ids))]
        for number, (info, metarange) in enumerate(
            zip(found.infos.values(), found.named_by, strict=True)
        ):
            lines.append(_line(info, 0, metarange, found.table[number].tobytes()))
        yield pa.RecordBatch.from_pylist(lines, schema=RANGES_SCHEMA)


def _line(
    info: RangeInfo, metaranges: int, metarange: str = "", row: bytes = b""
) -> dict[str, Any]:
    values = {name: getattr(info, name) for name in _INFO}
    return {"metaranges": metaranges, "metarange": metarange, "row": row, **values}


@dataclass(slots=True)
class _Ranges:
    """Ranges in the order in which they came, each with a row of the table, which grows with them."""

    columns: int
    infos: dict[RangeId, RangeInfo] = field(default_factory=dict)
    named_by: list[MetaRangeId] = field(default_factory=list)  # the first metarange that has each
    places: dict[RangeId, int] = field(default_factory=dict)
    table: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.table = self._empty(1024)

    @classmethod
    def of(cls, store: ObjectStore, ids: Ids, rows: Ints) -> _Ranges:
        """The ranges of these metaranges, read one by one; `ids` are in order."""
        found = cls(rows.shape[1])
        for meta_range_id, infos in ranges_of_commits(store, names_of(ids)):
            at = np.searchsorted(ids, np.bytes_(meta_range_id.encode()))
            found.add(meta_range_id, infos, rows[at])
        return found

    def add(self, meta_range_id: MetaRangeId, infos: Sequence[RangeInfo], row: Ints) -> None:
        add_ranges(self.infos, meta_range_id, infos)
        at = [self.places.setdefault(info.id, len(self.places)) for info in infos]
        self.named_by += [meta_range_id] * (len(self.places) - len(self.named_by))
        if len(self.places) > len(self.table):
            self.table = np.concatenate((self.table, self._empty(2 * len(self.places))))
        self.table[at] = np.minimum(self.table[at], row)

    def _empty(self, rows: int) -> Ints:
        return np.full((rows, self.columns), _LONGEST)
