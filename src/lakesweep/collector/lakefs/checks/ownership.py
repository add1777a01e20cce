"""Whose the storage namespace is: one repository of one lakeFS installation, or nothing is collected.

Whatever another repository keeps in the same place looks like garbage to this one. The server is asked which
repositories it knows; what another server knows is told by the age of the namespace's marker, and by a note that the
first run leaves there.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import timedelta

from lakesweep.catalogs.lakefs.namespace import may_overlap
from lakesweep.catalogs.lakefs.values import Repository
from lakesweep.collector.lakefs.paths import OWN
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.target import Target
from lakesweep.domain.durations import format_time
from lakesweep.domain.location import Location
from lakesweep.errors import (
    CatalogDeniedError,
    ConfigError,
    ObjectExistsError,
    ObjectNotFoundError,
    UnsafeToSweepError,
    UnsupportedStoreError,
)
from lakesweep.json_text import parse_json
from lakesweep.storage import ObjectStore

NOTE = f"{OWN}owner.json"
_SCHEMA = "lakesweep.owner/1"
_MARKERS = ("_lakefs/dummy", "dummy")
_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class _Owner:
    """A repository that tells itself from another one of its name, on this server or another, by when it was made."""

    repository: str
    created: str


def refuse_shared_namespace(
    repository: LakeFSRepository, target: Target, clock_skew: timedelta, *, claim: bool = True
) -> None:
    """Refuse a namespace that another repository lies in, around or on. The first run claims it with a note.

    Raises:
        UnsafeToSweepError: it is shared, or it can't be told whether it is.
    """
    own = _refuse_neighbours(repository, target)
    _refuse_older_marker(target.open(), own, clock_skew)
    _refuse_other_owner(target.open(), own, repository.client.url, claim=claim)


def _refuse_neighbours(repository: LakeFSRepository, target: Target) -> Repository:
    """Our repository as the server knows it now, if no other one that it knows shares the namespace."""
    try:
        known = repository.client.repositories()
    except CatalogDeniedError as error:
        raise CatalogDeniedError(
            f"{error.message} Nothing was deleted: which repositories lie in the namespace of {repository.name} has to be "
            "known. Allow fs:ListRepositories on *."
        ) from error
    here = target.namespace
    sharing: list[str] = []
    own: Repository | None = None
    for other in known:
        uri = other.storage_namespace
        # Itself, at the place that is collected: a repository made anew under its name may lie elsewhere.
        if other.id == repository.name:
            own = other if _place(other, target.namespace_root) == here else None
        elif may_overlap(uri, here, target.namespace_root):
            sharing.append(f"{other.id} at {uri}")
    if sharing:
        more = f" and {len(sharing) - _MOST_NAMES} more" if len(sharing) > _MOST_NAMES else ""
        raise UnsafeToSweepError(
            f"The namespace {here.uri} of {repository.name} is shared with {', '.join(sharing[:_MOST_NAMES])}{more}: what "
            "one of them reads looks like garbage of the other. Nothing was deleted. Move one of them to a namespace of "
            "its own.",
            kind="shared-namespace",
        )
    if own is None:
        raise UnsafeToSweepError(
            f"The server's list of repositories does not have {repository.name} at {here.uri}, so it is not whole, or the "
            "repository was deleted meanwhile. Nothing was deleted. Run again.",
            kind="repository-not-listed",
        )
    return own


def _place(repository: Repository, namespace_root: str | None) -> Location | None:
    try:
        return Location.parse(repository.storage_namespace, namespace_root=namespace_root)
    except ConfigError:
        return None  # a place that we can't name is not ours


def _refuse_older_marker(store: ObjectStore, own: Repository, clock_skew: timedelta) -> None:
    """A server marks the namespace of a repository when it makes it; only a bare one is made where a marker is."""
    for key in _MARKERS:
        try:
            written = store.stat(key).last_modified
        except ObjectNotFoundError:
            continue
        # The store tells the one time, the server the other.
        if written is not None and written < own.creation_date - clock_skew:
            raise UnsafeToSweepError(
                f"The namespace {store.root.uri} was marked by a repository at {format_time(written)}, before "
                f"{own.id} was made there at {format_time(own.creation_date)}. If that one lives on in another "
                "lakeFS installation, its data would look like garbage here. Nothing was deleted. If it is gone for "
                f"good, write {key} again (with any content), and run again.",
                kind="older-marker",
            )


def _refuse_other_owner(store: ObjectStore, own: Repository, server: str, *, claim: bool) -> None:
    mine = _Owner(own.id, format_time(own.creation_date))
    noted = _read_note(store)
    if noted is None and claim:
        values = {"schema": _SCHEMA, **asdict(mine), "server": server}
        try:
            data = json.dumps(values, indent=2).encode()
            store.write(NOTE, data, create=True)
        except ObjectExistsError:
            # Two first runs at once: the note of the other one counts.
            noted = _read_note(store)
        except UnsupportedStoreError:
            store.write(NOTE, data)  # the user has vouched that no other run is there
    if noted is not None and noted != mine:
        raise UnsafeToSweepError(
            f"The namespace {store.root.uri} was first collected for the repository {noted.repository} made at "
            f"{noted.created}, and {mine.repository} was made at {mine.created}. Another lakeFS installation may keep "
            "that one here, and its data would look like garbage; or the repository was deleted and made again. Nothing "
            f"was deleted. If no other server uses the namespace any more, delete {NOTE} there, and run again.",
            kind="other-owner",
        )


def _read_note(store: ObjectStore) -> _Owner | None:
    try:
        values = parse_json(store.read(NOTE))
        if values["schema"] != _SCHEMA:
            raise ValueError(f"schema {values['schema']!r}")
        return _Owner(str(values["repository"]), str(values["created"]))
    except ObjectNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise UnsafeToSweepError(
            f"{NOTE} in {store.root.uri}, which says whose the namespace is, can't be read ({error}). Nothing "
            "was deleted. If no other server uses the namespace, delete that file, and run again.",
            kind="other-owner",
        ) from error
