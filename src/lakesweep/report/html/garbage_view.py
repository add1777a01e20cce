"""The garbage of a run as a page shows it: by folder, age, size and reason, and the largest objects."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.domain.garbage_summary import AGES, SIZES, GarbageSummary, shown_folders
from lakesweep.domain.run_summary import RunSummary
from lakesweep.domain.verdicts import Tally
from lakesweep.report.accounts import whole_seconds
from lakesweep.report.html.drawings.bars import bars
from lakesweep.report.html.drawings.svg import Drawing
from lakesweep.report.html.drawings.treemap import treemap
from lakesweep.report.html.limits import Limits
from lakesweep.report.html.names import size_text
from lakesweep.report.html.shares import Share, shares_of

__all__ = ["GarbageView", "age_bars", "folder_treemap", "garbage_view"]

_REASONS = {
    "expired": "expired: only in commits past their retention",
    "unreferenced": "unreferenced: nothing that is live names it",
}


@dataclass(frozen=True, slots=True)
class LargeRow:
    """One of the largest objects, in words."""

    name: str
    size: str
    modified: str
    reason: str


@dataclass(frozen=True, slots=True)
class GarbageView:
    """The garbage by everything that it is summed up by."""

    as_of: str
    whole: Share
    treemap: Drawing
    folders: list[Share]
    ages: list[Share]
    sizes: list[Share]
    reasons: list[Share]
    largest: list[LargeRow]
    largest_text: str


def garbage_view(summary: RunSummary, limits: Limits) -> GarbageView:
    """The tables and drawings of garbage, with no more than the limits let them show."""
    found = summary.garbage
    largest = found.largest[: limits.largest]
    share = sum(one.size_bytes for one in largest)
    return GarbageView(
        as_of=whole_seconds(summary.as_of),
        whole=shares_of([("all garbage", found.total)])[0],
        treemap=folder_treemap(found),
        folders=_folders(found, limits.letters),
        ages=_ages(found),
        sizes=shares_of(zip(_classes(SIZES, "size not known"), found.sizes, strict=True)),
        reasons=shares_of(
            (limits.said(_REASONS.get(reason, reason)), t) for reason, t in found.reasons.items()
        ),
        largest=[
            LargeRow(
                limits.name(one.name),
                size_text(one.size_bytes),
                whole_seconds(one.modified) if one.modified else "not known",
                limits.said(one.reason),
            )
            for one in largest
        ],
        largest_text=f"{size_text(share)} of {size_text(found.total.bytes)}",
    )


def folder_treemap(found: GarbageSummary) -> Drawing:
    """Garbage by folder, each with an area as large as its bytes."""
    rows = [share.as_bar() for share in _folders(found, 200)]
    return treemap("Garbage by folder", rows)


def age_bars(found: GarbageSummary) -> Drawing:
    """Garbage by age."""
    return bars("Garbage by age", [share.as_bar() for share in _ages(found)])


def _ages(found: GarbageSummary) -> list[Share]:
    return shares_of(zip(_classes(AGES, "age not known"), found.ages, strict=True))


def _folders(found: GarbageSummary, letters: int) -> list[Share]:
    cut = Limits(letters, letters, 0, 0, 0)
    pairs: list[tuple[str, Tally]] = shown_folders(found.folders)
    return shares_of((cut.name(name) or "(in no folder)", tally) for name, tally in pairs)


def _classes(classes: tuple[tuple[int, str], ...], unknown: str) -> list[str]:
    return [*(name for _, name in classes), unknown]
