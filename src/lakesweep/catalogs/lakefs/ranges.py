"""From commits to the range files that hold their entries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeVar

from lakesweep.catalogs.lakefs.metarange_table import MetarangeTable
from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.commit_columns import Ids
from lakesweep.formats.damage import named_damage
from lakesweep.formats.metaranges import RangeCounts, RangeInfo, read_metarange, read_range_counts
from lakesweep.formats.sstable import open_table
from lakesweep.storage import ObjectStore

__all__ = [
    *("add_ranges", "committed_key", "every_other_range", "range_ids_of_commits"),
    *("ranges_of_commits", "read_metarange_table"),
]

_Read = TypeVar("_Read")
# Commits share most of their ranges: so many lines are brought together before more are read.
_MOST_LINES = 1_000_000


def committed_key(object_id: str) -> str:
    """The key of a range or metarange; both lie in one folder, named by their content."""
    return f"_lakefs/{object_id}"


def ranges_of_commits(
    store: ObjectStore, meta_range_ids: Iterable[MetaRangeId]
) -> Iterator[tuple[MetaRangeId, list[RangeInfo]]]:
    """The ranges of each metarange, many read at once, in no particular order; each metarange once.

    The empty id (a repository's first commit) has no file and no ranges.

    Raises:
        UnsafeToSweepError: a metarange is missing or damaged; its commit's objects are not known.
    """
    return _read_metaranges(store, meta_range_ids, read_metarange)


def range_ids_of_commits(
    store: ObjectStore, meta_range_ids: Iterable[MetaRangeId]
) -> Iterator[tuple[MetaRangeId, Ids]]:
    """The ids of each metarange's ranges; all else as in `ranges_of_commits`, for a tenth of its cost."""
    for name, part in _read_metaranges(store, meta_range_ids, read_range_counts):
        yield name, part.ids


def read_metarange_table(
    store: ObjectStore, meta_range_ids: Iterable[MetaRangeId], most_pairs: int = 0
) -> MetarangeTable:
    """Every range that the metaranges name, and what each metarange holds for the first of them, up to so many pairs.

    Raises as `ranges_of_commits` and `merge_counts`.
    """
    tables: list[MetarangeTable] = []
    names: list[MetaRangeId] = []
    parts: list[RangeCounts] = []

    def add_table() -> None:
        room = most_pairs - sum(len(table.places) for table in tables)
        tables.append(MetarangeTable.of_metaranges(names, parts).cut_off(room))
        names.clear()
        parts.clear()

    lines = 0
    for name, part in _read_metaranges(store, meta_range_ids, read_range_counts):
        names.append(name)
        parts.append(part)
        lines += len(part.counts)
        if lines > _MOST_LINES:
            add_table()
            lines = 0
    add_table()
    return MetarangeTable.joined(tables)


def _read_metaranges(
    store: ObjectStore, meta_range_ids: Iterable[MetaRangeId], read: Callable[[bytes], _Read]
) -> Iterator[tuple[MetaRangeId, _Read]]:
    wanted = {committed_key(i): i for i in meta_range_ids if i}
    came = 0
    try:
        for key, data in store.read_many(list(wanted)):
            came += 1
            with named_damage(key):
                ranges = read(data)
            yield wanted[key], ranges
    except ObjectNotFoundError as missing:
        raise UnsafeToSweepError(
            f"A commit's metarange is missing: {missing.message} Nothing was deleted. Restore the file under _lakefs/ "
            "before collecting.",
            kind="metarange-missing",
        ) from missing
    if came != len(wanted):
        raise UnsafeToSweepError(
            f"{len(wanted)} metaranges were asked for and {came} came. Nothing was deleted. Run again.",
            kind="metarange-missing",
        )


def add_ranges(
    ranges: dict[RangeId, RangeInfo], meta_range_id: MetaRangeId, infos: Iterable[RangeInfo]
) -> None:
    """Add the ranges of a metarange to those that are known; refused where the counts of one range differ."""
    for info in infos:
        known = ranges.setdefault(info.id, info)
        if known.count != info.count:
            raise UnsafeToSweepError(
                f"Metarange {meta_range_id} says that range {info.id} has {info.count} entries, another says "
                f"{known.count}. Nothing was deleted. One of these files is damaged.",
                kind="range-counts-differ",
            )


def every_other_range(store: ObjectStore, known: Collection[RangeId]) -> dict[RangeId, int]:
    """Range files of the namespace that are not known, with their counts: for when the commits can't all be had."""
    names = store.list_folder("_lakefs/").objects.column("key").to_pylist()
    stems = [name.removeprefix("_lakefs/") for name in names]
    unread = [committed_key(s) for s in stems if len(s) == 64 and RangeId(s) not in known]
    found: dict[RangeId, int] = {}
    for key, data in store.read_many(unread):
        table = open_table(data)
        user = table.properties.user
        # Metaranges and refs dumps lie in the same folder.
        if user.get("type") == b"ranges" and "entity" not in user:
            found[RangeId(key.removeprefix("_lakefs/"))] = len(table)
    return found
