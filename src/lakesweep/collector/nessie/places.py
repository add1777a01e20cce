"""From the URIs that tables write down to the objects they mean."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import TypeVar

from lakesweep.domain.location import Location
from lakesweep.errors import (
    ConfigError,
    FormatError,
    ObjectNotFoundError,
    StorageDeniedError,
    UnsupportedStoreError,
)
from lakesweep.storage import ObjectStore, StorageOptions, open_store
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.parallel import ordered_parallel

# A local file is read sooner than it is handed to a thread, unless its disk is far away or slow.
_SLOW_READ_SECONDS = 1e-3
_SLOW_READS = 8  # more than so many, and more than one read in so many, are no accident

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A live file that can't be read: as long as nobody knows what it names, nothing may be deleted."""

    why: str
    is_missing: bool = False  # it is not there; any other trouble is doubt of another kind


@dataclass(frozen=True, slots=True)
class TableStores:
    """All stores that tables lie in, and how to reach them; small and picklable."""

    storage: StorageOptions
    files_in_flight: int = 32  # of one task

    def open(self, location: Location) -> ObjectStore:
        """The store rooted at a folder."""
        return open_store(location, self.storage)

    def open_for_deletes(self, folder: Location) -> ObjectStore:
        """The store of a folder to delete from.

        Local files are looked at one by one, as handing each to a thread takes longer than the look.

        Stores of several folders may be used at once: none waits for another.
        """
        if folder.kind != "local":
            return self.open(folder)
        one = open_store(folder, replace(self.storage, max_requests_in_flight=1))
        return ObjectStore(one.root, one.backend, one.options, CongestionControl(1))

    def read(self, uri: str) -> bytes | Unreadable:
        """A whole file. Missing, forbidden or not understood is `Unreadable`; a store out of reach is an error."""
        try:
            folder, name = split_file(location_of(uri))
            return self.open(folder).read_exactly(name)
        except ObjectNotFoundError as error:
            return Unreadable(error.message, is_missing=True)
        except (
            ConfigError,
            StorageDeniedError,
            UnsupportedStoreError,
        ) as error:
            return Unreadable(error.message)

    def read_many(self, uris: Iterable[str]) -> Iterator[tuple[str, bytes | Unreadable]]:
        """(uri, what `read` says) in the order of `uris`: many at once, or one after another where local files come fast."""
        waiting = iter(uris)
        slow = 0
        for number, uri in enumerate(waiting):
            is_far = slow > _SLOW_READS + number // _SLOW_READS
            if is_far or not uri.startswith(("/", "file:")):
                rest = chain([uri], waiting)
                yield from ordered_parallel(self.read, rest, self.files_in_flight)
                return
            began = time.monotonic()
            data = self.read(uri)
            slow += time.monotonic() - began > _SLOW_READ_SECONDS
            yield uri, data

    def parse_many(
        self, uris: Iterable[str], parse: Callable[[bytes, str], Parsed]
    ) -> Iterator[tuple[str, Parsed | Unreadable]]:
        """(uri, what `parse` makes of the file); `Unreadable`, too, where it is damaged."""
        for uri, data in self.read_many(uris):
            try:
                yield uri, data if isinstance(data, Unreadable) else parse(data, uri)
            except FormatError as error:
                yield uri, Unreadable(error.message)


def location_of(uri: str, *, is_name: bool = True) -> Location:
    """The place of a URI in metadata or in a listing, where a bare path means a local file. What people type is no name:
    a signature may stand behind it."""
    return Location.parse(f"file://{uri}" if uri.startswith("/") else uri, is_name=is_name)


def split_file(location: Location) -> tuple[Location, str]:
    """The store to open for one object, and its key there.

    A bucket is opened as a whole. A local file is opened through its folder, which may lie behind a link.
    """
    if location.kind != "local":
        return replace(location, key=""), location.key
    folder, _, name = location.key.rpartition("/")
    return replace(location, key=folder), name


def table_folder(metadata_location: str) -> str:
    """Where a table with this metadata file could keep its files: the folder that `metadata/` is in, else the file's own."""
    folder = metadata_location.rpartition("/")[0]
    return folder.removesuffix("/metadata")


def without_links(location: Location) -> Location:
    """A local folder by its real path, so that two ways to one folder are one place; others as they are."""
    if location.kind != "local":
        return location
    return replace(location, key=_real_folder(f"/{location.key}").lstrip("/"))


@lru_cache(maxsize=100_000)
def _real_folder(path: str) -> str:
    return os.path.realpath(path)


def real_folder(folder: str) -> str | None:
    """The folder's real path as a URI, or None where it is the same."""
    location = location_of(folder) if folder not in ("", "file:", "file://") else None
    if location is None:
        return None
    real = without_links(location)
    return real.uri if real != location else None
