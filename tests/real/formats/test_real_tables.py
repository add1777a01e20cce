"""Our reader on files that real lakeFS wrote, and real lakeFS on files that our writer wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from lakesweep.domain.commits import BranchHead, Commit, MetaRangeId, Tag
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.hashing import hash_address
from lakesweep.formats.identity import commit_id, entry_identity
from lakesweep.formats.metaranges import RangeInfo, read_metarange, write_metarange
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.ranges import (
    open_range,
    read_range_addresses,
    read_range_hashes,
    read_range_records,
)
from lakesweep.formats.refs_dump import RefsDump, read_refs_dump, write_refs_dump
from lakesweep.formats.sstable import BreakRule, open_table
from lakesweep.formats.values import join_value
from lakesweep_testing.one_by_one import read_range_entries

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

MANY = 100_000
# What the API says of entries that have none.
DEFAULT_CONTENT_TYPE = "application/octet-stream"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit as the server tells of it, and its files."""

    folder: Path
    metarange_id: MetaRangeId
    listed: list[dict[str, Any]]

    def file(self, file_id: str) -> bytes:
        return (self.folder / "_lakefs" / file_id).read_bytes()

    def ranges(self) -> list[RangeInfo]:
        return read_metarange(self.file(self.metarange_id))


def committed(server: Any, repository: str, metarange_id: str, ref: str = "main") -> Committed:
    listed = server.list_all(f"/repositories/{repository}/refs/{ref}/objects/ls")
    return Committed(server.process.namespace_root / repository, MetaRangeId(metarange_id), listed)


def facts(path: str, entry: Entry) -> tuple[object, ...]:
    assert entry.last_modified is not None
    return (
        path,
        entry.size,
        entry.e_tag,
        int(entry.last_modified.timestamp()),
        entry.content_type or DEFAULT_CONTENT_TYPE,
        dict(entry.metadata),
    )


def listed_facts(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["path"],
        row["size_bytes"],
        row["checksum"],
        row["mtime"],
        row.get("content_type", ""),
        row.get("metadata", {}),
    )


def assert_read_whole(commit: Committed) -> None:
    """Every road through our reader gives what the server lists."""
    found: list[tuple[object, ...]] = []
    for info in commit.ranges():
        data = commit.file(info.id)
        entries = list(read_range_entries(data))
        found += [facts(key.decode(), entry) for key, _, entry in entries]
        assert [key for key, _, _ in entries][:: info.count - 1 or 1] in (
            [info.min_key, info.max_key],
            [info.min_key],
        )
        for _, identity, entry in entries[:100]:
            assert identity == entry_identity(
                entry.size, entry.e_tag, entry.metadata, entry.content_type
            )
        addresses = read_range_addresses(data, expected_count=info.count)
        assert addresses["address"].to_pylist() == [entry.address for _, _, entry in entries]
        hashes = read_range_hashes(data, expected_count=info.count)
        relative = [e.address for _, _, e in entries if e.address_type == AddressType.RELATIVE]
        assert hashes.hashes.tolist() == [hash_address(address) for address in relative]
        assert len(hashes.full_addresses) == info.count - len(relative)
    assert found == [listed_facts(row) for row in commit.listed]


@pytest.fixture(scope="module")
def small(server: Any) -> Committed:
    server.make_repository("small")
    for path, content in {"a": b"1", "a/b c": b"", "ä/%20+": b"three"}.items():
        server.upload("small", path, content)
    server.upload("small", "with-metadata", b"m", **{"x-lakefs-meta-key": "value"})
    commit = server.commit("small", "four objects")
    return committed(server, "small", commit["meta_range_id"])


@pytest.fixture(scope="module")
def many(server: Any) -> Committed:
    server.make_repository("many")
    for number in range(MANY):
        folder = server.importable / f"{number // 5000:03}"
        folder.mkdir(exist_ok=True)
        (folder / f"object-{number:06}").touch()
    status = server.import_folder("many", server.importable)
    return committed(server, "many", status["commit"]["meta_range_id"])


def test_small_commit_is_read(small: Committed) -> None:
    """Uploads with odd paths, empty contents and metadata."""
    assert len(small.listed) == 4
    assert_read_whole(small)


def test_commit_of_many_objects_is_read(many: Committed) -> None:
    """100,000 objects in many ranges with two-level indexes."""
    assert len(many.listed) == MANY
    ranges = many.ranges()
    assert len(ranges) > 3
    assert sum(info.count for info in ranges) == MANY
    tables = [open_range(many.file(info.id), expected_count=info.count) for info in ranges]
    assert any(table.properties.is_two_level for table in tables)
    assert_read_whole(many)


def test_our_writer_gives_the_same_ids(many: Committed, server: Any) -> None:
    """The same records are cut at the same keys into ranges with the same ids, and listed by the same metarange."""
    records = [pair for info in many.ranges() for pair in read_range_records(many.file(info.id))]
    rule = BreakRule(range_raggedness_entries=server.raggedness)
    written = list(write_ranges(records, rule=rule))
    assert [w.id for w in written] == [info.id for info in many.ranges()]
    assert [(w.min_key, w.max_key, w.count) for w in written] == [
        (info.min_key, info.max_key, info.count) for info in many.ranges()
    ]
    # Snappy's own choices may differ by a little, so sizes are compared loosely.
    for ours, info in zip(written, many.ranges(), strict=True):
        assert ours.estimated_size == pytest.approx(info.estimated_size, rel=0.05)
    assert write_metarange(many.ranges())[0] == many.metarange_id


def test_our_tables_have_the_blocks_of_real_ones(many: Committed) -> None:
    """Block by block: as many data blocks, as large unpacked, and the same properties but for sizes."""
    info = many.ranges()[0]
    real = open_table(many.file(info.id))
    [written] = write_ranges(
        read_range_records(many.file(info.id)), rule=BreakRule(range_raggedness_entries=10**12)
    )
    ours = open_table(written.data)
    for name in ("num_entries", "num_data_blocks", "raw_key_size", "raw_value_size"):
        assert getattr(ours.properties, name) == getattr(real.properties, name)
    assert ours.scratch().total_size == real.scratch().total_size
    assert set(ours.properties.user) == set(real.properties.user)


def test_commit_that_deleted_everything_is_read(server: Any) -> None:
    """Its metarange is a table without records."""
    server.make_repository("emptied")
    server.upload("emptied", "only", b"x")
    server.commit("emptied", "one object")
    server.call("DELETE", "/repositories/emptied/branches/main/objects", params={"path": "only"})
    commit = server.commit("emptied", "none")
    emptied = committed(server, "emptied", commit["meta_range_id"])
    assert emptied.ranges() == []
    assert emptied.metarange_id == write_metarange([])[0]
    assert emptied.file(emptied.metarange_id) == write_metarange([])[1]


def test_commit_ids_are_the_servers(server: Any, small: Committed) -> None:
    """Recomputed from what the API says of each commit."""
    log = server.list_all("/repositories/small/refs/main/commits")
    assert len(log) == 2
    for row in log:
        assert row["id"] == commit_id(
            committer=row["committer"],
            message=row["message"],
            meta_range_id=row["meta_range_id"],
            creation_date=row["creation_date"],
            metadata=row.get("metadata") or {},
            parents=row["parents"],
        )


def test_refs_dump_of_the_server_is_read(server: Any, small: Committed) -> None:
    """Commits, branches (hidden too) and tags; the manifest file says what the reply says."""
    branches = "/repositories/small/branches"
    server.call("POST", branches, json={"name": "dev", "source": "main"})
    server.call("POST", branches, json={"name": "secret", "source": "main", "hidden": True})
    server.call("POST", "/repositories/small/tags", json={"id": "v1.0", "ref": "main"})
    reply = server.call("PUT", "/repositories/small/refs/dump")
    manifest = (small.folder / "_lakefs/refs_manifest.json").read_bytes()
    assert json.loads(manifest) == reply

    def read(key: str) -> bytes:
        return (small.folder / key).read_bytes()

    dump = read_refs_dump(read, manifest)
    log = server.list_all("/repositories/small/refs/main/commits")
    head = log[0]["id"]
    assert {commit.id: commit.meta_range_id for commit in dump.commits} == {
        row["id"]: row["meta_range_id"] for row in log
    }
    by_id = {commit.id: commit for commit in dump.commits}
    assert int(by_id[head].creation_date.timestamp()) == log[0]["creation_date"]
    assert by_id[head].parents == tuple(log[0]["parents"])
    assert by_id[head].version == log[0]["version"]
    assert by_id[head].generation == log[0]["generation"]
    assert [branch.id for branch in dump.branches] == ["dev", "main", "secret"]
    assert all(branch.commit_id == head for branch in dump.branches)
    assert dump.tags == [Tag("v1.0", head)]

    # Our files carry the same descriptors; lakeFS spaces its JSON at random, so they are compared as JSON.
    ours = write_refs_dump(dump)
    theirs = open_table(read(f"_lakefs/{reply['commits_meta_range_id']}")).properties.user
    files = dict(ours.files)
    mine = open_table(files[f"_lakefs/{ours.manifest.commits_meta_range_id}"]).properties.user
    assert set(mine) == set(theirs)
    assert mine["schema_name"] == theirs["schema_name"]
    assert json.loads(mine["schema_definition"]) == json.loads(theirs["schema_definition"])
    for entity in ("branches", "tags"):
        real = open_table(read(f"_lakefs/{reply[f'{entity}_meta_range_id']}")).properties.user
        own_id = getattr(ours.manifest, f"{entity}_meta_range_id")
        own = open_table(files[f"_lakefs/{own_id}"]).properties.user
        assert json.loads(own["schema_definition"]) == json.loads(real["schema_definition"])


def our_entries(count: int) -> list[tuple[str, Entry]]:
    return [
        (
            f"our/{number:06}-ü",
            Entry(
                f"data/gcoca17haabs73f2gtq0/{number:020}",
                AT,
                number,
                f"{number:032x}",
                {"key": str(number)} if number % 7 == 0 else {},
                AddressType.RELATIVE,
                "text/x-ours",
            ),
        )
        for number in range(count)
    ]


def write_commit(folder: Path, entries: list[tuple[str, Entry]], raggedness: int) -> Commit:
    """Write ranges and a metarange of ours into a namespace; the commit that has them."""
    records = [
        (
            path.encode(),
            join_value(
                entry_identity(entry.size, entry.e_tag, entry.metadata, entry.content_type),
                entry.encode(),
            ),
        )
        for path, entry in entries
    ]
    written = list(write_ranges(records, rule=BreakRule(range_raggedness_entries=raggedness)))
    metarange_id, data = write_metarange(written)
    (folder / "_lakefs" / metarange_id).write_bytes(data)
    for one in written:
        (folder / "_lakefs" / one.id).write_bytes(one.data)
    new_id = commit_id(
        committer="lakesweep",
        message="by our writer",
        meta_range_id=metarange_id,
        creation_date=AT,
        metadata={"made": "elsewhere"},
        parents=[],
    )
    return Commit(new_id, "lakesweep", "by our writer", AT, metarange_id, (), {"made": "elsewhere"})


@pytest.mark.parametrize("count", [0, 1, 3000, 20_000])
def test_server_reads_our_files_as_a_commit_record(server: Any, count: int) -> None:
    """No entry, one, some ranges, and two-level indexes."""
    name = f"record-{count}"
    folder = server.make_repository(name)
    entries = our_entries(count)
    commit = write_commit(folder, entries, raggedness=1000 if count == 3000 else 10**9)
    server.call(
        "POST",
        f"/repositories/{name}/commits",
        json={
            "commit_id": commit.id,
            "version": commit.version,
            "committer": commit.committer,
            "message": commit.message,
            "metarange_id": commit.meta_range_id,
            "creation_date": int(commit.creation_date.timestamp()),
            "parents": list(commit.parents),
            "metadata": dict(commit.metadata),
            "generation": commit.generation,
        },
    )
    listed = server.list_all(f"/repositories/{name}/refs/{commit.id}/objects/ls")
    assert [listed_facts(row) for row in listed] == [facts(path, e) for path, e in entries]
    assert all(
        row["physical_address"].endswith(entry.address)
        for row, (_, entry) in zip(listed, entries, strict=True)
    )
    for path, entry in entries[:: max(1, count // 20)]:
        stat = server.call(
            "GET", f"/repositories/{name}/refs/{commit.id}/objects/stat", params={"path": path}
        )
        assert listed_facts(stat) == facts(path, entry)


def test_server_restores_a_repository_from_our_refs_dump(server: Any) -> None:
    """A bare repository gets our commits, branches and tags, and reads our ranges through them."""
    folder = server.make_repository("restored", bare=True)
    entries = our_entries(500)
    first = write_commit(folder, entries, raggedness=100)
    second_id = commit_id(
        committer="lakesweep",
        message="merge",
        meta_range_id=first.meta_range_id,
        creation_date=AT,
        metadata={},
        parents=[first.id],
    )
    second = Commit(second_id, "lakesweep", "merge", AT, first.meta_range_id, (first.id,), {}, 1, 2)
    dump = RefsDump(
        [first, second],
        [BranchHead("main", second.id), BranchHead("old", first.id)],
        [Tag("v1", first.id)],
    )
    written = write_refs_dump(dump)
    for key, data in written.files:
        (folder / key).write_bytes(data)
    server.call(
        "PUT", "/repositories/restored/refs/restore", json=json.loads(written.manifest.encode())
    )
    branches = server.list_all("/repositories/restored/branches")
    assert {row["id"]: row["commit_id"] for row in branches} == {
        "main": second.id,
        "old": first.id,
    }
    tags = server.list_all("/repositories/restored/tags")
    assert [(row["id"], row["commit_id"]) for row in tags] == [("v1", first.id)]
    log = server.list_all("/repositories/restored/refs/main/commits")
    assert [row["id"] for row in log] == [second.id, first.id]
    listed = server.list_all("/repositories/restored/refs/v1/objects/ls")
    assert [listed_facts(row) for row in listed] == [facts(path, e) for path, e in entries]
    reply = server.call("PUT", "/repositories/restored/refs/dump")
    again = read_refs_dump(lambda key: (folder / key).read_bytes(), json.dumps(reply).encode())
    assert sorted(again.commits, key=attrgetter("id")) == sorted(dump.commits, key=attrgetter("id"))
    assert again.tags == dump.tags


def test_lakectl_prints_our_files(server: Any, tmp_path: Path) -> None:
    """`lakectl cat-sst` reads a range with a two-level index, and a metarange."""
    entries = our_entries(20_000)
    (tmp_path / "_lakefs").mkdir()
    commit = write_commit(tmp_path, entries, raggedness=10**9)
    metarange = tmp_path / "_lakefs" / commit.meta_range_id
    [info] = read_metarange(metarange.read_bytes())
    assert open_range((tmp_path / "_lakefs" / info.id).read_bytes()).properties.is_two_level
    printed = server.process.lakectl("cat-sst", "-f", str(tmp_path / "_lakefs" / info.id)).stdout
    rows = [line.split("\t") for line in printed.splitlines()]
    assert [(row[0], row[2], row[3]) for row in rows] == [
        (path, str(entry.size), entry.e_tag) for path, entry in entries
    ]
    printed = server.process.lakectl("cat-sst", "-f", str(metarange)).stdout
    assert printed.split("\t")[0] == info.id
