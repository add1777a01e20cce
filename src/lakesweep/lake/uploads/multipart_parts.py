"""Parts of multipart uploads: an object each, and a record that says which object counts for a number."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from lakesweep.formats.xid import new_xid
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.records import decode_record, encode_record, from_micros, to_micros
from lakesweep.lake.values import Repository

_FOLDER = "_lakefs/multipart"


@dataclass(frozen=True, slots=True)
class Part:
    """A stored part. A part sent again is another object, so one that is being joined never changes."""

    number: int
    object_id: str
    etag: str
    size: int
    stored_at: datetime


class Parts:
    """The parts of all uploads under way."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context

    def store(
        self, repository: Repository, upload_id: str, number: int, chunks: Iterable[bytes]
    ) -> Part:
        """Write a part's bytes, then its record."""
        digest = hashlib.md5(usedforsecurity=False)

        def measured() -> Iterator[bytes]:
            for chunk in chunks:
                digest.update(chunk)
                yield chunk

        object_id = f"{number:05d}-{new_xid(self._context.now())}"
        store = self._context.store(repository)
        stored = store.write_stream(_object_key(upload_id, object_id), measured())
        part = Part(number, object_id, digest.hexdigest(), stored.size, self._context.now())
        self._context.kv.set(partition_of(repository), _key(upload_id, number), _encode(part))
        return part

    def all(self, repository: Repository, upload_id: str) -> list[Part]:
        """The parts that count, by number."""
        rows = self._context.rows(repository, _prefix(upload_id))
        return [_decode(raw) for _, raw in rows]

    def read(self, repository: Repository, upload_id: str, part: Part) -> Iterator[bytes]:
        """A part's bytes."""
        return self._context.store(repository).read_stream(_object_key(upload_id, part.object_id))

    def remove_all(self, repository: Repository, upload_id: str) -> None:
        """Remove every part's object, replaced ones too, then the records. Safe to repeat."""
        store = self._context.store(repository)
        for batch in store.list(f"{_FOLDER}/{upload_id}/"):
            store.delete_many(batch.column("key").to_pylist())
        for key, _ in list(self._context.rows(repository, _prefix(upload_id))):
            self._context.kv.delete(partition_of(repository), key)


def _object_key(upload_id: str, object_id: str) -> str:
    return f"{_FOLDER}/{upload_id}/{object_id}"


def _prefix(upload_id: str) -> bytes:
    return f"parts/{upload_id}/".encode()


def _key(upload_id: str, number: int) -> bytes:
    return _prefix(upload_id) + f"{number:05d}".encode()


def _encode(part: Part) -> bytes:
    return encode_record(
        {
            "number": part.number,
            "object": part.object_id,
            "etag": part.etag,
            "size": part.size,
            "at": to_micros(part.stored_at),
        }
    )


def _decode(raw: bytes) -> Part:
    fields = decode_record(raw)
    return Part(
        fields["number"],
        fields["object"],
        fields["etag"],
        fields["size"],
        from_micros(fields["at"]),
    )
