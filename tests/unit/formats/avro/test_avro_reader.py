"""Columns out of Avro files: what is read, what is passed over, what is refused."""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import pyarrow as pa
import pytest

from lakesweep.errors import FormatError
from lakesweep.formats.avro import codecs
from lakesweep.formats.avro.container import open_container
from lakesweep.formats.avro.reader import read_columns
from lakesweep_testing.avro_writer import Branch, write_avro

SYNC = bytes(range(16))
ONE_TEXT = {"type": "record", "name": "r", "fields": [{"name": "p", "type": "string"}]}


def record(*fields: tuple[str, Any], name: str = "r") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": type_} for field, type_ in fields],
    }


def block(count: int, packed: bytes) -> bytes:
    """A block for `bare` whose numbers are below 64."""
    return bytes([2 * count, 2 * len(packed)]) + packed + SYNC


def bare(schema: Any = ONE_TEXT, codec: str = "null") -> bytes:
    """A file of no blocks."""
    return write_avro(schema, [], codec=codec, pack=lambda data: data)


def refusal(data: bytes, columns: list[str] | None = None) -> str:
    with pytest.raises(FormatError) as caught:
        read_columns(data, columns or ["p"], what="the file")
    assert "the file can't be read" in caught.value.message
    return caught.value.message


def test_every_kind_of_column_has_its_arrow_type() -> None:
    """Strings are strings; what is not there is null."""
    schema = record(
        ("text", "string"),
        ("raw", "bytes"),
        ("small", "int"),
        ("big", ["null", "long"]),
        ("flag", ["boolean", "null"]),
        ("sort", {"type": "enum", "name": "s", "symbols": ["X", "Y"]}),
        ("print", {"type": "fixed", "name": "f", "size": 2}),
        ("when", {"type": "long", "logicalType": "timestamp-micros"}),
        ("void", "null"),
    )
    row = {
        "text": "é",
        "raw": b"\xff",
        "small": -1,
        "big": None,
        "flag": True,
        "sort": "Y",
        "print": b"ab",
        "when": 5,
        "void": None,
    }
    batch = read_columns(write_avro(schema, [row]), [*row, "gone"], what="file")
    assert batch.to_pylist() == [{**row, "gone": None}]
    types = [pa.string(), pa.binary(), pa.int32(), pa.int64(), pa.bool_(), pa.string()]
    assert batch.schema.types == [*types, pa.binary(), pa.int64(), pa.null(), pa.null()]


def test_a_file_without_objects_has_typed_columns() -> None:
    """Nothing written is not the same as nothing known."""
    batch = read_columns(bare(), ["p", "gone"], what="file")
    assert batch.num_rows == 0
    assert batch.schema.types == [pa.string(), pa.null()]


def test_blocks_larger_than_a_group_are_read_one_group_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Columns are the same however the blocks are taken together."""
    monkeypatch.setattr("lakesweep.formats.avro.reader._GROUP_BYTES", 50)
    rows = [{"p": f"s3://lake/{i}"} for i in range(100)]
    data = write_avro(ONE_TEXT, rows, codec="deflate", per_block=3)
    assert read_columns(data, ["p"], what="file").to_pylist() == rows


def test_recursive_types_are_passed_over() -> None:
    """Through a union, an array and a map, and used by name again."""
    tree = record(
        ("left", ["null", "tree"]),
        ("more", {"type": "array", "items": "tree"}),
        ("named", {"type": "map", "values": ["tree", "string"]}),
        name="tree",
    )
    leaf = {"left": None, "more": [], "named": {}}
    value = {
        "left": leaf,
        "more": [leaf, leaf],
        "named": {"a": Branch(0, leaf), "b": Branch(1, "x")},
    }
    schema = record(("tree", tree), ("p", "string"), ("again", "tree"))
    rows = [{"tree": value, "p": "x", "again": leaf}] * 3
    for sized in (False, True):
        batch = read_columns(write_avro(schema, rows, sized=sized), ["p"], what="file")
        assert batch.column("p").to_pylist() == ["x"] * 3


def test_values_nested_too_deep_are_refused() -> None:
    """The working space is bounded, however deep a file claims to go."""
    node = record(("next", ["null", "n"]), ("v", "long"), name="n")
    value: dict[str, Any] = {"next": None, "v": 1}
    for _ in range(100):
        value = {"next": value, "v": 1}
    schema = record(("node", node), ("p", "string"))
    assert (
        read_columns(write_avro(schema, [{"node": value, "p": "x"}]), ["p"], what="f").num_rows == 1
    )
    deep = b"\x02" * 5000 + b"\x00" * 5001 + b"\x00"
    size = bytes([0xA4, 0x9C, 0x01])  # 10002
    assert "nested too deep" in refusal(bare(schema) + b"\x02" + size + deep + SYNC)


def test_items_without_bytes_cost_no_time() -> None:
    """A count of a billion nulls takes no billion steps."""
    schema = record(("nulls", {"type": "array", "items": "null"}), ("p", "string"))
    count = bytes([0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x3F])
    data = bare(schema) + block(1, count + b"\x00" + b"\x02x")
    assert read_columns(data, ["p"], what="file").to_pylist() == [{"p": "x"}]


def test_records_that_double_each_other_take_no_room() -> None:
    """A schema of forty lines may stand for 2^40 fields; the program stays as long as the schema."""
    fields: list[tuple[str, Any]] = [("t0", record(name="t0"))]
    for i in range(1, 40):
        fields.append((f"t{i}", record(("a", f"t{i - 1}"), ("b", f"t{i - 1}"), name=f"t{i}")))
    schema = record(*fields, ("p", "string"))
    data = bare(schema) + block(1, b"\x02x")
    assert read_columns(data, ["p"], what="file").to_pylist() == [{"p": "x"}]


def test_names_are_found_in_their_namespace() -> None:
    """By the full name, by the short one inside, and by a name without a namespace."""
    inner = {"type": "fixed", "name": "a.b.hash", "size": 1}
    schema = {**record(("x", inner), ("y", "a.b.hash"), ("p", "string")), "namespace": "a.b"}
    schema["fields"].append({"name": "z", "type": "hash"})
    rows = [{"x": b"1", "y": b"2", "p": "p", "z": b"3"}]
    batch = read_columns(write_avro(schema, rows), ["x", "y", "p", "z"], what="file")
    assert batch.to_pylist() == rows


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not an Avro file"),
        (b"PAR1", "not an Avro file"),
        (b"AGS1" + bytes(50), "encrypted"),
        (b"Obj\x01", "cut short"),
        (b"Obj\x01\x00" + SYNC, "no schema"),
        (b"Obj\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "number"),
        (b"Obj\x01\xfe\xff\xff\xff\x0f", "damaged"),
        (b"Obj\x01\x02\x16avro.schema\x10", "damaged"),
        (bare()[:-1], "cut short"),
        (bare() + b"\x02", "within the file"),
        (bare() + b"\x02\x04\x02x" + SYNC[:-1], "within the file"),
        (bare() + b"\x02\x04\x02x" + SYNC[:-1] + b"x", "sync marker"),
        (bare() + b"\x01\x04\x02x" + SYNC, "within the file"),
        (bare() + block(1, b"\x02x") + b"\x00", "within the file"),
        (bare() + block(2, b"\x02x"), "cut short"),
        (bare() + block(3, b"\x02x"), "more objects than"),
        (bare() + block(1, b"\x02xy"), "bytes behind the last"),
        (bare() + block(0, b"x"), "bytes behind the last"),
        (bare() + block(1, b"\x04x"), "beyond its end"),
        (bare() + block(1, b"\x01x"), "beyond its end"),
        (bare() + block(1, b"\xff" * 11), "too long"),
        (bare() + block(1, b"\x02\xff"), "not text"),
        (bare(codec="lz4"), "none of deflate"),
        (bare(codec="deflate") + block(1, b"\xff\xff"), "as deflate"),
        (bare(codec="deflate") + block(1, b""), "as deflate"),
        (bare(codec="snappy") + block(1, b"x"), "as snappy"),
        (bare(codec="snappy") + block(1, b"\x02\x04\x02x" + bytes(4)), "as snappy"),
        (bare(codec="zstandard") + block(1, b"\x28\xb5\x2f\xfd"), "as zstandard"),
        (bare(codec="bzip2") + block(1, b"BZh9"), "as bzip2"),
        (bare(codec="xz") + block(1, b"\xfd7zXZ"), "as xz"),
    ],
)
def test_damage_is_refused_with_its_reason(data: bytes, why: str) -> None:
    """Never a shorter list."""
    assert why in refusal(data)


@pytest.mark.parametrize(
    ("types", "data", "why"),
    [
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("int", b"\xfe\xff\xff\xff\x7f", "32 bits"),
        (["null", "string"], b"\x04", "no branch"),
        (["null", "string"], b"\x01", "no branch"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\x02", "no symbol"),
        ({"type": "fixed", "name": "f", "size": 3}, b"xx", "more objects"),
        (["long", "string"], b"\x00\x02", "several types"),
        ("double", bytes(8), "not read as a column"),
        ({"type": "array", "items": "long"}, b"\x00", "not read as a column"),
    ],
)
def test_a_column_with_wrong_values_is_refused(types: Any, data: bytes, why: str) -> None:
    """Also one that no column of ours can hold."""
    assert why in refusal(bare(record(("p", types))) + block(1, data))


@pytest.mark.parametrize(
    ("items", "data", "why"),
    [
        ("long", b"\x02\x80", "beyond its end"),
        ("long", b"\x04\x80\x80\x80", "beyond its end"),
        ("long", b"\x7e\x00", "impossible size"),
        ("long", b"\x01\x7e", "impossible size"),
        ("long", b"\x01\x01", "impossible size"),
        ("string", b"\x02\x09", "beyond its end"),
        ("boolean", b"\x02\x05\x00", "neither 0 nor 1"),
        ("double", b"\x02\x00", "beyond its end"),
        (["null"], b"\x02\x02\x00", "no branch"),
    ],
)
def test_damage_in_what_is_passed_over_is_refused(items: Any, data: bytes, why: str) -> None:
    """The bytes are not wanted, but where they end is."""
    schema = record(("list", {"type": "array", "items": items}), ("flag", "boolean"))
    assert why in refusal(bare(schema) + block(1, data), ["flag"])


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (b"{", "not JSON"),
        (b"[" * 5000, "not JSON"),
        (b'"long"', "not records"),
        (b'{"type":"record","name":"r"}', "no fields"),
        (b'{"type":"record","fields":[]}', "without a name"),
        (b'{"type":"record","name":"r","fields":[{"type":"long"}]}', "name of its own"),
        (b'{"type":"record","name":"r","fields":[5]}', "name of its own"),
        (
            b'{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
            "name of its own",
        ),
        (b'{"type":"record","name":"r","fields":[{"name":"a","type":"r"}]}', "without an end"),
        (b'{"type":"record","name":"r","fields":[{"name":"a","type":"who"}]}', "unknown type"),
        (b'{"type":"record","name":"r","fields":[{"name":"a","type":7}]}', "not a type"),
        (b'{"type":"record","name":"r","fields":[{"name":"a"}]}', "not a type"),
        (
            b'{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"fixed","name":"f","size":-1}}]}',
            "no size",
        ),
        (
            b'{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"enum","name":"e"}}]}',
            "without symbols",
        ),
        (
            b'{"type":"record","name":"r","fields":[{"name":"a","type":'
            + b'{"type":' * 200
            + b'"int"'
            + b"}" * 200
            + b"}]}",
            "too deep",
        ),
    ],
)
def test_a_schema_that_is_none_is_refused(schema: bytes, why: str) -> None:
    """Before any object is looked at."""
    size = 2 * len(schema)
    length = bytes([size]) if size < 128 else bytes([size % 128 + 128, size // 128 % 128])
    if size >= 128 * 128:
        length = bytes([size % 128 + 128, size // 128 % 128 + 128, size // 128 // 128])
    data = b"Obj\x01\x02\x16avro.schema" + length + schema + b"\x00" + SYNC
    assert why in refusal(data)


def test_a_column_inside_something_else_than_a_record_is_refused() -> None:
    """A wrong path must not read as all null."""
    assert "does not lie in a record" in refusal(bare(), ["p.q"])


def test_columns_wanted_twice_are_a_mistake_of_the_caller() -> None:
    """Also one inside another."""
    for columns in (["p", "p"], ["p", "p.q"], ["p.q", "p"]):
        with pytest.raises(ValueError, match="wanted"):
            read_columns(bare(), columns, what="file")


@pytest.mark.parametrize(
    ("codec", "pack"),
    [
        ("deflate", lambda data: zlib.compress(data, 9, wbits=-15)),
        ("bzip2", bz2.compress),
        ("xz", lzma.compress),
        ("zstandard", lambda data: bytes(cramjam.zstd.compress(data))),
        ("snappy", lambda data: bytes(cramjam.snappy.compress_raw(data)) + bytes(4)),
    ],
)
def test_a_block_that_unpacks_to_too_much_is_refused(
    monkeypatch: pytest.MonkeyPatch, codec: str, pack: Callable[[bytes], bytes]
) -> None:
    """A bomb of a few kilobytes fills no memory."""
    monkeypatch.setattr(codecs, "MOST_BYTES", 100_000)
    bomb = pack(bytes(100_001))
    data = write_avro(ONE_TEXT, [{"p": "x"}], codec=codec, pack=lambda _: bomb)
    assert f"as {codec}" in refusal(data)


def test_zlibs_checksum_behind_a_deflated_block_is_let_be() -> None:
    """fastavro leaves three bytes of it."""
    data = write_avro(
        ONE_TEXT, [{"p": "x"}], codec="deflate", pack=lambda data: zlib.compress(data)[2:-1]
    )
    assert read_columns(data, ["p"], what="file").num_rows == 1


def test_the_header_tells_schema_metadata_and_codec() -> None:
    """A negative count of metadata, too; no codec means none."""
    data = write_avro(ONE_TEXT, [], codec="deflate", metadata={"format-version": b"2"})
    container = open_container(data)
    assert (json.loads(container.schema), container.codec) == (ONE_TEXT, "deflate")
    assert container.metadata["format-version"] == b"2"
    schema = json.dumps(ONE_TEXT).encode()
    sized = b"Obj\x01\x01\xb0\x01\x16avro.schema\xac\x01" + schema.ljust(86) + b"\x00" + SYNC
    assert open_container(sized).codec == "null"
    assert read_columns(sized, ["p"], what="file").num_rows == 0
