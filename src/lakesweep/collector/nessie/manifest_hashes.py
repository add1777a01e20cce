"""Hashes of manifests' files, kept in the work location, so that the second look reads no manifest again.

A manifest never changes once it is written (its writer gives it a name of its own), so what an expiry read of it holds
for every later run on the same live set, under the path and the length that manifest lists give it. A pack holds what one
task read, behind a checksum. Whatever is not as it was kept is read anew: a damaged pack, another length, fewer entries
than a list promises, a local folder that has become a link.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.nessie.places import real_folder
from lakesweep.engine.cells import Hashes
from lakesweep.errors import ObjectNotFoundError
from lakesweep.formats.iceberg.manifests import ManifestFiles, Promised
from lakesweep.storage import ObjectStore

_PACK_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("entries", pa.int64(), nullable=False),  # the deleted ones too
        pa.field("folders", pa.list_(pa.string()), nullable=False),  # local ones of its files
        pa.field("hashes", pa.large_binary(), nullable=False),
    ]
)
_INDEX_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("pack", pa.string(), nullable=False),
    ]
)
_INDEX = "index-"
_SUM_BYTES = 16
_HASHES_PER_PACK = 4_000_000

PackIndex = Mapping[tuple[str, int], str]


class HashedManifest(NamedTuple):
    """The hashes of one manifest's files as an earlier reading kept them, with what tells whether they still serve."""

    length: int
    entries: int
    folders: list[str]
    hashes: Hashes

    def serves(self, promised: Promised) -> bool:
        """Whether these hashes can take the place of reading the manifest: its length and its local folders are unchanged."""
        return (
            promised.length == self.length
            and (promised.entries is None or self.entries >= promised.entries)
            and all(real_folder(folder) is None for folder in self.folders)
        )


class ManifestKeeper:
    """Gathers what one task reads, and writes it as packs."""

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store = store
        self._folder = folder
        self._begin()

    def keep(
        self, path: str, promised: Promised, size: int, read: ManifestFiles, hashes: Hashes
    ) -> str:
        """Keep a manifest, and name its pack; empty where its length is not known or not as promised."""
        if promised.length is None or promised.length != size or len(hashes) != len(read.files):
            return ""
        self._rows.append(
            {
                "path": path,
                "length": size,
                "entries": read.entries,
                "folders": _local_folders(read.files),
                "hashes": hashes.tobytes(),
            }
        )
        self._hashes += len(hashes)
        key = self._key
        if self._hashes >= _HASHES_PER_PACK:
            self.write()
        return key

    def write(self) -> None:
        """Write a pack of the manifests that were kept since the last one."""
        if self._rows:
            self._store.write(self._key, _sealed(self._rows, _PACK_SCHEMA))
        self._begin()

    def _begin(self) -> None:
        self._rows: list[dict[str, object]] = []
        self._hashes = 0
        self._key = f"{self._folder}{uuid.uuid4().hex}.pack"


def read_pack(store: ObjectStore, key: str) -> dict[str, HashedManifest]:
    """What a pack holds, by path; nothing where it is gone or damaged."""
    try:
        data = store.read(key)
    except ObjectNotFoundError:
        return {}
    return {
        row["path"]: HashedManifest(
            row["length"],
            row["entries"],
            row["folders"],
            np.frombuffer(row["hashes"], dtype=np.uint64),
        )
        for row in _unsealed(data, _PACK_SCHEMA).to_pylist()
    }


def load_index(store: ObjectStore, folder: str) -> PackIndex:
    """Which pack holds which manifest; a damaged list of them is passed over."""
    found: dict[tuple[str, int], str] = {}
    for key in list(store.keys(f"{folder}{_INDEX}")):
        paths, lengths, packs = _unsealed(store.read(key), _INDEX_SCHEMA).to_pydict().values()
        found |= dict(zip(zip(paths, lengths, strict=True), packs, strict=True))
    return found


def save_index(store: ObjectStore, folder: str, packs: PackIndex) -> None:
    """Add to the lists of which pack holds which manifest."""
    if not packs:
        return
    rows = [{"path": p, "length": n, "pack": pack} for (p, n), pack in packs.items()]
    store.write(f"{folder}{_INDEX}{uuid.uuid4().hex}", _sealed(rows, _INDEX_SCHEMA))


def _local_folders(uris: pa.Array) -> list[str]:
    is_local = pc.or_(pc.starts_with(uris, "file:"), pc.starts_with(uris, "/"))
    local = uris.filter(is_local)
    found: list[str] = pc.unique(pc.replace_substring_regex(local, r"/[^/]*$", "")).to_pylist()
    return found


def _sealed(rows: list[dict[str, object]], schema: pa.Schema) -> bytes:
    """Rows as a file behind its checksum."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    payload = bytes(sink.getvalue().to_pybytes())
    return _checksum(payload) + payload


def _unsealed(data: bytes, schema: pa.Schema) -> pa.Table:
    """The rows of a sealed file; none where it is damaged."""
    payload = data[_SUM_BYTES:]
    if data[:_SUM_BYTES] != _checksum(payload):
        return schema.empty_table()
    return pa.ipc.open_file(payload).read_all()


def _checksum(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=_SUM_BYTES).digest()
