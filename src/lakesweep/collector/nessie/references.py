"""Read what is live (manifests, and files that are known by name) and emit hashes of file names as cells.

A manifest that can't be read arrives as a problem: the meeting goes on, and the plan is never made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.references import (
    GONE,
    LIVE,
    PROTECTING,
    ReferenceCells,
    counts_schema,
)
from lakesweep.collector.nessie.manifest_hashes import HashedManifest, ManifestKeeper, read_pack
from lakesweep.collector.nessie.metadata import Named, in_batches
from lakesweep.collector.nessie.places import TableStores, Unreadable, real_folder
from lakesweep.collector.parts import read_addresses
from lakesweep.collector.target import Target
from lakesweep.domain.file_names import fold
from lakesweep.engine.cells import Hashes
from lakesweep.errors import FormatError
from lakesweep.formats.file_hashes import hash_files, hash_listed_files
from lakesweep.formats.iceberg.manifests import ManifestFiles, Promised, read_manifest

COUNTS_SCHEMA = counts_schema(
    pa.field("problem", pa.string()),  # null: it was read
    pa.field("is_missing", pa.bool_()),  # what the problem is
    pa.field("is_fuller", pa.bool_()),  # more entries than promised
)

# Manifests are mostly small. Names of so many are hashed together.
_MANIFESTS_TOGETHER = 500
_NAMES_TOGETHER = 50_000


@dataclass(frozen=True, slots=True)
class ManifestItem:
    """A manifest to read, what its lists promise of it, and what its files are (LIVE or PROTECTING)."""

    path: str
    promised: Promised
    kind: int
    pack: str = ""  # where an earlier run kept its hashes; empty: nowhere

    @property
    def name(self) -> str:
        return f"manifest:{self.kind}:{self.path}"

    def is_fuller(self, entries: int) -> bool:
        """Whether these are more entries than promised."""
        return self.promised.entries is not None and entries > self.promised.entries


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """Files that the driver knows by name: metadata files, manifest lists, manifests, statistics; or canaries."""

    label: str
    uris: tuple[str, ...]
    kind: int

    @property
    def name(self) -> str:
        return f"named:{self.label}"


@dataclass(frozen=True, slots=True)
class GoneFiles:
    """A file of the ledger: what an earlier, unfinished sweep of the same plan deleted."""

    key: str

    @property
    def name(self) -> str:
        return f"gone:{self.key}"


ReferenceItem = ManifestItem | NamedFiles | GoneFiles


def read_references(
    stores: TableStores,
    own_folder: Target,
    partitions: int,
    kept_in: str,
    items: Iterator[ReferenceItem],
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of hashes by kind, and the counts of every item in one cell per task.

    What is read of manifests is kept in the folder `kept_in`; those of which it is kept already are not read.
    """
    emit = _Emitter(partitions, ManifestKeeper(own_folder.open(), kept_in))
    manifests: dict[str, list[ManifestItem]] = {}
    packs: dict[str, list[ManifestItem]] = {}
    for item in items:
        match item:
            case ManifestItem() if item.pack:
                packs.setdefault(item.pack, []).append(item)
            case ManifestItem():
                manifests.setdefault(item.path, []).append(item)
            case NamedFiles():
                yield from emit.item(item.name, item.kind, pa.array(item.uris, pa.string()))
            case GoneFiles():
                lists = list(read_addresses(own_folder.open().read(item.key), item.key))
                yield from emit.gone(item, pa.chunked_array(lists, pa.string()).combine_chunks())
    for pack, wanted in packs.items():
        kept = read_pack(own_folder.open(), pack)
        for item in wanted:
            known = kept.get(item.path)
            if known is not None and known.serves(item.promised):
                yield from emit.kept(item, known)
            else:
                manifests.setdefault(item.path, []).append(item)
    for path, data in stores.read_many(manifests):
        for item in manifests[path]:
            yield from emit.manifest(item, data)
    yield from emit.rest()


def find_bad_manifests(
    stores: TableStores, items: Iterator[ManifestItem]
) -> Iterator[pa.RecordBatch]:
    """Work function: which of these manifests can't be read, and why."""
    promised = {item.path: item.promised for item in items}

    def hashed(data: bytes, path: str) -> Hashes:
        # Reading is not all: a file name may mean any place.
        return hash_files(read_manifest(data, path, promised[path]).files)

    found = stores.parse_many(promised, hashed)
    return in_batches(Named.unreadable(p, bad) for p, bad in found if isinstance(bad, Unreadable))


def hash_live_files(uris: pa.Array) -> Hashes:
    """Hashes of live files; local ones also by their real path, as a listing may come by another way."""
    hashes = hash_files(uris)
    is_local = pc.or_(pc.starts_with(uris, "file:"), pc.starts_with(uris, "/"))
    if not pc.any(is_local).as_py():
        return hashes
    local = uris.filter(is_local)
    folders = pc.replace_substring_regex(local, r"/[^/]*$", "").dictionary_encode()
    real = pa.array(map(real_folder, folders.dictionary.to_pylist()), pa.string())
    if real.null_count == len(real):
        return hashes
    names = pc.replace_substring_regex(local, r"^.*/", "")
    moved = pc.binary_join_element_wise(real.take(folders.indices), names, "/").drop_null()
    return np.concatenate([hashes, hash_files(moved)])


def names_of_no_place(names: Iterable[str]) -> dict[str, str]:
    """Of these names of files, those that can't be compared with a listing's → why: they mean no file, or any."""
    known = sorted(names)
    _, is_sound = hash_listed_files(pa.array(known, pa.large_string()))
    return {known[number]: _why_not(known[number]) for number in np.flatnonzero(~is_sound)}


def _why_not(name: str) -> str:
    try:
        fold(name)
    except FormatError as error:
        return error.message
    return ""


class _Emitter:
    """Hashes the names of many manifests together, and counts each."""

    def __init__(self, partitions: int, keeper: ManifestKeeper) -> None:
        self._keeper = keeper
        self._cells = ReferenceCells(partitions, COUNTS_SCHEMA)
        self._read: list[tuple[ManifestItem, ManifestFiles, int]] = []
        self._names = 0

    def item(
        self, name: str, kind: int, uris: pa.Array, is_fuller: bool = False
    ) -> Iterator[pa.RecordBatch]:
        hashes = hash_live_files(uris) if kind in (LIVE, PROTECTING) else hash_files(uris)
        self._cells.count(name, kind, len(hashes), entries=len(uris), is_fuller=is_fuller)
        yield from self._cells.add(kind, hashes)

    def gone(self, item: GoneFiles, uris: pa.Array) -> Iterator[pa.RecordBatch]:
        hashes = hash_files(uris)
        self._cells.count(item.name, GONE, len(hashes), entries=len(uris))
        yield from self._cells.add_events(GONE, hashes, order=0)

    def kept(self, item: ManifestItem, known: HashedManifest) -> Iterator[pa.RecordBatch]:
        fuller = item.is_fuller(known.entries)
        self._cells.count(item.name, item.kind, len(known.hashes), pack=item.pack, is_fuller=fuller)
        yield from self._cells.add(item.kind, known.hashes)

    def manifest(self, item: ManifestItem, data: bytes | Unreadable) -> Iterator[pa.RecordBatch]:
        if isinstance(data, Unreadable):
            self._bad(item, data)
            return
        try:
            files = read_manifest(data, item.path, item.promised)
        except FormatError as error:
            self._bad(item, Unreadable(error.message))
            return
        self._read.append((item, files, len(data)))
        self._names += len(files.files)
        if len(self._read) >= _MANIFESTS_TOGETHER or self._names >= _NAMES_TOGETHER:
            yield from self._hash_read()

    def rest(self) -> Iterator[pa.RecordBatch]:
        yield from self._hash_read()
        self._keeper.write()
        yield from self._cells.flush()

    def _hash_read(self) -> Iterator[pa.RecordBatch]:
        """Hash the names of the manifests read so far, those of one kind together."""
        read, self._read, self._names = self._read, [], 0
        for kind in sorted({item.kind for item, _, _ in read}):
            of_kind = [one for one in read if one[0].kind == kind]
            uris = pa.chunked_array([one.files for _, one, _ in of_kind]).combine_chunks()
            try:
                hashes = hash_live_files(uris)
            except FormatError:
                hashes = None
            if hashes is None or len(hashes) != len(uris):
                # A name that is not understood, or files that have two: each manifest answers for its own.
                for item, one, _ in of_kind:
                    yield from self._one_manifest(item, one)
                continue
            start = 0
            for item, one, size in of_kind:
                files = len(one.files)
                own = hashes[start : start + files]
                start += files
                pack = self._keeper.keep(item.path, item.promised, size, one, own)
                fuller = item.is_fuller(one.entries)
                self._cells.count(item.name, kind, files, pack=pack, is_fuller=fuller)
            yield from self._cells.add(kind, hashes)

    def _one_manifest(self, item: ManifestItem, one: ManifestFiles) -> Iterator[pa.RecordBatch]:
        fuller = item.is_fuller(one.entries)
        try:
            yield from self.item(item.name, item.kind, one.files, is_fuller=fuller)
        except FormatError as error:  # a file name that may mean any place
            self._bad(item, Unreadable(error.message))

    def _bad(self, item: ManifestItem, found: Unreadable) -> None:
        missing = found.is_missing
        self._cells.count(item.name, item.kind, 0, problem=found.why, is_missing=missing)
