"""Small uploads that wait for the disk together.

An upload is answered when its bytes and its entry are on the disk. Many small ones that wait at the same time are
written one after the other and then waited for once. Each is still answered for itself: where one of them fails, all
are done again alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.formats.entries import Entry
from lakesweep.lake.addresses.slices import Slices
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.names import path_key
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.staging.descriptions import check_description
from lakesweep.lake.staging.staged_values import encode_staged, stats_of
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.values import NO_METADATA, ObjectStats, Repository

MOST_BYTES = 64 * 1024
"""Of one small body: what an event loop may hash without keeping others waiting."""

_NEAR = frozenset({"local", "mem"})


@dataclass(frozen=True, slots=True)
class SmallUpload:
    """A body that is all here, and where it goes."""

    repository: Repository
    branch_id: str
    path: str
    body: bytes
    content_type: str
    metadata: Mapping[str, str]

    def entry(self, address: str, context: LakeContext) -> Entry:
        """What is staged once the bytes are stored."""
        return Entry(
            address=address,
            last_modified=context.now(),
            size=len(self.body),
            e_tag=hashlib.md5(self.body, usedforsecurity=False).hexdigest(),
            metadata=dict(self.metadata),
            content_type=self.content_type,
        )


@dataclass(eq=False, repr=False)
class SmallUploads:
    """Stores several small objects, of any repositories and branches, at the price of a few."""

    _context: LakeContext
    _branches: Branches
    _staging: Staging
    _slices: Slices

    def prepare(
        self,
        repository: Repository,
        branch_id: str,
        path: str,
        chunks: Iterable[bytes],
        *,
        content_type: str = "",
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> SmallUpload | None:
        """The upload, checked; None where the object store is another machine's, and so better asked in parallel."""
        if self._context.store(repository).root.kind not in _NEAR:
            return None
        path_key(path)
        check_description(content_type=content_type, metadata=metadata)
        self._branches.read(repository, branch_id)
        return SmallUpload(repository, branch_id, path, b"".join(chunks), content_type, metadata)

    def store(self, uploads: Sequence[SmallUpload]) -> list[ObjectStats | Exception]:
        """Store and stage them, and say of each what became of it."""
        try:
            return [*self._store_together(uploads)]
        except Exception as error:  # noqa: BLE001 (each upload's client is told)
            if len(uploads) == 1:
                return [error]
        # What was stored by then is in no entry, or its entry is written over.
        return [outcome for upload in uploads for outcome in self.store([upload])]

    def _store_together(self, uploads: Sequence[SmallUpload]) -> list[ObjectStats]:
        addresses = [self._slices.new_address() for _ in uploads]
        bodies: dict[str, list[tuple[str, bytes]]] = {}
        repositories = {partition_of(upload.repository): upload.repository for upload in uploads}
        for upload, address in zip(uploads, addresses, strict=True):
            bodies.setdefault(partition_of(upload.repository), []).append((address, upload.body))
        for partition, objects in bodies.items():
            self._context.store(repositories[partition]).write_new(objects)
        staged: dict[tuple[str, str], list[Row]] = {}
        stats: list[ObjectStats] = []
        for upload, address in zip(uploads, addresses, strict=True):
            entry = upload.entry(address, self._context)
            place = (partition_of(upload.repository), upload.branch_id)
            staged.setdefault(place, []).append((path_key(upload.path), encode_staged(entry)))
            stats.append(stats_of(upload.repository, upload.path, entry))
        for (partition, branch_id), rows in staged.items():
            self._staging.write_many(repositories[partition], branch_id, rows)
        return stats
