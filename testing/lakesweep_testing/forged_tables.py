"""Table files with sound checksums and false contents, for tests that a reader sees through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lakesweep.formats.proto import encode_varint
from lakesweep.formats.sstable.checksum import masked_crc32c
from lakesweep.formats.sstable.footer import Footer, Handle
from lakesweep.formats.sstable.properties import Properties, encode_block, read_block_pairs

__all__ = ["SET_TRAILER", "ForgedTable", "block_of", "entry_of", "snappy_literal"]

SET_TRAILER = bytes([1, 0, 0, 0, 0, 0, 0, 0])
Handles = Sequence[tuple[bytes, Handle]]


def entry_of(
    key: bytes,
    value: bytes,
    *,
    shared: int = 0,
    unshared: int | None = None,
    value_size: int | None = None,
) -> bytes:
    """A block's entry whose header says what the caller wants. `key` includes its trailer."""
    sizes = (
        shared,
        len(key) if unshared is None else unshared,
        len(value) if value_size is None else value_size,
    )
    return b"".join(encode_varint(size) for size in sizes) + key + value


def block_of(
    entries: Sequence[bytes], restarts: Sequence[int] = (0,), restart_count: int | None = None
) -> bytes:
    """A block's payload."""
    count = len(restarts) if restart_count is None else restart_count
    return b"".join(entries) + b"".join(
        number.to_bytes(4, "little") for number in [*restarts, count]
    )


def snappy_literal(payload: bytes, claimed_size: int | None = None) -> bytes:
    """A snappy stream that holds `payload` unpacked, and says it unpacks to `claimed_size`."""
    size = len(payload) if claimed_size is None else claimed_size
    chunks = [payload[at : at + 60] for at in range(0, len(payload), 60)]
    return encode_varint(size) + b"".join(
        bytes([(len(chunk) - 1) << 2]) + chunk for chunk in chunks
    )


@dataclass(frozen=True, slots=True)
class ForgedTable:
    """What to put into the file; `change_…` let a test spoil one part and leave the rest consistent."""

    blocks: Sequence[bytes]
    num_entries: int
    kind: int = 0
    user: Mapping[str, bytes] = field(default_factory=lambda: {"type": b"ranges"})
    count: int | None = None
    raw_key_size: int = 1 << 20
    change_index: Callable[[Handles], Handles] = lambda handles: handles
    change_properties: Callable[[dict[str, bytes]], None] = lambda pairs: None
    change_footer: Callable[[Footer], Footer] = lambda footer: footer
    # Name ("index", "properties" or "metaindex") and payload of a block → the payload that is written.
    change_payload: Callable[[str, bytes], bytes] = lambda name, payload: payload

    def build(self) -> bytes:
        """The file's bytes."""
        out = bytearray()
        handles = [
            ((1 + number).to_bytes(2, "big") + SET_TRAILER, _append(out, block, self.kind))
            for number, block in enumerate(self.blocks)
        ]
        data_size = len(out)
        index_entries = [
            entry_of(key, handle.encode()) for key, handle in self.change_index(handles)
        ]
        starts = [sum(map(len, index_entries[:i])) for i in range(len(index_entries))] or [0]
        index = _append(out, self.change_payload("index", block_of(index_entries, starts)))
        properties = Properties(
            num_entries=self.num_entries,
            num_data_blocks=len(index_entries),
            raw_key_size=self.raw_key_size,
            raw_value_size=0,
            data_size=data_size,
            index_size=0,
            user={
                "count": str(self.num_entries if self.count is None else self.count).encode(),
                **self.user,
            },
        )
        changed = self._changed(properties.encode())
        properties_handle = _append(out, self.change_payload("properties", changed))
        payload = encode_block([(b"rocksdb.properties", properties_handle.encode())])
        metaindex = _append(out, self.change_payload("metaindex", payload))
        return bytes(out) + self.change_footer(Footer(metaindex, index)).encode()

    def _changed(self, payload: bytes) -> bytes:
        pairs = {key.decode(): value for key, value in read_block_pairs(payload)}
        self.change_properties(pairs)
        return encode_block(sorted((key.encode(), value) for key, value in pairs.items()))


def _append(out: bytearray, payload: bytes, kind: int = 0) -> Handle:
    handle = Handle(len(out), len(payload))
    checked = np.frombuffer(payload + bytes([kind]), np.uint8)
    out += (
        payload + bytes([kind]) + int(masked_crc32c(checked, 0, checked.size)).to_bytes(4, "little")
    )
    return handle
