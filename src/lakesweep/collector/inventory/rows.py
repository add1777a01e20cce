"""Read the files of an inventory as a listing of one place: on executors, one file after another, each checked as a whole."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.inventory.values import (
    ELSEWHERE,
    INCOMPLETE,
    InventoryFile,
    doubt_about,
    folder_of,
    name_of,
)
from lakesweep.domain.location import Location
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.formats.inventory_files import Layout, read_inventory_file
from lakesweep.storage import LISTING_SCHEMA, StorageOptions, open_store
from lakesweep.storage.keys import odd_mask

# Rows that are no objects of the place, by why.
OUTSIDE, NOT_CURRENT = "outside", "not current"

_BYTES_AT_ONCE = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class InventoryRows:
    """Reads files of an inventory as pages of a listing of one place. Small and picklable: it travels with each task."""

    uri: str
    layout: Layout
    place: Location
    storage: StorageOptions
    has_bucket_column: bool
    begins_with_container: bool

    def pages(self, file: InventoryFile, passed: Counter[str]) -> Iterator[pa.RecordBatch]:
        """Batches of `LISTING_SCHEMA` with keys relative to the place; rows that are none of its objects are counted."""
        with self._fetched(file) as local:
            try:
                for rows in read_inventory_file(local, self.layout):
                    yield self._page(rows, passed)
            except FormatError as error:
                said = error.message.rstrip(".")
                raise FormatError(
                    f"{file} of the inventory {self.uri} can't be used: {said}. Nothing was deleted. "
                    "Name another inventory, or leave --inventory out and the store is listed.",
                    kind=error.kind,
                ) from error

    def _page(self, rows: pa.RecordBatch, passed: Counter[str]) -> pa.RecordBatch:
        self._refuse_other_bucket(rows.column("bucket"))
        # Old versions and delete markers have the keys of objects that may be there, in another state.
        current = rows.filter(rows.column("is_current"))
        keys, prefix = current.column("key"), self._prefix
        inside = current.filter(pc.starts_with(keys, prefix))
        passed[NOT_CURRENT] += rows.num_rows - current.num_rows
        passed[OUTSIDE] += current.num_rows - inside.num_rows
        names = pc.utf8_slice_codeunits(inside.column("key"), len(prefix))
        return pa.RecordBatch.from_arrays(
            [
                names,
                inside.column("size"),
                inside.column("last_modified"),
                pa.nulls(inside.num_rows, pa.string()),
                odd_mask(names),
            ],
            schema=LISTING_SCHEMA,
        )

    @property
    def _prefix(self) -> str:
        """What the keys of the place begin with."""
        parts = (self.place.container if self.begins_with_container else "", self.place.key)
        return "".join(f"{part}/" for part in parts if part)

    def _refuse_other_bucket(self, buckets: pa.Array) -> None:
        if self.has_bucket_column and buckets.null_count:
            raise doubt_about(self.uri, "not every row names its bucket", kind=ELSEWHERE)
        others = buckets.filter(pc.not_equal(buckets, self.place.container))
        if len(others):
            why = f"it lists objects of {others[0].as_py()!r}, and the repository lies in {self.place.uri}"
            raise doubt_about(self.uri, why, kind=ELSEWHERE)

    @contextmanager
    def _fetched(self, file: InventoryFile) -> Iterator[pa.NativeFile]:
        """The whole file on the disk of this machine, after its size and its sum were compared with the promised ones."""
        store, name = open_store(folder_of(file.location), self.storage), name_of(file.location)
        sum_of_all = hashlib.md5(usedforsecurity=False)
        with tempfile.NamedTemporaryFile(prefix="lakesweep-inventory-") as local:
            size = 0
            while True:
                try:
                    chunk = store.read_range(name, size, _BYTES_AT_ONCE)
                except ObjectNotFoundError as error:
                    raise doubt_about(
                        self.uri, f"its file {file} is missing", kind=INCOMPLETE
                    ) from error
                size += len(chunk)
                sum_of_all.update(chunk)
                local.write(chunk)
                if len(chunk) < _BYTES_AT_ONCE:
                    break
            local.flush()
            if file.size is not None and size != file.size:
                why = f"its file {file} has {size} bytes, and {file.size} are promised"
                raise doubt_about(self.uri, why, kind=INCOMPLETE)
            if file.md5 and sum_of_all.hexdigest() != file.md5:
                why = f"its file {file} has not the MD5 sum that is promised"
                raise doubt_about(self.uri, why, kind=INCOMPLETE)
            with pa.OSFile(local.name, "rb") as opened:
                yield opened
