"""Commits in columns: a million of them take a quarter of a gigabyte, where objects would take more than one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from itertools import islice

import numpy as np
import numpy.typing as npt

from lakesweep.domain.commits import Commit
from lakesweep.errors import FormatError
from lakesweep.formats.commit_scan import ID_SIZE, scan_commits
from lakesweep.formats.sstable import Records

__all__ = ["CommitColumns", "Ids", "Ints", "is_among", "microseconds", "texts"]

Ids = npt.NDArray[np.bytes_]
Ints = npt.NDArray[np.int64]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_COMMITS_AT_ONCE = 10_000  # as objects


@dataclass(frozen=True, slots=True, eq=False)
class CommitColumns:
    """What a collector needs of commits, a row for each. Who made them and why is left out.

    Dates are microseconds since 1970. The parents of all rows stand end to end in `parent_ids`, in the order in which each
    commit lists them.
    """

    ids: Ids
    meta_range_ids: Ids
    dates: Ints
    generations: Ints
    versions: Ints
    parent_counts: Ints
    parent_ids: Ids

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def parent_ends(self) -> Ints:
        """Where the parents of each row end."""
        return np.cumsum(self.parent_counts)

    @classmethod
    def of_commits(cls, commits: Iterable[Commit]) -> CommitColumns:
        """The columns of commits, of which few are held as objects at any time."""
        remaining = iter(commits)
        chunks = iter(lambda: list(islice(remaining, _COMMITS_AT_ONCE)), [])
        return cls.joined([_of_few([]), *map(_of_few, chunks)])

    @classmethod
    def of_records(cls, records: Records) -> CommitColumns | None:
        """The columns of a refs dump's records; None where one is not as lakeFS writes it."""
        ids, meta_range_ids = np.zeros((2, len(records) * ID_SIZE), np.uint8)
        dates, generations, versions, parent_counts = np.empty((4, len(records)), np.int64)
        parent_ids = np.empty(records.values.size, np.uint8)
        parents = scan_commits(
            records.value_offsets,
            records.values,
            ids,
            meta_range_ids,
            dates,
            generations,
            versions,
            parent_counts,
            parent_ids,
        )
        if parents < 0:
            return None
        return cls(
            _as_ids(ids),
            _as_ids(meta_range_ids),
            dates,
            generations,
            versions,
            parent_counts,
            _as_ids(parent_ids[: parents * ID_SIZE].copy()),
        )

    @classmethod
    def joined(cls, parts: Sequence[CommitColumns]) -> CommitColumns:
        """The rows of all parts, one after the other."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def take(self, rows: Ints) -> CommitColumns:
        """These rows, in this order."""
        counts = self.parent_counts[rows]
        before = (self.parent_ends - self.parent_counts)[rows] - (np.cumsum(counts) - counts)
        parents = np.repeat(before, counts) + np.arange(counts.sum())
        return CommitColumns(
            self.ids[rows],
            self.meta_range_ids[rows],
            self.dates[rows],
            self.generations[rows],
            self.versions[rows],
            counts,
            self.parent_ids[parents],
        )


def texts(values: Iterable[str]) -> Ids:
    """A column of ids. Their width is a multiple of eight, so that words can be compared."""
    raw = [value.encode() for value in values]
    if any(0 in value for value in raw):
        # It would be cut off at the end of an id, and make two ids one.
        raise FormatError(
            f"an id of a commit holds a NUL: {next(v for v in raw if 0 in v)!r}",
            kind="bad-commit-id",
        )
    width = max([ID_SIZE, *map(len, raw)])
    return np.array(raw, f"S{-(-width // 8) * 8}")


def is_among(ids: Ids, value: str) -> bool:
    """Whether a column in order holds an id."""
    asked = texts([value])
    at = np.searchsorted(ids, asked)
    return bool(at[0] < len(ids) and ids[at[0]] == asked[0])


def microseconds(time: datetime) -> int:
    """A time as dates in columns are told."""
    return (time - _EPOCH) // _MICROSECOND


def _as_ids(data: npt.NDArray[np.uint8]) -> Ids:
    return data.view(f"S{ID_SIZE}")


def _of_few(commits: list[Commit]) -> CommitColumns:
    return CommitColumns(
        texts(commit.id for commit in commits),
        texts(commit.meta_range_id for commit in commits),
        np.array([microseconds(commit.creation_date) for commit in commits], np.int64),
        np.array([commit.generation for commit in commits], np.int64),
        np.array([commit.version for commit in commits], np.int64),
        np.array([len(commit.parents) for commit in commits], np.int64),
        texts(parent for commit in commits for parent in commit.parents),
    )
