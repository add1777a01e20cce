"""Look up many objects with few requests: by pages of a folder's listing where they stand close together, else one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from time import perf_counter

import pyarrow as pa

from lakesweep.errors import StorageError
from lakesweep.storage import Crew, ObjectInfo, ObjectStore

# What a store knows of a key: the object, None where there is none, or why it could not tell.
Known = ObjectInfo | StorageError | None

_FEWEST_TO_LIST = 32
_KEYS_OF_A_PAGE = 1000
# A page costs as much as so many look-ups: in the bills of S3, GCS and Azure, and in MinIO's time. Between the two, the
# store at hand is timed.
_CHEAPEST_PAGE, _DEAREST_PAGE = 12, 50
_TIMED = 3
# So many neighbours fit on one page, with the few names that may stand before the first of them.
NEIGHBOURS = 950


def look_up(
    store: ObjectStore, keys: Sequence[str], crew: Crew, *, trust_absence: bool
) -> dict[str, Known]:
    """What the store knows of each key.

    Args:
        trust_absence: whether a key that a listing does not show is taken for absent, or asked for by itself.
    """
    folders: dict[str, list[str]] = {}
    for key in sorted(set(keys)):
        folders.setdefault(key[: key.rfind("/") + 1], []).append(key)
    crowds = [
        crowd[first : first + NEIGHBOURS]
        for crowd in folders.values()
        for first in range(0, len(crowd), NEIGHBOURS)
        if len(crowd) - first >= _FEWEST_TO_LIST
    ]
    known: dict[str, Known] = {}
    for listed in crew.each(lambda crowd: _listed(store, crowd), crowds):
        known |= listed
    if not trust_absence:
        known = {key: info for key, info in known.items() if info is not None}
    alone = [key for key in keys if key not in known]
    known.update(store.ask_many(alone))
    return known


def _listed(store: ObjectStore, keys: list[str]) -> dict[str, Known]:
    """What pages say of keys of one folder, in order; None for those that they pass over.

    It stops where pages cost more than asking, or may not be read, and says nothing of the rest.
    """
    wanted = set(keys)
    found: dict[str, Known] = {}
    names_read = passed = 0
    price = 0.0  # of a page, in look-ups; unknown while it does not matter
    began = perf_counter()
    try:
        for page in _pages(store, keys):
            seconds = perf_counter() - began
            names = page.column("key").to_pylist()
            mine = [number for number, name in enumerate(names) if name in wanted]
            for row in page.take(pa.array(mine, pa.int64())).to_pylist():
                found[row["key"]] = ObjectInfo(
                    row["key"], row["size"], row["last_modified"], row["etag"]
                )
            names_read += len(names)
            if store.is_key_ordered:
                passed = bisect_right(keys, names[-1])
            spared = max(passed, len(found)) / names_read * _KEYS_OF_A_PAGE
            if _CHEAPEST_PAGE <= spared < _DEAREST_PAGE and not price:
                price = seconds / len(names) * _KEYS_OF_A_PAGE / _seconds_to_ask(store, keys[-1])
            if spared < min(max(price, _CHEAPEST_PAGE), _DEAREST_PAGE):
                break
            began = perf_counter()
        else:
            passed = len(keys)
    except StorageError:
        pass  # Who may not list may still look up.
    return dict.fromkeys(keys[:passed]) | found


def _seconds_to_ask(store: ObjectStore, key: str) -> float:
    """The shortest of a few: the first may have to connect."""
    times = [perf_counter()]
    for _ in range(_TIMED):
        with suppress(StorageError):
            store.find(key)
        times.append(perf_counter())
    return max(min(after - before for before, after in pairwise(times)), 1e-6)


def _pages(store: ObjectStore, keys: list[str]) -> Iterator[pa.RecordBatch]:
    """What a folder's listing says from the first of the keys to the last, which are in order."""
    folder = keys[0][: keys[0].rfind("/") + 1]
    # A listing begins after a name; hardly any other stands between a key and the same without its last letter.
    if not store.is_key_ordered:
        yield from store.list(folder, start_after=keys[0][:-1], end_at=keys[-1])
        return
    passed, last = 0, ""
    while passed < len(keys):
        page = store.list_page(folder, start_after=max(last, keys[passed][:-1]))
        if page is None:
            return
        yield page
        last = page.column("key")[-1].as_py()
        passed = bisect_right(keys, last)
