"""commits.csv: the retained commits that the server's prepare call lists."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from lakesweep.domain.commits import CommitId, MetaRangeId
from lakesweep.errors import FormatError

__all__ = ["CommitRow", "commits_csv_key", "read_commits_csv", "write_commits_csv"]

_HEADER = ["commit_id", "expired", "metarange_id"]


@dataclass(frozen=True, slots=True)
class CommitRow:
    """One commit. Servers list retained commits only, so `is_expired` is False in all files seen."""

    commit_id: CommitId
    is_expired: bool
    meta_range_id: MetaRangeId


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


def _row(row: list[str], line: int) -> CommitRow:
    if len(row) != len(_HEADER) or not row[0] or row[1] not in ("true", "false"):
        raise FormatError(f"commits.csv is damaged at line {line}: {row}", kind="bad-commits-csv")
    return CommitRow(CommitId(row[0]), row[1] == "true", MetaRangeId(row[2]))
