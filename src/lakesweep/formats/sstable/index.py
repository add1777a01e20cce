"""Building a table's index: one entry a data block, in partitions once it grows beyond one block."""

from __future__ import annotations

from lakesweep.formats.proto import encode_varint
from lakesweep.formats.sstable.fill import TARGET_BLOCK_SIZE
from lakesweep.formats.sstable.footer import Handle

__all__ = ["EMPTY_TABLE_KEY", "IndexBuilder", "separator", "successor"]

_SET = bytes([1, 0, 0, 0, 0, 0, 0, 0])
_SEPARATOR = bytes([0x11]) + b"\xff" * 7
# A table without records has one empty block, and this for its index entry.
EMPTY_TABLE_KEY = b"\xff" + bytes(7)
_THRESHOLD = (TARGET_BLOCK_SIZE * 90 + 99) // 100
_LONGEST_HANDLE = 20


def separator(last: bytes, following: bytes) -> bytes:
    """An internal key at least `last` and less than `following`, shorter than `last` where that is possible."""
    short = _between(last, following)
    return short + _SEPARATOR if len(short) <= len(last) and short > last else last + _SET


def successor(last: bytes) -> bytes:
    """An internal key at least `last`, for the last block of a table."""
    for i, byte in enumerate(last):
        if byte != 0xFF:
            short = last[:i] + bytes([byte + 1])
            return short + _SEPARATOR if len(short) <= len(last) and short > last else last + _SET
    return last + _SET


def _between(a: bytes, b: bytes) -> bytes:
    common = 0
    while common < min(len(a), len(b)) and a[common] == b[common]:
        common += 1
    if common == min(len(a), len(b)) or a[common] >= b[common]:
        return a
    if common < len(b) - 1 or a[common] + 1 < b[common]:
        return a[:common] + bytes([a[common] + 1])
    for i in range(common + 1, len(a)):
        if a[i] != 0xFF:
            return a[:i] + bytes([a[i] + 1])
    return a


class _IndexBlock:
    """A block whose every entry is a restart point."""

    def __init__(self) -> None:
        self._entries = bytearray()
        self._restarts: list[int] = []
        self.last_key = b""

    @property
    def estimated_size(self) -> int:
        return len(self._entries) + 4 * len(self._restarts) + 4

    def __len__(self) -> int:
        return len(self._restarts)

    def add(self, key: bytes, handle: Handle) -> None:
        value = handle.encode()
        self._restarts.append(len(self._entries))
        self._entries += b"\0" + encode_varint(len(key)) + encode_varint(len(value)) + key + value
        self.last_key = key

    def payload(self) -> bytes:
        restarts = self._restarts or [0]
        return bytes(self._entries) + b"".join(
            number.to_bytes(4, "little") for number in [*restarts, len(restarts)]
        )

    def ends_before(self, key: bytes) -> bool:
        size = self.estimated_size
        if not self._restarts or size <= _THRESHOLD:
            return False
        # The same rule as for data blocks, with the longest handle for a value.
        grown = size + len(key) + _LONGEST_HANDLE + 4 + 4 + len(encode_varint(len(key))) + 1
        return size >= TARGET_BLOCK_SIZE or grown > TARGET_BLOCK_SIZE


class IndexBuilder:
    """Collects the entries of all data blocks."""

    def __init__(self) -> None:
        self._open = _IndexBlock()
        self._partitions: list[_IndexBlock] = []

    @property
    def open_size(self) -> int:
        """Estimated size of the block that is being filled."""
        return self._open.estimated_size

    def add(self, key: bytes, handle: Handle) -> None:
        """Add the entry of the next data block."""
        if self._open.ends_before(key):
            self._partitions.append(self._open)
            self._open = _IndexBlock()
        self._open.add(key, handle)

    def partitions(self) -> list[tuple[bytes, bytes]]:
        """(last key, payload) of each index block; more than one need an index of their own."""
        return [(block.last_key, block.payload()) for block in [*self._partitions, self._open]]

    @staticmethod
    def top_level(entries: list[tuple[bytes, Handle]]) -> bytes:
        """Payload of the index of index blocks."""
        block = _IndexBlock()
        for key, handle in entries:
            block.add(key, handle)
        return block.payload()
