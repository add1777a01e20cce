"""From commits to the range files that hold their entries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.damage import named_damage
from lakesweep.formats.metaranges import RangeInfo, read_metarange
from lakesweep.formats.sstable import open_table
from lakesweep.storage import ObjectStore

__all__ = [
    *("add_ranges", "committed_key", "distinct_ranges", "every_other_range", "ranges_of_commits"),
]


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
    wanted = {committed_key(i): i for i in meta_range_ids if i}
    read = 0
    try:
        for key, data in store.read_many(list(wanted)):
            read += 1
            with named_damage(key):
                ranges = read_metarange(data)
            yield wanted[key], ranges
    except ObjectNotFoundError as missing:
        raise UnsafeToSweepError(
            f"A commit's metarange is missing: {missing.message} Nothing was deleted. Restore the file under _lakefs/ "
            "before collecting.",
            kind="metarange-missing",
        ) from missing
    if read != len(wanted):
        raise UnsafeToSweepError(
            f"{len(wanted)} metaranges were asked for and {read} came. Nothing was deleted. Run again.",
            kind="metarange-missing",
        )


def distinct_ranges(
    store: ObjectStore, meta_range_ids: Iterable[MetaRangeId]
) -> dict[RangeId, RangeInfo]:
    """Every range that the metaranges name, once. Two metaranges that promise different counts for one range are refused."""
    ranges: dict[RangeId, RangeInfo] = {}
    for meta_range_id, infos in ranges_of_commits(store, meta_range_ids):
        add_ranges(ranges, meta_range_id, infos)
    return ranges


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
