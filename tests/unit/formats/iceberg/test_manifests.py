"""Manifest lists and manifests: the paths they name, what counts as live, and what is doubt."""

from __future__ import annotations

import pytest

from lakesweep.errors import FormatError
from lakesweep.formats.iceberg.manifests import Promised, read_manifest, read_manifest_list
from lakesweep_testing.avro_writer import write_avro
from lakesweep_testing.iceberg_files import (
    ADDED,
    DELETED,
    EXISTING,
    Entry,
    ListedManifest,
    write_manifest,
    write_manifest_list,
)

VERSIONS = [1, 2, 3]
ENTRIES = [
    Entry("s3://lake/t/added", ADDED),
    Entry("s3://lake/t/gone", DELETED),
    Entry("s3://lake/t/kept", EXISTING),
]


def paths_of(entries: list[Entry], version: int = 2, count: int | None = None) -> list[str]:
    found = read_manifest(write_manifest(entries, version=version), "m", Promised(count))
    assert found.entries == len(entries)
    paths: list[str] = found.files.to_pylist()
    return paths


@pytest.mark.parametrize("version", VERSIONS)
def test_added_and_existing_files_are_live_and_deleted_ones_are_not(version: int) -> None:
    """The status decides, in every version."""
    assert paths_of(ENTRIES, version, count=3) == ["s3://lake/t/added", "s3://lake/t/kept"]


def test_delete_files_are_files_of_the_snapshot() -> None:
    """By position, by equality, and deletion vectors; the file that a vector is about is named by its own entry."""
    entries = [
        Entry("s3://lake/t/position", content=1),
        Entry("s3://lake/t/equality", content=2),
    ]
    assert paths_of(entries) == ["s3://lake/t/position", "s3://lake/t/equality"]
    vector = Entry("s3://lake/t/v.puffin", content=1, deletion_vector_of="s3://lake/t/added")
    assert paths_of([vector], version=3) == ["s3://lake/t/v.puffin"]


def test_a_manifest_without_entries_names_nothing() -> None:
    """As long as nothing was promised."""
    assert paths_of([], count=0) == []


def test_fewer_entries_than_promised_are_doubt_and_more_are_not() -> None:
    """A file cut off between two blocks looks whole; deleted entries are counted too. Some writers always promise 1."""
    with pytest.raises(FormatError, match="3 entries and its manifest list promises 4"):
        paths_of(ENTRIES, count=4)
    assert paths_of(ENTRIES, count=1) == paths_of(ENTRIES, count=3)


def test_a_manifest_shorter_than_promised_is_doubt() -> None:
    """Its length is known even where nobody counted its entries."""
    data = write_manifest(ENTRIES)
    for length in (0, len(data)):
        assert read_manifest(data, "m", Promised(None, length)).entries == 3
    with pytest.raises(FormatError, match=f"{len(data)} bytes long .* promises {len(data) + 1}"):
        read_manifest(data, "m", Promised(None, len(data) + 1))


def test_of_two_promises_the_larger_counts() -> None:
    """Lists of several snapshots name one manifest, and a writer may have counted in one of them only."""
    assert Promised(3, None).at_least(Promised(1, 10)) == Promised(3, 10)
    assert Promised().at_least(Promised(1, 10)) == Promised(1, 10)


def test_an_entry_of_unknown_status_is_doubt() -> None:
    """It may be live."""
    for status in (3, -1):
        with pytest.raises(FormatError, match="unknown status"):
            paths_of([Entry("s3://lake/t/x", status)])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("old_names", [False, True])
def test_a_list_names_its_manifests_and_counts_their_entries(version: int, old_names: bool) -> None:
    """Data and deletes alike; the counts have two names."""
    manifests = [
        ListedManifest("s3://lake/t/m0", 100, added=3, existing=2, deleted=1),
        ListedManifest("s3://lake/t/m1", 200, added=1, is_deletes=True),
    ]
    found = read_manifest_list(
        write_manifest_list(manifests, version=version, old_names=old_names), "l"
    )
    assert found.paths == ["s3://lake/t/m0", "s3://lake/t/m1"]
    assert found.promised == [Promised(6, 100), Promised(1, 200)]
    assert found.live_entries == 6


def test_counts_that_were_not_written_promise_nothing() -> None:
    """Version 1 may leave them out, and some writers put -1."""
    manifests = [
        ListedManifest("s3://lake/t/m0", 1, added=None, existing=2, deleted=0),
        ListedManifest("s3://lake/t/m1", 1, added=-1, existing=2, deleted=0),
        ListedManifest("s3://lake/t/m2", 1, added=1, existing=2, deleted=0),
    ]
    found = read_manifest_list(write_manifest_list(manifests, version=1), "l")
    assert [promised.entries for promised in found.promised] == [None, None, 3]
    assert found.live_entries is None
    bare = {
        "type": "record",
        "name": "manifest_file",
        "fields": [{"name": "manifest_path", "type": "string"}],
    }
    found = read_manifest_list(write_avro(bare, [{"manifest_path": "s3://lake/t/m"}]), "l")
    assert found.promised == [Promised()]


def test_an_empty_list_names_nothing() -> None:
    """A snapshot from which all was deleted."""
    found = read_manifest_list(write_manifest_list([]), "l")
    assert (found.paths, found.promised, found.live_entries) == ([], [], 0)


def test_encrypted_manifests_are_doubt() -> None:
    """They can't be read, so what they name is not known."""
    one = ListedManifest("s3://lake/t/m", 1, key_metadata=b"key")
    with pytest.raises(FormatError, match="encrypted"):
        read_manifest_list(write_manifest_list([one]), "l")
    for read in (
        lambda: read_manifest_list(b"AGS1" + bytes(40), "l"),
        lambda: read_manifest(b"AGS1" + bytes(40), "m", Promised()),
    ):
        with pytest.raises(FormatError, match="encrypted"):
            read()


def test_a_file_of_another_kind_is_doubt_even_when_empty() -> None:
    """An empty file of the wrong kind would otherwise name nothing, and all would be garbage."""
    with pytest.raises(FormatError, match="not a manifest list"):
        read_manifest_list(write_manifest([]), "l")
    with pytest.raises(FormatError, match="not a manifest:"):
        read_manifest(write_manifest_list([]), "m", Promised())


@pytest.mark.parametrize("version", [0, 4])
def test_an_unknown_version_is_doubt(version: int) -> None:
    """Its entries may mean something else."""
    with pytest.raises(FormatError, match="not known"):
        read_manifest(write_manifest(ENTRIES, version=version), "m", Promised())
    with pytest.raises(FormatError, match="not known"):
        read_manifest_list(write_manifest_list([], version=version), "l")


def test_columns_of_another_type_are_doubt() -> None:
    """A list whose counts are texts is none of Iceberg's."""
    names = ("manifest_path", "added_files_count", "key_metadata", "manifest_length")
    for wrong in names:
        fields = [{"name": n, "type": "boolean" if n == wrong else "string"} for n in names[:1]]
        if wrong != "manifest_path":
            fields.append({"name": wrong, "type": "boolean"})
        schema = {"type": "record", "name": "manifest_file", "fields": fields}
        row = {"manifest_path": "s3://lake/t/m"} | {wrong: True}
        with pytest.raises(FormatError, match=wrong):
            read_manifest_list(write_avro(schema, [row]), "l")


def test_paths_that_are_missing_are_doubt() -> None:
    """A null or empty path is a file that can't be named."""
    schema = {
        "type": "record",
        "name": "manifest_file",
        "fields": [{"name": "manifest_path", "type": ["null", "string"]}],
    }
    with pytest.raises(FormatError, match="null"):
        read_manifest_list(write_avro(schema, [{"manifest_path": None}]), "l")
    with pytest.raises(FormatError, match="without a path"):
        read_manifest_list(write_avro(schema, [{"manifest_path": ""}]), "l")
