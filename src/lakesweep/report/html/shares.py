"""Rows of the tables of a page: a name with objects and bytes, and a bar."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from markupsafe import Markup

from lakesweep.collector.record import RunRecord
from lakesweep.domain.verdicts import Tally
from lakesweep.report.accounts import Account, Line, accounts
from lakesweep.report.html.drawings.bars import Bar, slim_bar
from lakesweep.report.html.limits import LIMITS, Limits
from lakesweep.report.html.names import size_text

__all__ = ["AccountTable", "Share", "account_tables", "share_of", "shares_of", "weighed"]


@dataclass(frozen=True, slots=True)
class Share:
    """One row. `weight` is what its bar shows: bytes, or objects where no size is known."""

    name: str
    objects: int
    bytes: int
    said: str = ""
    paint: str = "garbage"
    weight: int = 0
    is_sized: bool = True

    @property
    def objects_text(self) -> str:
        return f"{self.objects:,}"

    @property
    def bytes_text(self) -> str:
        return size_text(self.bytes if self.is_sized else None)

    def bar(self, longest: int) -> Markup:
        """Its bar, beside others of which the longest is that long."""
        return slim_bar(self.weight, longest, self.paint)

    def as_bar(self) -> Bar:
        """Its bar in a drawing of its own."""
        shown = self.bytes_text if self.is_sized else f"{self.objects_text} objects"
        return Bar(self.name, self.weight, shown, self.paint)


@dataclass(frozen=True, slots=True)
class AccountTable:
    """A sum and its parts as a table. `note` says so where the parts are not meant to make up the whole."""

    caption: str
    head: str
    whole: Share
    parts: list[Share]
    note: str = ""


def weighed(rows: Iterable[Share]) -> list[Share]:
    """Rows with bars over one scale; sizes count as unknown where no row has one."""
    rows = list(rows)
    is_sized = any(row.bytes for row in rows) and all(row.is_sized for row in rows)
    return [
        replace(row, weight=row.bytes if is_sized else row.objects, is_sized=is_sized)
        for row in rows
    ]


def shares_of(tallies: Iterable[tuple[str, Tally]], paint: str = "garbage") -> list[Share]:
    """A row for each tally that is not empty."""
    return weighed(Share(name, t.objects, t.bytes, paint=paint) for name, t in tallies if t.objects)


_PAINTS = {
    *("live", "young", "protected", "undecided", "garbage", "expired", "unreferenced", "deleted"),
}
_CAPTIONS = {
    "listed": "Everything that was listed, and its verdict",
    "garbage": "The garbage, and why nothing needs it",
    "swept": "The garbage, and what became of it",
    "copied": "What the mark names, and what became of its copies",
}


def account_tables(record: RunRecord, limits: Limits = LIMITS[0]) -> list[AccountTable]:
    """The sums of a record. Each is whole, or says why it is not."""
    return [_table(account, limits) for account in accounts(record)]


def _table(account: Account, limits: Limits) -> AccountTable:
    shares = map(share_of, account.parts)
    parts = weighed(replace(share, said=limits.said(share.said)) for share in shares)
    note = ""
    if not account.is_whole:
        note = (
            "These parts need not make up the whole: only some of the namespace was listed, and what may be garbage came "
            "from commits and earlier runs, too."
        )
    return AccountTable(
        _CAPTIONS[account.kind], "verdict", replace(share_of(account.whole), said=""), parts, note
    )


def share_of(line: Line) -> Share:
    """The row of a line of an account."""
    paint = line.name if line.name in _PAINTS else "protected"
    name = line.name.replace("_", " ")
    return Share(name, line.objects, line.bytes, line.said, paint, is_sized=line.is_sized)
