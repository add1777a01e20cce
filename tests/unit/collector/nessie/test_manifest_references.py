"""Manifests as references: their files are hashed together, and each manifest still answers for its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakesweep.collector.judge.references import COUNTS, LIVE, PROTECTING
from lakesweep.collector.nessie import references
from lakesweep.collector.nessie.places import TableStores
from lakesweep.collector.nessie.references import (
    COUNTS_SCHEMA,
    ManifestItem,
    read_references,
)
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.engine.cells import unpack_hashes, unpack_rows
from lakesweep.formats.file_hashes import Flags, Hashes, hash_listed_files
from lakesweep.formats.iceberg.manifests import Promised
from lakesweep.storage import StorageOptions
from lakesweep_testing.iceberg_files import Entry, write_manifest
from lakesweep_testing.one_by_one import hash_file

LAKE = TableStores(StorageOptions())
NOWHERE = Target(Location.parse("mem://nowhere/work"), StorageOptions())


def manifest(folder: Path, name: str, *files: str, kind: int = LIVE) -> ManifestItem:
    path = folder / name
    path.write_bytes(write_manifest([Entry(file) for file in files]))
    return ManifestItem(f"file://{path}", Promised(len(files)), kind)


def read(*items: ManifestItem) -> tuple[pa.Table, list[dict[str, object]]]:
    """The cells, and what was counted for each item, in the order of the items."""
    cells = pa.Table.from_batches(read_references(LAKE, NOWHERE, 1, "kept/", iter(items)))
    counted = {row["item"]: row for row in unpack_rows(cells, COUNTS, COUNTS_SCHEMA).to_pylist()}
    return cells, [counted[item.name] for item in items]


def hashed(*files: str) -> set[int]:
    return {hash_file(file) for file in files}


@pytest.mark.parametrize("together", [1, 2, 100])
def test_every_manifest_is_counted_however_many_are_hashed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int
):
    """Files of live and of dropped tables go to their own kind, with a count for each manifest."""
    monkeypatch.setattr(references, "_MANIFESTS_TOGETHER", together)
    items = [
        manifest(tmp_path, "a.avro", "s3://b/1", "s3://b/2"),
        manifest(tmp_path, "b.avro", "s3://b/3", kind=PROTECTING),
        manifest(tmp_path, "c.avro", "s3://b/4"),
    ]
    cells, counts = read(*items)
    assert [(c["kind"], c["entries"], c["sent"], c["problem"]) for c in counts] == [
        (LIVE, 2, 2, None),
        (PROTECTING, 1, 1, None),
        (LIVE, 1, 1, None),
    ]
    assert set(unpack_hashes(cells, LIVE).tolist()) == hashed("s3://b/1", "s3://b/2", "s3://b/4")
    assert set(unpack_hashes(cells, PROTECTING).tolist()) == hashed("s3://b/3")


def test_a_name_that_is_not_understood_is_the_problem_of_its_manifest_alone(tmp_path: Path):
    """The others' files still arrive, so that one look names everything that is wrong."""
    items = [
        manifest(tmp_path, "good.avro", "s3://b/1"),
        manifest(tmp_path, "bad.avro", "s3://b/2", "s3://b/a/../3"),
    ]
    cells, counts = read(*items)
    assert not counts[0]["problem"]
    assert counts[1]["problem"]
    assert (counts[1]["entries"], counts[1]["sent"]) == (0, 0)
    assert set(unpack_hashes(cells, LIVE).tolist()) == hashed("s3://b/1")


def test_a_file_behind_a_link_is_counted_by_both_its_names(tmp_path: Path):
    """What is sent for each manifest stays exact where only some files have a second name."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    items = [
        manifest(tmp_path, "linked.avro", f"file://{link}/1"),
        manifest(tmp_path, "plain.avro", f"file://{real}/2", f"file://{real}/3"),
    ]
    cells, counts = read(*items)
    assert [(c["entries"], c["sent"]) for c in counts] == [(1, 2), (2, 2)]
    assert np.isin(list(hashed(f"file://{real}/1")), unpack_hashes(cells, LIVE)).all()


def test_names_of_a_whole_catalog_fit_in_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of short strings holds 2 GiB of names, and a catalog has twenty million manifests."""
    types: list[pa.DataType] = []

    def spied(paths: pa.Array) -> tuple[Hashes, Flags]:
        types.append(paths.type)
        return hash_listed_files(paths)

    monkeypatch.setattr(references, "hash_listed_files", spied)
    found = references.names_of_no_place(["string", "s3://lake/t/metadata/snap.avro"])
    assert list(found) == ["string"]
    assert types == [pa.large_string()]
