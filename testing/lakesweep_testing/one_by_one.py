"""Plain readings of one thing at a time, which the product's readers of columns are held against."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakesweep.catalogs.lakefs.uncommitted import UncommittedList
from lakesweep.domain.file_names import fold
from lakesweep.formats.entries import Entry
from lakesweep.formats.hashing import hash_address
from lakesweep.formats.ranges import open_range
from lakesweep.formats.tables import read_uncommitted
from lakesweep.formats.values import split_value
from lakesweep.storage import ObjectStore


def hash_file(path: str) -> int:
    """The hash of one file's folded name."""
    return hash_address(fold(path))


def read_range_entries(data: bytes) -> Iterator[tuple[bytes, bytes, Entry]]:
    """(path, identity, entry) of each object of a range file, in path order."""
    for key, value in open_range(data).records():
        identity, encoded = split_value(value)
        yield key, identity, Entry.decode(encoded)


def read_uncommitted_list(store: ObjectStore, found: UncommittedList) -> Iterator[pa.Table]:
    """The rows of a server's uncommitted list, file by file; after the last, their number is checked."""
    rows = 0
    for _, data in store.read_many(found.files):
        table = read_uncommitted(data)
        rows += table.num_rows
        yield table
    found.assert_rows_read(rows)
