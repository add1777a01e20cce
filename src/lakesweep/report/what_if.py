"""A what-if as text: what each number of days would free, by group, and what other rules would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from lakesweep.domain.durations import format_time
from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import Curve, NamedCurve, WhatIf
from lakesweep.progress import human_bytes

__all__ = ["CHOSEN_DAYS", "what_if_text"]

CHOSEN_DAYS = (1, 2, 3, 7, 14, 21, 30, 60, 90, 180, 365)
# Steps of the curve that are shown besides, the largest.
_MOST_STEPS = 10
_GROUP_DAYS = (1, 7, 30, 90)
_MOST_ROWS = 10
_HEADINGS = {
    "branch": "by branch",
    "path": "by path",
    "age": "by age",
    "size": "by size",
    "table": "by table",
}


def what_if_text(what_if: WhatIf) -> str:
    """The whole answer for a person."""
    parts = [
        "\n".join(_head(what_if)),
        "\n".join(_main_table(what_if)),
        "\n".join(_totals(what_if)),
        *("\n".join(_group_table(what_if, kind)) for kind in _HEADINGS),
        "\n".join(_branch_table(what_if)),
        "\n".join(_rules_table(what_if)),
        "\n".join(f"note: {note}" for note in what_if.notes),
    ]
    return "\n\n".join(part for part in parts if part)


def _head(what_if: WhatIf) -> Iterator[str]:
    name = "repository" if what_if.catalog == "lakefs" else "catalog"
    yield f"{name:<11} {what_if.name}"
    yield f"{'asked at':<11} {_second(what_if.asked_at)}; nothing was deleted"
    yield f"{'collected':<11} {what_if.what}"
    if what_if.now != what_if.asked_at:
        yield f"{'days before':<11} {_second(what_if.now)}"
    yield f"{'cut-off':<11} {_second(what_if.cutoff)}; what was written since is not counted"


def _main_table(what_if: WhatIf) -> Iterator[str]:
    is_lakefs = what_if.catalog == "lakefs"
    kept = "data is kept after it left the head of a branch" if is_lakefs else "commits are kept"
    yield f"What would be freed, by the days that {kept}:"
    tags = what_if.with_tags_kept
    head = ["days", "objects", "bytes"]
    head += ["with tags kept", "bytes"] if tags is not None else []
    head += ["money a month"] if what_if.price is not None else []
    rows = []
    for days in _shown_days(what_if.curve):
        freed = what_if.curve.at(days)
        row = [f"{days:,}", f"{freed.objects:,}", human_bytes(freed.bytes)]
        if tags is not None:
            fewer = tags.at(days)
            row += [f"{fewer.objects:,}", human_bytes(fewer.bytes)]
        rows.append(row + _money(what_if, freed))
    yield from _table(head, rows)


def _shown_days(curve: Curve) -> list[int]:
    """A few numbers of days that people think in, and those at which the curve steps most."""
    steps = sorted(
        ((abs(b.bytes - a.bytes), b.days) for a, b in pairwise(curve.points)), reverse=True
    )
    last = curve.points[-1].days
    # Beyond the last step nothing changes: one chosen number says so.
    chosen = [days for days in CHOSEN_DAYS if days <= last] or [1]
    beyond = [days for days in CHOSEN_DAYS if days > last][:1]
    return sorted({*chosen, *beyond, *(days for _, days in steps[:_MOST_STEPS])})


def _totals(what_if: WhatIf) -> Iterator[str]:
    what = "in no commit" if what_if.catalog == "lakefs" else "in no content"
    if what_if.unreferenced != Tally():
        money = "".join(f", {m} a month" for m in _money(what_if, what_if.unreferenced))
        yield f"Goes whatever the days, {what}: {_said(what_if.unreferenced)}{money}"
    for why, tally in what_if.kept.items():
        yield f"Stays whatever the days, {why}: {_said(tally)}"


def _group_table(what_if: WhatIf, kind: str) -> Iterator[str]:
    groups = [group for group in what_if.groups if group.kind == kind]
    if groups:
        yield f"Of it, {_HEADINGS[kind]}:"
        yield from _curves_table(kind, groups)


def _branch_table(what_if: WhatIf) -> Iterator[str]:
    if what_if.branch_days:
        yield "With other days for one branch only, and the present rules for the rest:"
        yield from _curves_table("branch", what_if.branch_days)


def _curves_table(kind: str, groups: Sequence[NamedCurve]) -> Iterator[str]:
    head = [kind, *(f"{days} day{'s' if days > 1 else ''}" for days in _GROUP_DAYS)]
    rows = []
    for group in groups[:_MOST_ROWS]:
        freed = [group.curve.at(days) for days in _GROUP_DAYS]
        rows.append([group.name or "/", *(_short(tally) for tally in freed)])
    yield from _table(head, rows)
    if len(groups) > _MOST_ROWS:
        yield f"and {len(groups) - _MOST_ROWS} more: --output json has them all"


def _rules_table(what_if: WhatIf) -> Iterator[str]:
    if not what_if.rules:
        return
    yield "What other rules would free:"
    head = ["rules", "retained commits", "expired", "objects", "bytes"]
    head += ["money a month"] if what_if.price is not None else []
    rows = [
        [
            figure.name,
            f"{figure.retained_commits:,}",
            f"{figure.expired_commits:,}",
            f"{figure.freed.objects:,}",
            human_bytes(figure.freed.bytes),
            *_money(what_if, figure.freed),
        ]
        for figure in what_if.rules
    ]
    yield from _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first column to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        first, *others = (
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(["", first, *others]).rstrip()


def _money(what_if: WhatIf, tally: Tally) -> list[str]:
    money = what_if.money(tally.bytes)
    return [] if money is None else [f"{money:,.2f}"]


def _said(tally: Tally) -> str:
    return (
        f"{tally.objects:,} object{'s' if tally.objects != 1 else ''}, {human_bytes(tally.bytes)}"
    )


def _short(tally: Tally) -> str:
    return f"{tally.objects:,} / {human_bytes(tally.bytes)}" if tally != Tally() else "-"


def _second(time: datetime) -> str:
    return format_time(time.replace(microsecond=0))
