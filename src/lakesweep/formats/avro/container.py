"""The file around the objects: magic number, metadata, and blocks that each end in the file's sync marker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lakesweep.formats.avro.faults import avro_error

__all__ = ["AvroHeader", "Block", "Container", "open_container"]

_MAGIC = b"Obj\x01"
_ENCRYPTED_MAGIC = b"AGS1"  # Iceberg's own: AES-GCM, block by block
_SYNC_SIZE = 16
_LONGEST_VARINT = 10


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """What a file says of itself: the writer's schema, all its metadata, how its blocks are packed."""

    schema: dict[str, Any]
    metadata: dict[str, bytes]
    codec: str


@dataclass(frozen=True, slots=True)
class Block:
    """So many objects, packed in these bytes."""

    count: int
    packed: memoryview


@dataclass(frozen=True, slots=True)
class Container:
    """A file whose header is sound. Its blocks are checked as they are passed."""

    data: bytes
    metadata: dict[str, bytes]
    body: int  # where the first block begins
    sync: bytes

    @property
    def schema(self) -> bytes:
        """The writer's schema as it stands in the file."""
        return self.metadata["avro.schema"]

    @property
    def codec(self) -> str:
        """How blocks are packed."""
        return self.metadata.get("avro.codec", b"null").decode(errors="replace") or "null"

    def header(self) -> AvroHeader:
        """The same for readers of metadata."""
        try:
            schema = json.loads(self.schema)
        except (ValueError, RecursionError) as error:
            raise avro_error(f"its schema is no JSON ({type(error).__name__})") from error
        if not isinstance(schema, dict):
            raise avro_error("its objects are no records")
        return AvroHeader(schema, self.metadata, self.codec)

    def blocks(self) -> Iterator[Block]:
        """The blocks one after another, to the last byte of the file."""
        view = memoryview(self.data)
        pos = self.body
        while pos < len(view):
            count, after = _read_long(self.data, pos)
            size, start = _read_long(self.data, after)
            if count < 0 or size < 0 or size > len(view) - start - _SYNC_SIZE:
                raise avro_error(f"the block at offset {pos} does not lie within the file")
            end = start + size
            if view[end : end + _SYNC_SIZE] != self.sync:
                raise avro_error(
                    f"the block at offset {pos} does not end in the file's sync marker"
                )
            yield Block(count, view[start:end])
            pos = end + _SYNC_SIZE


def open_container(data: bytes) -> Container:
    """Read the header.

    Raises:
        FormatError: this is no Avro file, or its header is damaged.
    """
    if data.startswith(_ENCRYPTED_MAGIC):
        raise avro_error("it is encrypted, which is not supported")
    if not data.startswith(_MAGIC):
        raise avro_error("it is no Avro file")
    metadata: dict[str, bytes] = {}
    pos = len(_MAGIC)
    while True:
        count, pos = _read_long(data, pos)
        if count == 0:
            break
        if count < 0:
            count = -count
            _, pos = _read_long(data, pos)
        if count > len(data) - pos:
            raise avro_error("its header is damaged")
        for _ in range(count):
            key, pos = _read_bytes(data, pos)
            metadata[key.decode(errors="replace")], pos = _read_bytes(data, pos)
    sync = data[pos : pos + _SYNC_SIZE]
    if len(sync) != _SYNC_SIZE or "avro.schema" not in metadata:
        raise avro_error("its header is cut short or has no schema")
    return Container(data, metadata, pos + _SYNC_SIZE, sync)


def _read_bytes(data: bytes, pos: int) -> tuple[bytes, int]:
    size, pos = _read_long(data, pos)
    if size < 0 or size > len(data) - pos:
        raise avro_error("its header is damaged")
    return data[pos : pos + size], pos + size


def _read_long(data: bytes, pos: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(data[pos : pos + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            if value >> 64:
                break
            return (value >> 1) ^ -(value & 1), pos + shift + 1
    raise avro_error(f"a number at offset {pos} is cut short or too long")
