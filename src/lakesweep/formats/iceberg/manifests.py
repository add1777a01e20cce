"""Manifest lists and manifests: the paths they name, and nothing else of them.

An Avro file does not say how many objects it has in all, so one cut off between two blocks looks whole. The manifest
list tells how long each manifest is and how many entries it has; who reads a manifest passes these numbers on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lakesweep.errors import FormatError
from lakesweep.formats.avro.container import Container, open_container
from lakesweep.formats.avro.reader import columns_of
from lakesweep.formats.damage import named_damage

__all__ = ["ManifestFiles", "ManifestList", "Promised", "read_manifest", "read_manifest_list"]

_KNOWN_VERSIONS = (b"1", b"2", b"3")
_EXISTING, _ADDED, _DELETED = range(3)
# Files were called data files before there were delete files; the numbers mean the same.
_COUNTS = tuple(
    (f"{status}_files_count", f"{status}_data_files_count")
    for status in ("added", "existing", "deleted")
)
_LIST_COLUMNS = (
    "manifest_path",
    "manifest_length",
    "key_metadata",
    *(name for names in _COUNTS for name in names),
)
_MANIFEST_COLUMNS = ("status", "data_file.file_path")


class Promised(NamedTuple):
    """What manifest lists say of one manifest; None: they do not say."""

    entries: int | None = None  # the deleted ones too
    length: int | None = None  # bytes

    def at_least(self, other: Promised) -> Promised:
        """The larger of both promises."""
        return Promised(_larger(self.entries, other.entries), _larger(self.length, other.length))


@dataclass(frozen=True, slots=True)
class ManifestList:
    """The manifests of one snapshot, and what the list says of each."""

    paths: list[str]
    promised: list[Promised]
    live_entries: int | None  # of all manifests together; None where one's are not known


@dataclass(frozen=True, slots=True)
class ManifestFiles:
    """The files that a manifest holds, and how many entries it has, the deleted ones too."""

    files: pa.StringArray
    entries: int


def read_manifest_list(data: bytes, what: str) -> ManifestList:
    """The manifests that a manifest list names, data and deletes alike.

    Args:
        data: the whole file.
        what: the file's name for messages.

    Raises:
        FormatError: damage, no manifest list, or manifests that are encrypted.
    """
    with named_damage(what):
        batch = columns_of(_opened(data), _LIST_COLUMNS)
        paths = _required(batch, "manifest_path", pa.string(), "manifest list")
        if any(_optional(batch, "key_metadata", pa.binary()) or ()):
            raise _error("it names encrypted manifests, which are not supported")
        if not all(paths := paths.to_pylist()):
            raise _error("it names a manifest without a path")
        lengths = _optional(batch, "manifest_length", pa.int64()) or [None] * len(paths)
        statuses = [_either(batch, *names) for names in _COUNTS]
        promised = list(map(Promised._make, zip(_sums(*statuses), lengths, strict=True)))
        live = _sums(*statuses[:2])
        known = [count for count in live if count is not None]
        return ManifestList(paths, promised, sum(known) if len(known) == len(live) else None)


def read_manifest(data: bytes, what: str, promised: Promised) -> ManifestFiles:
    """The files that a manifest's entries hold: those added or existing; deleted ones are not of this snapshot.

    Args:
        data: the whole file.
        what: the file's name for messages.
        promised: what manifest lists say of it. More entries than promised are no damage: some writers always say 1.

    Raises:
        FormatError: damage, no manifest, shorter or with fewer entries than promised, or an entry of unknown status.
    """
    with named_damage(what):
        if promised.length is not None and len(data) < promised.length:
            raise _error(
                f"it is {len(data)} bytes long and its manifest list promises {promised.length}"
            )
        batch = columns_of(_opened(data), _MANIFEST_COLUMNS)
        if promised.entries is not None and batch.num_rows < promised.entries:
            raise _error(
                f"it has {batch.num_rows} entries and its manifest list promises {promised.entries}"
            )
        status = _required(batch, "status", pa.int32(), "manifest").to_numpy(zero_copy_only=False)
        paths = _required(batch, "data_file.file_path", pa.string(), "manifest")
        if np.any((status < _EXISTING) | (status > _DELETED)):
            raise _error("an entry is of unknown status")
        is_live = status != _DELETED
        files = paths if is_live.all() else paths.filter(pa.array(is_live))
        return ManifestFiles(files, batch.num_rows)


def _opened(data: bytes) -> Container:
    container = open_container(data)
    version = container.metadata.get("format-version")
    if version is not None and version not in _KNOWN_VERSIONS:
        raise _error(f"its format version {version[:20]!r} is not known")
    return container


def _required(batch: pa.RecordBatch, column: str, type_: pa.DataType, kind: str) -> pa.Array:
    found = batch.column(column)
    if found.type != type_:
        raise _error(f"it is not a {kind}: its schema has no column {column} of type {type_}")
    if found.null_count:
        raise _error(f"its column {column} has a null in it")
    return found


def _optional(batch: pa.RecordBatch, column: str, *types: pa.DataType) -> list[Any] | None:
    """The column's values; None if the writer's schema does not have it."""
    found = batch.column(column)
    if found.type == pa.null():
        return None
    if found.type not in types:
        raise _error(f"its column {column} is of the wrong type {found.type}")
    values: list[Any] = found.to_pylist()
    return values


def _sums(*counts: list[Any]) -> list[int | None]:
    """The sum for each manifest; None where one of the numbers is not known."""
    rows = zip(*counts, strict=True)
    if all(None not in count and min(count, default=0) >= 0 for count in counts):
        return list(map(sum, rows))
    return [None if None in some or min(some) < 0 else sum(some) for some in rows]


def _either(batch: pa.RecordBatch, name: str, old_name: str) -> list[Any]:
    """Numbers by their new name or their old one. Some writers put -1 where they did not count."""
    now, then = (_optional(batch, one, pa.int32(), pa.int64()) for one in (name, old_name))
    if now is None or then is None:
        return now or then or [None] * batch.num_rows
    return [b if a is None else a for a, b in zip(now, then, strict=True)]


def _larger(one: int | None, other: int | None) -> int | None:
    return max((number for number in (one, other) if number is not None), default=None)


def _error(why: str) -> FormatError:
    return FormatError(why, kind="damaged-manifest")
