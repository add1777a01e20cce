"""The record of metadata files, manifest lists and manifests that our own sweeps deleted.

A later run finds some of them missing where an old commit is live again (a tag, a reset, a longer policy), and must tell
"collected by us" from "lost". Tasks write the names before they delete, so a killed sweep leaves none out, and write
them again without those that stayed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.collector.nessie.places import location_of, without_links
from lakesweep.collector.parts import read_addresses
from lakesweep.collector.target import own_name
from lakesweep.domain.file_names import fold
from lakesweep.engine.cells import is_in
from lakesweep.errors import ConfigError, FormatError
from lakesweep.formats.file_hashes import hash_listed_files
from lakesweep.formats.hashing import hash_addresses
from lakesweep.storage import ObjectStore

logger = logging.getLogger(__name__)

FOLDER = "collected/"

# Most of what is swept. No metadata file, manifest list or manifest is called so.
_DATA_FILES = (".parquet", ".orc", ".puffin", ".stats", ".bin")


class CollectedNames:
    """What one chunk of a sweep deletes, kept for good."""

    def __init__(self, store: ObjectStore, chunk: str) -> None:
        self._store = store
        self._key = own_name(FOLDER, chunk, ".parquet")
        self._written: list[str] = []

    def write(self, uris: Iterable[str]) -> None:
        """Put these names on the record, in place of those written before; data files are left out."""
        names = [uri for uri in uris if not uri.endswith(_DATA_FILES)]
        if names == self._written:
            return
        if names:
            sink = pa.BufferOutputStream()
            table = pa.table({"address": pa.array(names, pa.string())})
            pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
            self._store.write(self._key, sink.getvalue().to_pybytes())
        else:
            self._store.delete_many([self._key])
        self._written = names


def find_collected(store: ObjectStore, wanted: Sequence[str]) -> set[str]:
    """Which of these files are on the record, in whatever spelling. A part that is damaged says nothing."""
    spellings = {spelling: uri for uri in wanted for spelling in _spellings(uri)}
    if not spellings:
        return set()
    hashes = np.sort(hash_addresses(pa.array(list(spellings), pa.string())))
    found: set[str] = set()
    for key in store.keys(FOLDER):
        try:
            for names in read_addresses(store.read(key), key):
                near = is_in(hash_listed_files(names)[0], hashes)
                for name in names.filter(pa.array(near)).to_pylist():
                    found |= {spellings[s] for s in _spellings(name) if s in spellings}
        except FormatError as error:
            logger.warning("a part of the record of collected files is left out: %s", error)
    return found


def _spellings(uri: str) -> set[str]:
    """The folded name of a file and, where a local folder lies behind a link, that of its real place."""
    try:
        return {fold(uri), fold(without_links(location_of(uri)).uri)}
    except (ConfigError, FormatError):
        return set()
