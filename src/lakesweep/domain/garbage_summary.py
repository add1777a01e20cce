"""Sums over garbage, small whatever the lake: by reason, folder, age and size, and the largest objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakesweep.domain.durations import format_time, parse_time
from lakesweep.domain.verdicts import Tally

__all__ = [
    *("AGES", "LARGEST", "SIZES", "GarbageSummary", "LargeObject", "decode_garbage"),
    *("fold_small_folders", "shown_folders"),
]

LARGEST = 100
_MOST_FOLDERS = 2_000

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
# Classes by their lower end, inclusive; what has no age or size stands behind the last.
AGES = (
    (0, "less than a day"),
    (1, "1 day to a week"),
    (7, "a week to 30 days"),
    (30, "30 to 90 days"),
    (90, "90 to 180 days"),
    (180, "180 days to a year"),
    (365, "1 to 2 years"),
    (730, "2 years and more"),
)
SIZES = (
    (0, "empty"),
    (1, "less than 1 KiB"),
    (_KIB, "1 KiB to 64 KiB"),
    (64 * _KIB, "64 KiB to 1 MiB"),
    (_MIB, "1 MiB to 16 MiB"),
    (16 * _MIB, "16 MiB to 128 MiB"),
    (128 * _MIB, "128 MiB to 1 GiB"),
    (_GIB, "1 GiB to 16 GiB"),
    (16 * _GIB, "16 GiB and more"),
)

Classes = tuple[Tally, ...]


def _no_ages() -> Classes:
    return (Tally(),) * (len(AGES) + 1)


def _no_sizes() -> Classes:
    return (Tally(),) * (len(SIZES) + 1)


@dataclass(frozen=True, slots=True)
class LargeObject:
    """A garbage object by its name, its size, and when it was written, where that is known."""

    name: str
    size_bytes: int
    modified: datetime | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GarbageSummary:
    """Sums that add up like tallies. `ages` and `sizes` have one tally for each class, the unknown last."""

    total: Tally = field(default_factory=Tally)
    reasons: Mapping[str, Tally] = field(default_factory=dict)
    folders: Mapping[str, Tally] = field(default_factory=dict)
    ages: Classes = field(default_factory=_no_ages)
    sizes: Classes = field(default_factory=_no_sizes)
    largest: tuple[LargeObject, ...] = ()

    def __add__(self, other: GarbageSummary) -> GarbageSummary:
        largest = sorted((*self.largest, *other.largest), key=lambda o: (-o.size_bytes, o.name))
        return GarbageSummary(
            self.total + other.total,
            _added(self.reasons, other.reasons),
            fold_small_folders(_added(self.folders, other.folders)),
            tuple(a + b for a, b in zip(self.ages, other.ages, strict=True)),
            tuple(a + b for a, b in zip(self.sizes, other.sizes, strict=True)),
            tuple(largest[:LARGEST]),
        )

    @property
    def is_whole(self) -> bool:
        """Whether every way to cut the garbage gives the total."""
        cuts = (self.reasons.values(), self.folders.values(), self.ages, self.sizes)
        return all(sum(cut, Tally()) == self.total for cut in cuts)

    def as_json(self) -> dict[str, Any]:
        """The summary as plain JSON values."""
        return {
            "total": _pair(self.total),
            "reasons": {name: _pair(tally) for name, tally in self.reasons.items()},
            "folders": {name: _pair(tally) for name, tally in self.folders.items()},
            "ages": [_pair(tally) for tally in self.ages],
            "sizes": [_pair(tally) for tally in self.sizes],
            "largest": [
                [o.name, o.size_bytes, format_time(o.modified) if o.modified else None, o.reason]
                for o in self.largest
            ],
        }


def decode_garbage(values: Mapping[str, Any]) -> GarbageSummary:
    """The summary from its JSON values."""
    return GarbageSummary(
        Tally(*values["total"]),
        {str(name): Tally(*pair) for name, pair in values["reasons"].items()},
        {str(name): Tally(*pair) for name, pair in values["folders"].items()},
        tuple(Tally(*pair) for pair in values["ages"]),
        tuple(Tally(*pair) for pair in values["sizes"]),
        tuple(
            LargeObject(str(name), int(size), parse_time(at) if at else None, str(reason))
            for name, size, at, reason in values["largest"]
        ),
    )


def fold_small_folders(folders: Mapping[str, Tally], most: int = _MOST_FOLDERS) -> dict[str, Tally]:
    """At most so many folders: the smallest are added to the folders that they stand in."""
    found = dict(folders)
    while len(found) > most:
        ordered = sorted(found, key=lambda name: _weight(found[name]))
        for name in ordered[: len(found) - most + 1]:
            outer = parent_of(name)
            tally = found.pop(name)
            found[outer] = found.get(outer, Tally()) + tally
    return found


def parent_of(folder: str) -> str:
    """The folder around a folder; the empty name is around all. A scheme and its bucket are one name."""
    scheme = folder.find("://")
    start = scheme + 3 if scheme >= 0 else 0
    slash = folder.rstrip("/").rfind("/", start)
    return folder[: slash + 1] if slash >= start else ""


def shown_folders(folders: Mapping[str, Tally], most: int = 24) -> list[tuple[str, Tally]]:
    """A few folders that make up the whole, the largest first: the largest is opened again and again while there is room.

    A name that ends in `…` stands for what else there is in a folder.
    """
    tree = _tree_of(folders)
    shown: dict[str, Tally] = {_deepest(tree, ""): tree[""].whole}
    rest: dict[str, Tally] = {}
    while len(shown) + len(rest) < most:
        inside = [name for name in shown if tree[name].inner]
        if not inside:
            break
        opened = max(inside, key=lambda name: _weight(shown[name]))
        inner = sorted(tree[opened].inner, key=lambda name: _weight(tree[name].whole), reverse=True)
        room = max(most - len(shown) - len(rest), 1)
        whole = shown.pop(opened)
        kept = inner[:room]
        shown |= {_deepest(tree, name): tree[name].whole for name in kept}
        other = whole - sum((tree[name].whole for name in kept), Tally())
        if other.objects:
            rest[f"{opened}…"] = other
    both = [*shown.items(), *rest.items()]
    return sorted(both, key=lambda pair: _weight(pair[1]), reverse=True)


@dataclass(slots=True)
class _Folder:
    whole: Tally = field(default_factory=Tally)
    inner: set[str] = field(default_factory=set)


def _deepest(tree: Mapping[str, _Folder], name: str) -> str:
    """The innermost folder that holds all that this one holds."""
    while len(tree[name].inner) == 1:
        (inner,) = tree[name].inner
        if tree[inner].whole != tree[name].whole:
            break
        name = inner
    return name


def _tree_of(folders: Mapping[str, Tally]) -> dict[str, _Folder]:
    """Every folder and all around it, each with the sum of what is in it."""
    tree: dict[str, _Folder] = {"": _Folder()}
    for name, tally in folders.items():
        while True:
            node = tree.setdefault(name, _Folder())
            node.whole += tally
            if not name:
                break
            outer = parent_of(name)
            tree.setdefault(outer, _Folder()).inner.add(name)
            name = outer
    return tree


def _added(ours: Mapping[str, Tally], theirs: Mapping[str, Tally]) -> dict[str, Tally]:
    return {
        name: ours.get(name, Tally()) + theirs.get(name, Tally()) for name in {**ours, **theirs}
    }


def _weight(tally: Tally) -> tuple[int, int]:
    return tally.bytes, tally.objects


def _pair(tally: Tally) -> list[int]:
    return [tally.objects, tally.bytes]
