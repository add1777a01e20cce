"""What holds for every Avro file, whatever its schema and however it was damaged."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError
from lakesweep.formats.avro.reader import read_columns
from lakesweep.formats.iceberg.manifests import Promised, read_manifest, read_manifest_list
from lakesweep_testing.avro_writer import Branch, write_avro

FUZZ_SECONDS = 2.0
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "string": TEXTS,
    "bytes": st.binary(max_size=12),
}
SKIPPED_LEAVES = LEAVES | {"null": st.none(), "float": st.just(1.5), "double": st.just(-2.5)}
CODECS: dict[str, Callable[[bytes], bytes] | None] = {
    "null": None,
    "deflate": None,
    "bzip2": None,
    "xz": None,
    "zstandard": lambda data: bytes(cramjam.zstd.compress(data)),
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4),
}
Typed = tuple[Any, st.SearchStrategy[Any]]  # a schema and the values it may have


class Types:
    """Draws types and remembers the named ones, so that later ones may refer to them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._named: list[Typed] = []
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def readable(self) -> Typed:
        """A type that can be a column, perhaps in a union with null."""
        kind = self._draw(st.sampled_from([*LEAVES, "enum", "fixed"]))
        typed = (kind, LEAVES[kind]) if kind in LEAVES else self._named_leaf(kind)
        match self._draw(st.integers(0, 2)):
            case 0:
                return ["null", typed[0]], st.none() | typed[1]
            case 1:
                return [typed[0], "null"], st.none() | typed[1]
            case _:
                return typed

    def any(self, depth: int, *, in_union: bool = False) -> Typed:
        """Any type at all, for what is passed over."""
        kinds = [*SKIPPED_LEAVES, "enum", "fixed", "node", "again", "logical"]
        kinds += ["record", "array", "map"] if depth else []
        kinds += (
            ["union"] if depth and not in_union else []
        )  # Avro has no union right inside a union
        kind = self._draw(st.sampled_from(kinds))
        if kind in SKIPPED_LEAVES:
            return kind, SKIPPED_LEAVES[kind]
        match kind:
            case "enum" | "fixed":
                return self._named_leaf(kind)
            case "logical":
                return {"type": "long", "logicalType": "timestamp-micros"}, LONGS
            case "again" if self._named:
                return self._draw(st.sampled_from(self._named))
            case "node" | "again":
                return self._node()
            case "array":
                items, values = self.any(depth - 1)
                return {"type": "array", "items": items}, st.lists(values, max_size=3)
            case "map":
                items, values = self.any(depth - 1)
                return {"type": "map", "values": items}, st.dictionaries(TEXTS, values, max_size=3)
            case "union":
                return self._union(depth)
            case _:
                return self.record(
                    [self.any(depth - 1) for _ in range(self._draw(st.integers(0, 3)))]
                )

    def record(self, types: list[Typed]) -> Typed:
        name = self.name()
        fields = [{"name": f"f{i}", "type": schema} for i, (schema, _) in enumerate(types)]
        values = st.fixed_dictionaries({f"f{i}": value for i, (_, value) in enumerate(types)})
        self._named.append((name, values))
        return {"type": "record", "name": name, "fields": fields}, values

    def _union(self, depth: int) -> Typed:
        count = self._draw(st.integers(1, 3))
        branches = [self.any(depth - 1, in_union=True) for _ in range(count)]
        chosen = [
            values.map(lambda value, number=number: Branch(number, value))
            for number, (_, values) in enumerate(branches)
        ]
        return [schema for schema, _ in branches], st.one_of(chosen)

    def _named_leaf(self, kind: str) -> Typed:
        name = self.name()
        if kind == "fixed":
            size = self._draw(st.integers(0, 5))
            typed: Typed = (
                {"type": "fixed", "name": name, "size": size},
                st.binary(min_size=size, max_size=size),
            )
        else:
            symbols = ["A", "B", "C"][: self._draw(st.integers(1, 3))]
            typed = {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
        self._named.append((name, typed[1]))
        return typed

    def _node(self) -> Typed:
        name = self.name()
        fields = [{"name": "next", "type": ["null", name]}, {"name": "v", "type": "long"}]
        values = st.recursive(
            st.just({"next": None, "v": 1}),
            lambda inner: inner.map(lambda node: {"next": node, "v": 2}),
            max_leaves=4,
        )
        self._named.append((name, values))
        return {"type": "record", "name": name, "fields": fields}, values


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, list[dict[str, Any]]]:
    """A file, and its wanted columns row by row. Each row has columns at the top and inside a nullable record."""
    types = Types(draw)
    top: dict[str, Typed] = {
        "id": ("long", LONGS)
    }  # drawn in the order of the schema, as names are defined
    top["skip1"] = types.any(2)
    top["a"] = types.readable()
    inner = {f"x{i}": types.any(1) if i % 2 else types.readable() for i in range(4)}
    nested = {
        "type": "record",
        "name": types.name(),
        "fields": [{"name": name, "type": schema} for name, (schema, _) in inner.items()],
    }
    values = st.fixed_dictionaries({name: values for name, (_, values) in inner.items()})
    top["inner"] = ["null", nested], st.none() | values
    top["skip2"] = types.any(2)
    top["b"] = types.readable()
    top["skip3"] = types.any(1)
    schema = {
        "type": "record",
        "name": "row",
        "namespace": draw(st.sampled_from(["", "org.example"])),
        "fields": [{"name": name, "type": schema} for name, (schema, _) in top.items()],
    }
    row = st.fixed_dictionaries({name: values for name, (_, values) in top.items()})
    rows = draw(st.lists(row, max_size=12))
    codec = draw(st.sampled_from(list(CODECS)))
    data = write_avro(
        schema,
        rows,
        codec=codec,
        pack=CODECS[codec],
        per_block=draw(st.integers(1, 6)),
        sized=draw(st.booleans()),
    )
    return data, [_wanted(one) for one in rows]


COLUMNS = ["inner.x2", "a", "inner.missing", "inner.x0", "missing", "b", "id", "gone.too"]


def _wanted(row: dict[str, Any]) -> dict[str, Any]:
    inner = row["inner"] or {}
    return {
        "inner.x2": inner.get("x2"),
        "a": row["a"],
        "inner.missing": None,
        "inner.x0": inner.get("x0"),
        "missing": None,
        "b": row["b"],
        "id": row["id"],
        "gone.too": None,
    }


@given(files())
def test_columns_are_what_was_written(file: tuple[bytes, list[dict[str, Any]]]) -> None:
    """Any schema around them, any codec, any division into blocks."""
    data, rows = file
    assert read_columns(data, COLUMNS, what="file").to_pylist() == rows


@given(files(), st.data())
def test_a_damaged_file_is_refused_or_has_every_row(
    file: tuple[bytes, list[dict[str, Any]]], draws: st.DataObject
) -> None:
    """One byte changed anywhere may change a value, and never how many there are."""
    data, rows = file
    damaged = bytearray(data)
    at = draws.draw(st.integers(0, len(data) - 1))
    damaged[at] = draws.draw(st.integers(0, 255))
    try:
        batch = read_columns(bytes(damaged), COLUMNS, what="file")
    except FormatError:
        return
    assert batch.num_rows == len(rows)
    batch.validate(full=True)


@given(files(), st.data())
def test_a_file_cut_short_is_refused_or_ends_with_a_block(
    file: tuple[bytes, list[dict[str, Any]]], draws: st.DataObject
) -> None:
    """The format has no end marker; that is why manifests are counted."""
    data, rows = file
    size = draws.draw(st.integers(0, len(data) - 1))
    try:
        batch = read_columns(data[:size], COLUMNS, what="file")
    except FormatError:
        return
    assert data[:size].endswith(bytes(range(16)))
    assert batch.to_pylist() == rows[: batch.num_rows]


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_noise_is_no_avro_file(noise: bytes, more: bytes) -> None:
    """Also behind a sound header and in a sound block."""
    sound = write_avro(SCHEMA, [])
    block = bytes([2]) + _length(noise) + noise + bytes(range(16))
    for data in (noise, b"Obj\x01" + noise, sound + noise, sound + block, sound + block + more):
        for reader in READERS:
            try:
                reader(data)
            except FormatError:
                continue


SCHEMA = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int"},
        {"name": "snapshot_id", "type": ["null", "long"]},
        {
            "name": "data_file",
            "type": {
                "type": "record",
                "name": "r2",
                "fields": [
                    {"name": "file_path", "type": "string"},
                    {"name": "partition", "type": {"type": "record", "name": "r102", "fields": []}},
                    {"name": "sizes", "type": {"type": "map", "values": "long"}},
                    {"name": "splits", "type": ["null", {"type": "array", "items": "long"}]},
                ],
            },
        },
    ],
}
READERS: list[Callable[[bytes], object]] = [
    lambda data: read_columns(data, ["status", "data_file.file_path"], what="file"),
    lambda data: read_manifest(data, "file", Promised()),
    lambda data: read_manifest_list(data, "file"),
]


@pytest.mark.slow
def test_fuzzed_files_never_crash() -> None:
    """Seconds of random edits: FormatError or a result, and nothing that never ends."""
    random.seed(20261115)
    rows = [
        {
            "status": i % 3,
            "snapshot_id": i or None,
            "data_file": {
                "file_path": f"s3://lake/t/{i}",
                "partition": {},
                "sizes": {str(k): k for k in range(i % 4)},
                "splits": list(range(i % 3)) or None,
            },
        }
        for i in range(20)
    ]
    sound = [
        write_avro(SCHEMA, rows, codec=codec, pack=pack, per_block=7, sized=bool(i % 2))
        for i, (codec, pack) in enumerate(CODECS.items())
    ]
    ends_at = time.monotonic() + FUZZ_SECONDS
    refused = read = 0
    while time.monotonic() < ends_at:
        for data in sound:
            try:
                read_columns(_edited(data), ["status", "data_file.file_path"], what="file")
                read += 1
            except FormatError:
                refused += 1
    assert refused
    assert read


def _edited(data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(out))
        match random.randrange(4):
            case 0:
                out[at : at + 1] = random.randbytes(1)
            case 1:
                del out[at : at + random.randint(1, 20)]
            case 2:
                out[at:at] = random.randbytes(random.randint(1, 20))
            case _:
                source = random.randrange(len(out) + 1)
                out[at : at + 8] = out[source : source + 8]
    return bytes(out)


def _length(data: bytes) -> bytes:
    zigzag = 2 * len(data)
    return bytes([zigzag]) if zigzag < 128 else bytes([zigzag % 128 + 128, zigzag // 128])
