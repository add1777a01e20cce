"""The file around the objects: magic number, metadata, and blocks that each end in the file's sync marker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakesweep.formats.avro.faults import avro_error, fault_error
from lakesweep.formats.avro.scan import SMALLEST_BLOCK, SYNC_SIZE, find_blocks

__all__ = ["Blocks", "Container", "open_container"]

Ints = npt.NDArray[np.int64]

_MAGIC = b"Obj\x01"
_ENCRYPTED_MAGIC = b"AGS1"  # Iceberg's own: AES-GCM, block by block
_LONGEST_VARINT = 10


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """How many objects each block has, and where its packed bytes lie in the file."""

    counts: Ints
    starts: Ints
    ends: Ints


@dataclass(frozen=True, slots=True)
class Container:
    """A file whose header is sound. Its blocks are checked as they are passed."""

    data: bytes
    metadata: dict[str, bytes]
    body: int  # where the sync marker has ended and the first block begins

    @property
    def schema(self) -> bytes:
        """The writer's schema as it stands in the file."""
        return self.metadata["avro.schema"]

    @property
    def codec(self) -> str:
        """How blocks are packed."""
        return self.metadata.get("avro.codec", b"null").decode(errors="replace") or "null"

    def blocks(self) -> Blocks:
        """All blocks, which follow one another to the last byte of the file."""
        view = np.frombuffer(self.data, np.uint8)
        most = (len(view) - self.body) // SMALLEST_BLOCK + 1
        counts, starts, ends = (np.empty(most, np.int64) for _ in range(3))
        found, where = find_blocks(view, self.body, counts, starts, ends)
        if found < 0:
            raise fault_error(found, f"the block at offset {where}", 0)
        return Blocks(counts[:found], starts[:found], ends[:found])


def open_container(data: bytes) -> Container:
    """Read the header.

    Raises:
        FormatError: this is not an Avro file, or its header is damaged.
    """
    if data.startswith(_ENCRYPTED_MAGIC):
        raise avro_error("it is encrypted, which is not supported")
    if not data.startswith(_MAGIC):
        raise avro_error("it is not an Avro file")
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
    pos += SYNC_SIZE
    if pos > len(data) or "avro.schema" not in metadata:
        raise avro_error("its header is cut short or has no schema")
    return Container(data, metadata, pos)


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
