"""What is known of an inventory before its files are read, and how doubt about one is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lakesweep.domain.location import Location
from lakesweep.errors import FormatError, UnsafeToSweepError
from lakesweep.formats.inventory_files import Layout
from lakesweep.storage import is_odd_key

ELSEWHERE = "inventory-elsewhere"
INCOMPLETE = "inventory-incomplete"


@dataclass(frozen=True, slots=True)
class InventoryFile:
    """One file of an inventory, with the size and the MD5 sum that its manifest promises; None or empty: it does not."""

    location: Location
    size: int | None = None
    md5: str = ""

    def __str__(self) -> str:
        return self.location.uri


@dataclass(frozen=True, slots=True)
class Inventory:
    """A list of objects that a store made at a time. Objects that came later are not in it, and so they are kept."""

    kind: str  # as messages name it
    uri: str  # of its manifest, or of the file or folder where it has none
    taken_at: datetime
    files: tuple[InventoryFile, ...]
    layout: Layout
    bucket: str  # whose objects it lists
    has_bucket_column: bool = False  # every row must name the bucket
    begins_with_container: bool = False  # keys do, and rows of other containers are passed over
    rows: int | None = None  # promised by the manifest
    filters: str = ""  # which objects it leaves out, where the manifest tells


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest as JSON, and where it lies."""

    location: Location
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Location:
        """The folder of the manifest."""
        return folder_of(self.location)

    def text(self, *names: str) -> str:
        """A text of the manifest, by the names of the objects that lead to it."""
        value: Any = self.values
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        if not isinstance(value, str) or not value:
            raise self.damaged(f"it has no {'.'.join(names)}")
        return value

    def file_at(self, folder: Location, name: str) -> Location:
        """A file that the manifest names; one whose name leads out of the folder is none."""
        if is_odd_key(name):
            raise self.damaged(f"it names a file {name!r}, which is no name of one")
        return folder.child(name)

    def damaged(self, why: str) -> FormatError:
        """The error for a manifest that can't be understood."""
        return FormatError(
            f"The manifest of the inventory {self.location.uri} can't be used: {why}. Nothing was deleted. "
            "Name another inventory, or leave --inventory out and the store is listed.",
            kind="bad-inventory",
        )


def folder_of(location: Location) -> Location:
    """The folder that an object lies in."""
    parent = location.key.rpartition("/")[0]
    return Location(location.kind, location.container, parent, location.account, location.endpoint)


def name_of(location: Location) -> str:
    """The last segment of a location."""
    return location.key.rpartition("/")[2]


def doubt_about(uri: str, why: str, *, kind: str) -> UnsafeToSweepError:
    """The error for an inventory that must not be believed."""
    return UnsafeToSweepError(
        f"The inventory {uri} is not used: {why}. Nothing was deleted. Name another inventory, or leave --inventory out "
        "and the store is listed.",
        kind=kind,
    )
