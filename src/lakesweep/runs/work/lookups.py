"""Look up many objects with few requests: by pages of a folder's listing where they stand close together, else one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import pyarrow as pa

from lakesweep.errors import StorageError
from lakesweep.storage import Crew, ObjectInfo, ObjectStore

# What a store knows of a key: the object, None where there is none, or why it could not tell.
Known = ObjectInfo | StorageError | None

_FEWEST_TO_LIST = 32
# A page costs a store about as much as so many look-ups.
_KEYS_OF_A_PAGE, _LOOK_UPS_FOR_A_PAGE = 1000, 50


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
    crowds = [crowd for crowd in folders.values() if len(crowd) >= _FEWEST_TO_LIST]
    known: dict[str, Known] = {}
    for listed in crew.each(lambda crowd: _listed(store, crowd), crowds):
        known |= listed
    if not trust_absence:
        known = {key: info for key, info in known.items() if info is not None}
    alone = [key for key in keys if key not in known]
    known.update(zip(alone, crew.each(lambda key: ask(store, key), alone), strict=True))
    return known


def ask(store: ObjectStore, key: str) -> Known:
    """What the store knows of one key."""
    try:
        return store.find(key)
    except StorageError as error:
        return error


def _listed(store: ObjectStore, keys: list[str]) -> dict[str, Known]:
    """What pages say of keys of one folder, in order; None for those that they pass over.

    It stops where pages cost more than asking, or may not be read, and says nothing of the rest.
    """
    folder = keys[0][: keys[0].rfind("/") + 1]
    wanted = set(keys)
    found: dict[str, Known] = {}
    names_read = passed = 0
    # The listing begins after a key, so the first is asked for by itself.
    try:
        for page in store.list(folder, start_after=keys[0], end_at=keys[-1]):
            names = page.column("key").to_pylist()
            mine = [number for number, name in enumerate(names) if name in wanted]
            for row in page.take(pa.array(mine, pa.int64())).to_pylist():
                found[row["key"]] = ObjectInfo(
                    row["key"], row["size"], row["last_modified"], row["etag"]
                )
            names_read += len(names)
            if store.is_key_ordered and names:
                passed = bisect_right(keys, names[-1])
            if max(passed, len(found)) < names_read / _KEYS_OF_A_PAGE * _LOOK_UPS_FOR_A_PAGE:
                break
        else:
            passed = len(keys)
    except StorageError:
        pass  # Who may not list may still look up.
    return dict.fromkeys(keys[1:passed]) | found
