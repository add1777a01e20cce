"""Where a file lies that was asked for, what the store says of it, and which tables' folders are around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakesweep.collector.nessie.listing import FoundTable, find_tables
from lakesweep.collector.nessie.places import TableStores, location_of, without_links
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError
from lakesweep.formats.file_hashes import hash_listed_files
from lakesweep.storage import ObjectInfo
from lakesweep.storage.keys import is_odd_key

__all__ = ["Whereabouts", "locate", "tables_around"]

# Said of names that no listing gives out as files that could go.
_ODD_NAME = "a name that its store's protocol can't carry unchanged"
_CHECKSUM = "a checksum that Hadoop keeps beside a file"
_CHECKSUM_NAME = re.compile(r"\.[^/]+\.crc")
_INNER_FOLDERS = ("_delta_log/", ".hoodie/")


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """A file as it was asked for and as a listing names it. `info` is None where it is not there."""

    asked: str
    listed: str
    folder: Location
    hash: int
    is_sound: bool  # whether its name can be compared with others
    info: ObjectInfo | None
    protection: str = ""  # why it is no candidate by its name alone


def locate(stores: TableStores, uri: str) -> Whereabouts:
    """Find a file in its store.

    Raises:
        ConfigError: it is no URI of a file.
    """
    location = location_of(uri, is_name=False)
    parent, _, name = location.key.rpartition("/")
    if not name:
        raise ConfigError(f"{uri} names no file. Nothing was touched.", kind="bad-uri")
    folder = without_links(replace(location, key=parent))
    listed = f"{folder.uri}/{name}"
    hashes, sound = hash_listed_files(pa.array([listed], pa.string()))
    is_odd = is_odd_key(f"{folder.key}/{name}")
    info = None if is_odd else stores.open(folder).find(name)
    protection = _ODD_NAME if is_odd else ""
    if folder.kind == "local" and _CHECKSUM_NAME.fullmatch(name):
        protection = _CHECKSUM
    return Whereabouts(uri, listed, folder, int(hashes[0]), bool(sound[0]), info, protection)


def tables_around(
    stores: TableStores, place: Whereabouts, bases: Sequence[Location]
) -> set[FoundTable]:
    """Folders around a file, within the base locations, that look like a table's: what a whole listing would tell of them."""
    found: set[FoundTable] = set()
    for folder in _folders_around(place.folder, bases):
        found |= find_tables(pa.array(list(_names_in(stores, folder)), pa.string()))
    return found


def _folders_around(folder: Location, bases: Sequence[Location]) -> Iterator[Location]:
    """The file's folder and those around it, up to the outermost base location."""
    at = folder
    while any(base.contains(at) or base == at for base in bases):
        yield at
        if not at.key:
            return
        at = replace(at, key=at.key.rpartition("/")[0])


def _names_in(stores: TableStores, folder: Location) -> Iterator[str]:
    """Files by which a table's folder is known: beside the data, in `metadata/`, or in a folder of a format's own."""
    store = stores.open(folder)
    for inner in ("", "metadata/"):
        for key in store.list_folder(inner).objects.column("key").to_pylist():
            yield f"{folder.uri}/{key}"
    for inner in _INNER_FOLDERS:
        key = store.first_key(inner)
        if key is not None:
            yield f"{folder.uri}/{key}"
