"""commits.csv: the retained commits that the server's prepare call lists. There may be a million of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakesweep.domain.commits import CommitId, MetaRangeId
from lakesweep.errors import FormatError
from lakesweep.formats.commit_columns import Ids, texts

__all__ = [
    "CommitRow",
    "ListedCommits",
    "commits_csv_key",
    "read_commits_csv",
    "read_listed_commits",
    "write_commits_csv",
]

_HEADER = ["commit_id", "expired", "metarange_id"]
_FIRST_LINE = ",".join(_HEADER).encode() + b"\n"
# A line as servers write it: two ids of 64 letters, and between them that the commit has not expired.
_ID, _BETWEEN, _LINE = 64, b",false,", 136


@dataclass(frozen=True, slots=True)
class CommitRow:
    """One commit. Servers list retained commits only, so `is_expired` is False in all files seen."""

    commit_id: CommitId
    is_expired: bool
    meta_range_id: MetaRangeId


@dataclass(frozen=True, slots=True, eq=False)
class ListedCommits:
    """The commits of a list that have not expired, in columns."""

    ids: Ids
    meta_range_ids: Ids


def commits_csv_key(run_id: str) -> str:
    """Where a run's list lies, relative to the storage namespace."""
    return f"_lakefs/retention/gc/commits/run_id={run_id}/commits.csv"


def write_commits_csv(rows: Iterable[CommitRow]) -> bytes:
    """The file's bytes."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADER)
    for row in rows:
        writer.writerow([row.commit_id, "true" if row.is_expired else "false", row.meta_range_id])
    return text.getvalue().encode()


def read_commits_csv(data: bytes) -> list[CommitRow]:
    """The rows. Raises FormatError for a missing header, a short row or an unknown word."""
    try:
        rows = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"commits.csv can't be read: {error}", kind="bad-commits-csv") from error
    if not data.endswith(b"\n"):
        raise FormatError(
            "commits.csv is cut short: its last line has no end", kind="bad-commits-csv"
        )
    if not rows or rows[0] != _HEADER:
        raise FormatError(
            f"commits.csv should start with the columns {','.join(_HEADER)}; "
            f"it starts with {','.join(rows[0]) if rows else 'nothing'}",
            kind="bad-commits-csv",
        )
    return [_row(row, number) for number, row in enumerate(rows[1:], start=2)]


def read_listed_commits(data: bytes) -> ListedCommits:
    """The commits of a list that have not expired. Raises as `read_commits_csv`."""
    lines = np.frombuffer(data, np.uint8)[len(_FIRST_LINE) :]
    if data.startswith(_FIRST_LINE) and not len(lines) % _LINE:
        rows = lines.reshape(-1, _LINE)
        between, after = rows[:, _ID : _ID + len(_BETWEEN)], rows[:, _ID + len(_BETWEEN) :]
        is_usual = (between == np.frombuffer(_BETWEEN, np.uint8)).all() and (
            rows[:, -1] == ord("\n")
        ).all()
        if is_usual and _are_letters(rows[:, :_ID]) and _are_letters(after[:, :_ID]):
            return ListedCommits(_column(rows[:, :_ID]), _column(after[:, :_ID]))
    # Says what is wrong, or reads what another server may write.
    kept = [row for row in read_commits_csv(data) if not row.is_expired]
    return ListedCommits(
        texts(row.commit_id for row in kept), texts(row.meta_range_id for row in kept)
    )


def _are_letters(ids: npt.NDArray[np.uint8]) -> bool:
    """Whether all are letters and digits of hexadecimal numbers, which have no other meaning in CSV."""
    is_digit = (ids >= ord("0")) & (ids <= ord("9"))
    return bool((is_digit | ((ids >= ord("a")) & (ids <= ord("f")))).all())


def _column(ids: npt.NDArray[np.uint8]) -> Ids:
    return np.ascontiguousarray(ids).view(f"S{_ID}").reshape(-1)


def _row(row: list[str], line: int) -> CommitRow:
    if len(row) != len(_HEADER) or not row[0] or row[1] not in ("true", "false"):
        raise FormatError(f"commits.csv is damaged at line {line}: {row}", kind="bad-commits-csv")
    return CommitRow(CommitId(row[0]), row[1] == "true", MetaRangeId(row[2]))
