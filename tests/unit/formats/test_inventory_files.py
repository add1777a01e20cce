"""Files of inventories in every dialect: columns by their role, all rows or an error."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from lakesweep.errors import FormatError
from lakesweep.formats.inventory_files import INVENTORY_ROWS, Layout, read_inventory_file

AT = datetime(2024, 5, 1, 12, 30, 15, tzinfo=UTC)
PLAIN = {"key": ["a", "b"], "size": [1, 2], "last_modified": pa.array([AT, AT])}


def _zipped(data: bytes) -> bytes:
    """Without the time: it would be in the names of tests, and workers that collect them must agree on those."""
    return gzip.compress(data, mtime=0)


def rows(data: bytes, layout: Layout) -> list[dict[str, Any]]:
    batches = list(read_inventory_file(pa.BufferReader(data), layout))
    assert all(batch.schema == INVENTORY_ROWS for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def parquet(columns: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def current(columns: dict[str, Any], layout: Layout | None = None) -> list[str]:
    told = rows(parquet(columns), layout or Layout("parquet"))
    return [row["key"] for row in told if row["is_current"]]


@pytest.mark.parametrize(
    "names",
    [
        ("key", "size", "last_modified_date"),
        ("Key", "Size", "LastModifiedDate"),
        ("Name", "Content-Length", "Last-Modified"),
        ("name", "size", "updated"),
        ("key", "size_bytes", "last_modified"),
    ],
)
def test_columns_are_found_by_their_role(names: tuple[str, str, str]) -> None:
    """Each service spells them in its own way."""
    told = rows(parquet(dict(zip(names, PLAIN.values(), strict=True))), Layout("parquet"))
    assert [(r["key"], r["size"], r["last_modified"]) for r in told] == [("a", 1, AT), ("b", 2, AT)]
    assert [(r["bucket"], r["is_current"]) for r in told] == [(None, True)] * 2


@pytest.mark.parametrize("missing", PLAIN)
def test_a_missing_column_is_an_error(missing: str) -> None:
    """It is named, with those that are there."""
    with pytest.raises(FormatError, match=f"lacks a column .{missing}: one of") as error:
        rows(parquet({n: c for n, c in PLAIN.items() if n != missing}), Layout("parquet"))
    assert error.value.kind == "bad-inventory"


def test_two_columns_of_one_role_are_an_error() -> None:
    """Nobody knows which of them is meant."""
    with pytest.raises(FormatError, match="'key' and 'name' have the same meaning"):
        rows(parquet(PLAIN | {"name": ["x", "y"]}), Layout("parquet"))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"size": pa.array([1, None])}, "no size"),
        ({"key": pa.array(["a", None])}, "no key"),
        ({"size": pa.array([1, -2])}, "below zero"),
        ({"last_modified": pa.array([1714566615, 1714566615])}, "type int64"),
        ({"last_modified": pa.array(["yesterday", "today"])}, "parse"),
        ({"last_modified": pa.array(["2024-05-01T12:30:15", "2024-05-01T12:30:15"])}, "zone"),
    ],
)
def test_what_is_no_fact_is_an_error(columns: dict[str, pa.Array], why: str) -> None:
    """Neither a missing size nor a number without its unit is guessed."""
    with pytest.raises(FormatError, match=why):
        rows(parquet(PLAIN | columns), Layout("parquet"))


def test_an_object_without_a_time_stays_without_one() -> None:
    """It is young for the judge."""
    told = rows(parquet(PLAIN | {"last_modified": pa.array([AT, None])}), Layout("parquet"))
    assert [row["last_modified"] for row in told] == [AT, None]


@pytest.mark.parametrize(
    "kind",
    [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ns"), pa.timestamp("ms", "UTC")],
)
def test_times_of_any_unit_are_utc(kind: pa.DataType) -> None:
    """Parquet's and ORC's have no zone."""
    naive = pa.array([AT.replace(tzinfo=None)] * 2, pa.timestamp("s")).cast(kind)
    told = rows(parquet(PLAIN | {"last_modified": naive}), Layout("parquet"))
    assert {row["last_modified"] for row in told} == {AT}


@pytest.mark.parametrize(
    "columns",
    [
        {"is_latest": pa.array([True, False])},
        {"is_latest": pa.array([True, None])},
        {"IsCurrentVersion": pa.array(["True", ""]), "VersionId": pa.array(["2", "1"])},
        {"is_delete_marker": pa.array([False, True]), "size": pa.array([1, None])},
        {"Deleted": pa.array(["", "true"])},
        {"Snapshot": pa.array(["", "2024-05-01T00:00:00.0000000Z"])},
        {"hdi_isfolder": pa.array([None, True])},
        {"timeDeleted": pa.array([None, AT])},
    ],
)
def test_only_current_objects_count(columns: dict[str, pa.Array]) -> None:
    """Old versions, markers, snapshots, folders and what is deleted softly are told apart."""
    assert current(PLAIN | columns) == ["a"]


def test_versions_need_a_word_on_which_is_the_latest() -> None:
    """Version ids that are all null are those of a bucket without versions."""
    assert current(PLAIN | {"version_id": pa.nulls(2, pa.string())}) == ["a", "b"]
    with pytest.raises(FormatError, match="which are the latest") as error:
        current(PLAIN | {"version_id": pa.array([None, "null"])})
    assert error.value.kind == "inventory-versions"


def test_a_column_that_the_manifest_needs_must_be_there() -> None:
    """A rule that lists snapshots without saying which rows they are can't be used."""
    with pytest.raises(FormatError, match="snapshot"):
        current(PLAIN, Layout("parquet", needs=("snapshot",)))


def test_orc_is_read_stripe_by_stripe() -> None:
    """All rows of all stripes come."""
    out = io.BytesIO()
    many = 20_000
    table = pa.table(
        {
            "key": [f"{number}-{'x' * 200}" for number in range(many)],
            "size": range(many),
            "last_modified_date": pa.array([AT.replace(tzinfo=None)] * many, pa.timestamp("ms")),
        }
    )
    pa.orc.write_table(table, out, stripe_size=64 * 1024, compression="uncompressed")
    assert pa.orc.ORCFile(io.BytesIO(out.getvalue())).nstripes > 1
    told = rows(out.getvalue(), Layout("orc"))
    assert [row["size"] for row in told] == list(range(many))
    assert {row["last_modified"] for row in told} == {AT}


S3_CSV = Layout(
    "csv", ("Bucket", "Key", "Size", "LastModifiedDate"), is_gzip=True, is_url_encoded=True
)


def test_s3_csv_has_no_header_and_encoded_keys() -> None:
    """Each key is decoded once: an encoded percent sign stays one."""
    keys = ["a%2Fb+c", "%2525", "plain", "%E6%97%A5%2C", "x%2By"]
    lines = "".join(f'"b","{key}","7","2024-05-01T12:30:15.000Z"\n' for key in keys)
    told = rows(_zipped(lines.encode()), S3_CSV)
    assert [row["key"] for row in told] == ["a/b c", "%25", "plain", "日,", "x+y"]
    assert {(row["bucket"], row["size"], row["last_modified"]) for row in told} == {("b", 7, AT)}


def test_names_with_line_breaks_and_quotes_come_out_of_plain_csv() -> None:
    """Azure and Google write keys as they are; the header tells the columns."""
    text = 'Name,Content-Length,Last-Modified\n"c/a\nb, ""q"" %2F+",3,2024-05-01T12:30:15Z\n'
    told = rows(b"\xef\xbb\xbf" + text.encode(), Layout("csv"))
    assert [row["key"] for row in told] == ['c/a\nb, "q" %2F+']


def test_a_key_that_reads_like_nothing_is_a_key() -> None:
    """`NA`, `null` and the like are values of nothing in other people's CSV."""
    text = "key,size,updated\nNA,1,2024-05-01T12:30:15Z\nnull,1,2024-05-01T12:30:15Z\n"
    assert [row["key"] for row in rows(text.encode(), Layout("csv"))] == ["NA", "null"]


@pytest.mark.parametrize("data", [b"", _zipped(b"")])
def test_an_empty_csv_has_no_rows(data: bytes) -> None:
    """An inventory of an empty bucket."""
    layout = S3_CSV if data else Layout("csv")
    assert rows(data, layout) == []


def _csv(lines: int) -> bytes:
    return b"".join(b'"b","key-%d","7","2024-05-01T12:30:15Z"\n' % n for n in range(lines))


@pytest.mark.parametrize(
    ("data", "layout"),
    [
        (_zipped(_csv(50_000))[:-100], S3_CSV),
        (_zipped(_csv(3))[:-4], S3_CSV),
        (_csv(3), S3_CSV),
        (_zipped(_csv(3) + b'"b","k","7"\n'), S3_CSV),
        (_zipped(b'"b","k","many","2024-05-01T12:30:15Z"\n'), S3_CSV),
        (_zipped(b'"b","%FF","7","2024-05-01T12:30:15Z"\n'), S3_CSV),
        (b"key,size,updated\n\xff,1,2024-05-01T12:30:15Z\n", Layout("csv")),
        (parquet(PLAIN)[:-10], Layout("parquet")),
        (b"", Layout("parquet")),
        (b"ORC and then nothing", Layout("orc")),
    ],
)
def test_what_can_not_be_read_to_its_end_is_an_error(data: bytes, layout: Layout) -> None:
    """Never fewer rows without a word."""
    with pytest.raises(FormatError) as error:
        rows(data, layout)
    assert error.value.kind == "bad-inventory"
