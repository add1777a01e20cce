"""Which prefixes a listing must visit: the slices below data/, shards included, and the root of the namespace."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakesweep.collector.listing import Piece
from lakesweep.domain.addresses import SLICE_PATTERN
from lakesweep.errors import FormatError, UnsafeToSweepError
from lakesweep.formats.xid import descending_xid_time
from lakesweep.storage import ObjectStore

_SLICE = re.compile(SLICE_PATTERN)
# Shards stand a few levels deep; a tree deeper than this is nothing that lakeFS wrote.
_MAX_SHARD_LEVELS = 6


@dataclass(frozen=True, slots=True)
class Slices:
    """What stands below data/: slice prefixes, newest first, and other prefixes that have to be looked into."""

    slices: tuple[str, ...]
    others: tuple[str, ...]

    def prefixes(self, *, since: str = "") -> list[Piece[str]]:
        """The pieces to list. With `since`, slices that sort at or after it are left out: those are older."""
        wanted = [s for s in self.slices if not since or slice_name(s) < since]
        return [
            *(Piece(s) for s in wanted),
            *(Piece(o) for o in self.others),
            # Plain files directly in data/ and at the root: counted, named, never candidates but for 32-hex names.
            Piece("data/", recursive=False),
            Piece("", recursive=False),
        ]


def slice_name(prefix: str) -> str:
    """`data/!ab/c/<slice>/` → `<slice>`."""
    return prefix.rstrip("/").rsplit("/", 1)[-1]


def find_slices(store: ObjectStore) -> Slices:
    """Walk the folders below data/ down to the slices."""
    slices: list[str] = []
    others: list[str] = []
    level = ["data/"]
    for _ in range(_MAX_SHARD_LEVELS):
        below: list[str] = []
        for folder in level:
            for child in store.list_folder(folder).folders:
                name = slice_name(child)
                if name == "_lakefs":
                    raise UnsafeToSweepError(
                        f"Another repository lies inside this one's data: {child} holds lakeFS metadata, and its objects would "
                        "look like garbage here. Nothing was deleted. Move that repository out of this namespace.",
                        kind="foreign-repository",
                    )
                if _SLICE.fullmatch(name):
                    slices.append(child)
                elif name.startswith("!") or folder != "data/":
                    below.append(child)
                else:
                    others.append(child)
        if not below:
            break
        level = below
    else:
        others.extend(level)
    slices.sort(key=slice_name)
    return Slices(tuple(slices), tuple(others))


def last_read_slice(
    slices: Iterable[str], now: datetime, slice_max_age: timedelta, margin: timedelta
) -> str:
    """The newest slice that need never be listed again: no address in it can still be issued or linked, or be young.

    All older slices qualify too. An unreadable slice id ends the search: from there on everything is listed again.
    """
    settled = ""
    for name in sorted((slice_name(s) for s in slices), reverse=True):
        try:
            created = descending_xid_time(name)
        except FormatError:
            break
        if created + slice_max_age + margin >= now:
            break
        settled = name
    return settled
