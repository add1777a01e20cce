"""A plain Avro writer for tests and benchmarks: any schema, the object container around it.

Written from the specification and apart from the reader, so that each checks the other.
"""

from __future__ import annotations

import bz2
import json
import lzma
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Branch", "write_avro"]

SYNC = bytes(range(16))


@dataclass(frozen=True, slots=True)
class Branch:
    """A value of a union with the branch it is meant for; other values take null or the first branch that is not."""

    number: int
    value: Any


def write_avro(
    schema: Any,
    objects: Iterable[Any],
    *,
    codec: str = "null",
    per_block: int = 1000,
    metadata: Mapping[str, bytes] | None = None,
    pack: Callable[[bytes], bytes] | None = None,
    sized: bool = False,
) -> bytes:
    """A container file of these objects.

    `pack` packs blocks of a codec that the standard library lacks. `sized` writes arrays and maps in blocks that say
    how many bytes they have.
    """
    pack = pack or _PACKERS[codec]
    header = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    header |= metadata or {}
    pairs = b"".join(_text(name.encode()) + _text(value) for name, value in header.items())
    parts = [b"Obj\x01", _long(len(header)), pairs, _long(0), SYNC]
    encoder = _Encoder(schema, sized)
    encoded = [encoder.encode(schema, one, "") for one in objects]
    for start in range(0, len(encoded), per_block):
        block = encoded[start : start + per_block]
        parts += [_long(len(block)), _text(pack(b"".join(block))), SYNC]
    return b"".join(parts)


class _Encoder:
    def __init__(self, schema: Any, sized: bool) -> None:
        self._sized = sized
        self._named: dict[str, tuple[Any, str]] = {}
        self._collect(schema, "")

    def _collect(self, schema: Any, namespace: str) -> None:
        """Learn all names first: a type may be defined in a branch that no value takes, and be used elsewhere."""
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch, namespace)
        elif isinstance(schema, dict):
            if "name" in schema:
                namespace = self._define(schema, namespace)
            for inner in (schema["type"], schema.get("items"), schema.get("values")):
                self._collect(inner, namespace)
            for field in schema.get("fields", ()):
                self._collect(field["type"], namespace)

    def encode(self, schema: Any, value: Any, namespace: str) -> bytes:
        if isinstance(schema, list):
            number, value = _branch(schema, value)
            return _long(number) + self.encode(schema[number], value, namespace)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                packed: bytes = _PRIMITIVES[schema](value)
                return packed
            full = schema if schema in self._named else f"{namespace}.{schema}"
            named, inside = self._named[full]
            return self.encode(named, value, inside)
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            namespace = self._define(schema, namespace)
        match kind:
            case "record" | "error":
                return b"".join(
                    self.encode(field["type"], value[field["name"]], namespace)
                    for field in schema["fields"]
                )
            case "enum":
                return _long(schema["symbols"].index(value))
            case "fixed":
                return bytes(value)
            case "array":
                return self._items([self.encode(schema["items"], one, namespace) for one in value])
            case "map":
                pairs = value.items()
                return self._items(
                    [
                        _string(key) + self.encode(schema["values"], one, namespace)
                        for key, one in pairs
                    ]
                )
            case _:
                return self.encode(kind, value, namespace)

    def _define(self, schema: dict[str, Any], namespace: str) -> str:
        name = schema["name"]
        if "." in name:
            namespace = name.rpartition(".")[0]
        else:
            namespace = schema.get("namespace", namespace)
            name = f"{namespace}.{name}" if namespace else name
        self._named[name] = (schema, namespace)
        return namespace

    def _items(self, items: Sequence[bytes]) -> bytes:
        """In two blocks where there are two items or more, so that readers go on after the first."""
        half = len(items) // 2
        blocks = [block for block in (items[:half], items[half:]) if block]
        if not self._sized:
            return b"".join(_long(len(one)) + b"".join(one) for one in blocks) + _long(0)
        return b"".join(_long(-len(one)) + _text(b"".join(one)) for one in blocks) + _long(0)


def _branch(schema: list[Any], value: Any) -> tuple[int, Any]:
    if isinstance(value, Branch):
        return value.number, value.value
    if value is None:
        return schema.index("null"), None
    return next(i for i, branch in enumerate(schema) if branch != "null"), value


def _long(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _text(value: bytes) -> bytes:
    return _long(len(value)) + value


def _string(value: str) -> bytes:
    return _text(value.encode())


_PRIMITIVES: dict[str, Any] = {
    "null": lambda _: b"",
    "boolean": lambda value: b"\x01" if value else b"\x00",
    "int": _long,
    "long": _long,
    "float": struct.Struct("<f").pack,
    "double": struct.Struct("<d").pack,
    "bytes": _text,
    "string": _string,
}


_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.compress(data, wbits=-15),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
