"""Find what is staged with given addresses by asking a lakeFS server that has no question for it.

A server tells which paths are staged on a branch, and for each path the address. It leaves out a path that is staged
with the content committed there, so paths of committed entries of the same size are asked for as well. Both take one
request for each path: where these would be too many, the answer says what was not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.domain.commits import BranchId
from lakesweep.domain.explanations import HeldOutside, HolderKind
from lakesweep.errors import CatalogNotFoundError

__all__ = ["StagedFound", "look_up_paths", "staged_paths"]

MOST_PATHS = 5_000
_IN_FLIGHT = 16

Place = tuple[BranchId, str]


@dataclass(frozen=True, slots=True)
class StagedFound:
    """What was found, and what was not looked at."""

    holders: tuple[HeldOutside, ...] = ()
    unread: tuple[str, ...] = ()


def staged_paths(repository: LakeFSRepository) -> tuple[list[Place], tuple[str, ...]]:
    """Paths that are staged, on every branch, and a word on those that are too many."""
    client, name = repository.client, repository.name
    found: list[Place] = []
    for head in client.branches(name):
        after: str | None = ""
        while after is not None:
            try:
                paths, after = client.staged_page(name, head.id, after=after)
            except CatalogNotFoundError:
                break  # the branch went away
            found += [(head.id, path) for path in paths]
            if len(found) > MOST_PATHS:
                said = f"more than {MOST_PATHS} paths are staged, and the first {MOST_PATHS} were looked up"
                return found[:MOST_PATHS], (said,)
    return found, ()


def look_up_paths(
    repository: LakeFSRepository, places: Iterable[Place], addresses: frozenset[str]
) -> StagedFound:
    """Ask each branch what it reads at a path, and keep what has one of the addresses."""
    asked = list(islice(places, MOST_PATHS + 1))
    unread: tuple[str, ...] = ()
    if len(asked) > MOST_PATHS:
        asked.pop()
        unread = (
            f"more than {MOST_PATHS} committed paths have the size of an object that was asked for, and any of them may "
            "be staged again without the server telling of it",
        )

    def look(place: Place) -> list[HeldOutside]:
        branch, path = place
        entry = repository.client.stat_object(repository.name, branch, path)
        address = entry.physical_address if entry is not None else None
        readings = repository.addresses.readings(address) if address is not None else ()
        held = addresses.intersection(readings)
        return [HeldOutside(HolderKind.STAGED, address, branch, path) for address in held]

    with ThreadPoolExecutor(_IN_FLIGHT) as pool:
        found = [holder for holders in pool.map(look, asked) for holder in holders]
    return StagedFound(tuple(found), unread)
