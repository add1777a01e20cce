"""A table's properties: what its writer says about it, checked against what is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lakesweep.errors import FormatError
from lakesweep.formats.proto import encode_varint, read_varint
from lakesweep.formats.sstable.survey import MUST_BE_ZERO

__all__ = ["Properties", "encode_block", "read_block_pairs"]

_PREFIX = "rocksdb."
_INDEX_TYPE = "rocksdb.block.based.table.index.type"
_BINARY_SEARCH, _TWO_LEVEL = 0, 2
# What Pebble writes in every table, whatever it holds.
_CONSTANT_NUMBERS = (
    "creation.time",
    "deleted.keys",
    "filter.size",
    "fixed.key.length",
    "format.version",
    "index.key.is.user.key",
    "index.value.is.delta.encoded",
    "merge.operands",
    "num.range-deletions",
    "oldest.key.time",
)
_CONSTANTS: dict[str, bytes] = {
    **{_PREFIX + name: b"\0" for name in _CONSTANT_NUMBERS},
    "rocksdb.block.based.table.prefix.filtering": b"0",
    "rocksdb.block.based.table.whole.key.filtering": b"0",
    "rocksdb.column.family.id": encode_varint(2**31 - 1),
    "rocksdb.comparator": b"leveldb.BytewiseComparator",
    "rocksdb.compression": b"Snappy",
    "rocksdb.compression_options": (
        b"window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; zstd_max_train_bytes=0; enabled=0; "
    ),
    "rocksdb.external_sst_file.global_seqno": bytes(8),
    "rocksdb.external_sst_file.version": (2).to_bytes(4, "little"),
    "rocksdb.merge.operator": b"pebble.concatenate",
    "rocksdb.prefix.extractor.name": b"nullptr",
    "rocksdb.property.collectors": b"[static]",
}


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties that matter to a reader. `user` holds those that lakeFS itself set."""

    num_entries: int
    num_data_blocks: int
    raw_key_size: int
    raw_value_size: int
    data_size: int
    index_size: int
    index_partitions: int = 0
    top_level_index_size: int = 0
    user: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def is_two_level(self) -> bool:
        """Whether the index is itself indexed."""
        return self.index_partitions > 0

    def encode(self) -> bytes:
        """The payload of the properties block."""
        numbers = {
            "data.size": self.data_size,
            "index.size": self.index_size,
            "num.data.blocks": self.num_data_blocks,
            "num.entries": self.num_entries,
            "raw.key.size": self.raw_key_size,
            "raw.value.size": self.raw_value_size,
        }
        if self.is_two_level:
            numbers["index.partitions"] = self.index_partitions
            numbers["top-level.index.size"] = self.top_level_index_size
        index_type = _TWO_LEVEL if self.is_two_level else _BINARY_SEARCH
        pairs = {
            **self.user,
            **_CONSTANTS,
            **{_PREFIX + name: encode_varint(value) for name, value in numbers.items()},
            _INDEX_TYPE: index_type.to_bytes(4, "little"),
        }
        return encode_block(sorted((key.encode(), value) for key, value in pairs.items()))

    @classmethod
    def decode(cls, payload: bytes) -> Properties:
        """The properties in a block's payload. Raises FormatError for a table of a kind lakeFS does not write."""
        pairs = {key.decode("utf-8", "replace"): value for key, value in read_block_pairs(payload)}
        for name in MUST_BE_ZERO:
            if _number(pairs, name, absent=0) != 0:
                raise _unknown(f"{_PREFIX}{name} is not 0")
        comparator = pairs.get("rocksdb.comparator", b"")
        if comparator not in (b"", _CONSTANTS["rocksdb.comparator"]):
            raise _unknown(f"its keys are ordered by {comparator!r}")
        index_type = int.from_bytes(pairs.get(_INDEX_TYPE, bytes(4)), "little")
        if index_type not in (_BINARY_SEARCH, _TWO_LEVEL):
            raise _unknown(f"its index is of type {index_type}")
        partitions = _number(pairs, "index.partitions", absent=0)
        if (index_type == _TWO_LEVEL) != (partitions > 0):
            raise _unknown(f"its index is of type {index_type} with {partitions} partitions")
        return cls(
            num_entries=_number(pairs, "num.entries"),
            num_data_blocks=_number(pairs, "num.data.blocks"),
            raw_key_size=_number(pairs, "raw.key.size"),
            raw_value_size=_number(pairs, "raw.value.size"),
            data_size=_number(pairs, "data.size"),
            index_size=_number(pairs, "index.size"),
            index_partitions=partitions,
            top_level_index_size=_number(pairs, "top-level.index.size", absent=0),
            user={key: value for key, value in pairs.items() if not key.startswith(_PREFIX)},
        )


def encode_block(pairs: list[tuple[bytes, bytes]]) -> bytes:
    """A block with a single restart point, keys sharing prefixes: how properties are stored."""
    out = bytearray()
    last = b""
    for key, value in pairs:
        shared = 0
        while shared < min(len(last), len(key)) and last[shared] == key[shared]:
            shared += 1
        out += encode_varint(shared) + encode_varint(len(key) - shared) + encode_varint(len(value))
        out += key[shared:] + value
        last = key
    return bytes(out) + bytes(4) + (1).to_bytes(4, "little")


def read_block_pairs(payload: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each entry of a small block (properties, metaindex)."""
    restarts = int.from_bytes(payload[-4:], "little")
    end = len(payload) - 4 * (restarts + 1)
    if restarts < 1 or end < 0:
        raise FormatError(
            "table file is damaged: a block's restart points do not fit it", kind="damaged-table"
        )
    entries = payload[:end]
    pos, key = 0, b""
    while pos < end:
        shared, pos = read_varint(entries, pos)
        unshared, pos = read_varint(entries, pos)
        value_size, pos = read_varint(entries, pos)
        if shared > len(key) or unshared + value_size > end - pos:
            raise FormatError(
                "table file is damaged: a property reaches beyond its block", kind="damaged-table"
            )
        key = key[:shared] + entries[pos : pos + unshared]
        pos += unshared
        yield key, entries[pos : pos + value_size]
        pos += value_size


def _number(pairs: Mapping[str, bytes], name: str, absent: int | None = None) -> int:
    raw = pairs.get(_PREFIX + name)
    if raw is None:
        if absent is None:
            raise _unknown(f"it does not say {_PREFIX}{name}")
        return absent
    value, pos = read_varint(raw, 0)
    if pos != len(raw) or value >> 63:
        raise _unknown(f"{_PREFIX}{name} is not a number: {raw.hex()}")
    return value


def _unknown(complaint: str) -> FormatError:
    return FormatError(f"table file of an unknown kind: {complaint}", kind="unknown-table")
