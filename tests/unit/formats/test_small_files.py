"""Rules, commits.csv, Parquet lists and refs dumps."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.domain.commits import BranchHead, Commit, Tag
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import FormatError
from lakesweep.formats.commits_csv import (
    CommitRow,
    commits_csv_key,
    read_commits_csv,
    read_listed_commits,
    write_commits_csv,
)
from lakesweep.formats.refs_dump import RefsDump, RefsManifest, read_refs_dump, write_refs_dump
from lakesweep.formats.rules import decode_rules, encode_rules
from lakesweep.formats.tables import (
    MARK_SCHEMA,
    UNCOMMITTED_SCHEMA,
    read_mark,
    read_uncommitted,
    write_mark,
    write_uncommitted,
)


@pytest.mark.parametrize(
    "rules",
    [
        RetentionRules(21),
        RetentionRules(0, {"main": 28}),
        RetentionRules(7, {"main": 28, "dev": 0, "x": -1}),
        RetentionRules(-3),
    ],
)
def test_rules_survive(rules: RetentionRules) -> None:
    """Negative and zero days too: servers accept them."""
    assert decode_rules(encode_rules(rules)) == rules


def test_no_rules_is_an_empty_file() -> None:
    """Which is how a server deletes rules; 0 days without branches are the same bytes, and so no rules."""
    assert encode_rules(None) == b"" == encode_rules(RetentionRules(0))
    assert decode_rules(b"") is None


def test_rules_are_the_bytes_of_protobuf() -> None:
    """field 1 = 5; field 2 = {main: 300}."""
    assert encode_rules(RetentionRules(5, {"main": 300})) == (
        b"\x08\x05\x12\x09\x0a\x04main\x10\xac\x02"
    )


@pytest.mark.parametrize(
    "data", [b"{}", b"\x08", b"\x0a\x01a", b"\x08\xff\xff\xff\xff\xff\xff\x7f"]
)
def test_damaged_rules_are_refused(data: bytes) -> None:
    """Rules decide what is deleted; doubt is an error."""
    with pytest.raises(FormatError):
        decode_rules(data)


def test_commits_csv_survives() -> None:
    """The header and the first commit's empty metarange."""
    rows = [CommitRow("c1", False, "m1"), CommitRow("c2", True, "")]
    data = write_commits_csv(rows)
    assert data == b"commit_id,expired,metarange_id\nc1,false,m1\nc2,true,\n"
    assert read_commits_csv(data) == rows
    assert commits_csv_key("r") == "_lakefs/retention/gc/commits/run_id=r/commits.csv"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"commit_id,expired\nc,false\n",
        b"commit_id,expired,metarange_id\nc,false\n",
        b"commit_id,expired,metarange_id\nc,maybe,m\n",
        b"commit_id,expired,metarange_id\n,false,m\n",
        b"commit_id,expired,metarange_id\nc,false,m",
        b'commit_id,expired,metarange_id\n"c,false,m\n',
        b"\xff\xfe",
    ],
)
def test_damaged_commits_csv_is_refused(data: bytes) -> None:
    """A list cut short must not pass: each commit missing from it could lose its data."""
    with pytest.raises(FormatError):
        read_commits_csv(data)


A, B = "a0" * 32, "9f" * 32


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [f"{A},false,{B}"],
        [f"{A},false,{B}", f"{B},false,{A}"],
        [f"{A},true,{B}" + "0", f"{B},false,{A}"],
        [f"{A},true,{B}", f"{B},false,{A}"],
        [f"{A},false,", f"{B},false,{A}"],
        [f'"{A[2:]}",false,{B}'],
        [f"{A[2:]}é,false,{B}"],
        [f"{A},false,{B}", "second,false,m2"],
        [f"{A},wrong,{B}"],
        [f"{A},false,{B},x"],
        [f"{A},{B},false"],
        [f"{A[:63]},false,{B},"],
        ["", f"{A},false,{B}"],
    ],
)
@pytest.mark.parametrize("end", ["\n", ""])
@pytest.mark.parametrize("first", ["commit_id,expired,metarange_id\n", ""])
def test_both_readers_of_a_list_agree(lines: list[str], end: str, first: str) -> None:
    """In columns and row by row: what is not expired, and what is wrong with a list."""
    data = (first + "\n".join(lines) + (end if lines else "")).encode()

    def plain() -> list[tuple[str, str]]:
        rows = read_commits_csv(data)
        return [(row.commit_id, row.meta_range_id) for row in rows if not row.is_expired]

    def quick() -> list[tuple[str, str]]:
        found = read_listed_commits(data)
        pairs = zip(found.ids.tolist(), found.meta_range_ids.tolist(), strict=True)
        return [(commit.decode(), metarange.decode()) for commit, metarange in pairs]

    def answer(read: Callable[[], list[tuple[str, str]]]) -> object:
        try:
            return read()
        except FormatError as error:
            return error.message

    assert answer(quick) == answer(plain)


def test_uncommitted_list_survives() -> None:
    """GZIP Parquet with the server's columns."""
    table = pa.table(
        {"physical_address": ["data/a", "data/ü"], "creation_date": [1, 2]}, UNCOMMITTED_SCHEMA
    )
    data = write_uncommitted(table)
    assert read_uncommitted(data).equals(table)
    assert pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).compression == "GZIP"


def test_mark_survives_and_older_marks_are_read() -> None:
    """An address alone is a mark of an older client."""
    table = pa.table(
        {
            "address": ["data/a"],
            "size_bytes": [5],
            "last_modified": [datetime(2026, 1, 1, tzinfo=UTC)],
            "reason": ["expired"],
        },
        MARK_SCHEMA,
    )
    assert read_mark(write_mark(table.to_batches())).equals(table)
    out = io.BytesIO()
    pq.write_table(pa.table({"address": ["data/b"]}), out)
    older = read_mark(out.getvalue())
    assert older["address"].to_pylist() == ["data/b"]
    assert older["size_bytes"].to_pylist() == [None]


@pytest.mark.parametrize("size", [0, 4, 100, -1])
def test_truncated_parquet_is_refused(size: int) -> None:
    """A list cut short is an error, not a shorter list."""
    table = pa.table({"physical_address": ["a"], "creation_date": [1]}, UNCOMMITTED_SCHEMA)
    with pytest.raises(FormatError):
        read_uncommitted(write_uncommitted(table)[:size])


def test_lists_without_their_column_or_with_nulls_are_refused() -> None:
    """A null address would be lost."""
    out = io.BytesIO()
    pq.write_table(pa.table({"address": ["x"]}), out)
    with pytest.raises(FormatError, match="no column physical_address"):
        read_uncommitted(out.getvalue())
    out = io.BytesIO()
    pq.write_table(pa.table({"address": ["x", None]}), out)
    with pytest.raises(FormatError, match="nulls"):
        read_mark(out.getvalue())


DUMP = RefsDump(
    commits=[
        Commit("a" * 64, "", "first", datetime(2026, 1, 1, tzinfo=UTC), "", ()),
        Commit(
            "b" * 64,
            "user",
            "ü",
            datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
            "c" * 64,
            ("a" * 64, "d" * 64),
            {"k": "v", ".lakefs.merge.strategy": "default"},
            0,
            7,
        ),
    ],
    branches=[BranchHead("dev", "b" * 64, hidden=True), BranchHead("main", "a" * 64)],
    tags=[Tag("v1", "a" * 64)],
)


@pytest.mark.parametrize("dump", [DUMP, RefsDump([], [], []), RefsDump(DUMP.commits, [], [])])
def test_refs_dump_survives(dump: RefsDump) -> None:
    """Commits, branches and tags through files and manifest; empty lists too."""
    written = write_refs_dump(dump)
    files = dict(written.files)
    assert read_refs_dump(files.__getitem__, written.manifest.encode()) == dump


def test_manifest_has_lakefs_keys() -> None:
    """Two spaces of indent, keys in order, as the server writes it."""
    text = RefsManifest("c", "t", "b").encode().decode()
    assert text == (
        '{\n  "branches_meta_range_id": "b",\n  "commits_meta_range_id": "c",\n  "tags_meta_range_id": "t"\n}'
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"[" * 9000, b"{}", b"null", json.dumps({"commits_meta_range_id": "x"}).encode()],
)
def test_damaged_manifests_are_refused(data: bytes) -> None:
    """A manifest without one of its three lists would hide that list."""
    with pytest.raises(FormatError):
        RefsManifest.decode(data)


def test_a_dump_with_its_lists_mixed_up_is_refused() -> None:
    """Branches are no commits, though the bytes would parse."""
    written = write_refs_dump(DUMP)
    mixed = RefsManifest(
        written.manifest.branches_meta_range_id,
        written.manifest.tags_meta_range_id,
        written.manifest.branches_meta_range_id,
    )
    with pytest.raises(FormatError, match="entity"):
        read_refs_dump(dict(written.files).__getitem__, mixed)
