"""What was read of a manifest is kept, and is read anew wherever that could tell something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.collector.judge.references import COUNTS, LIVE
from lakesweep.collector.nessie import places
from lakesweep.collector.nessie.judging import with_packs
from lakesweep.collector.nessie.manifest_hashes import load_index, save_index
from lakesweep.collector.nessie.places import TableStores
from lakesweep.collector.nessie.references import COUNTS_SCHEMA, ManifestItem, read_references
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.engine.cells import unpack_hashes, unpack_rows
from lakesweep.formats.iceberg.manifests import Promised
from lakesweep.storage import StorageOptions
from lakesweep_testing.iceberg_files import Entry, write_manifest
from lakesweep_testing.one_by_one import hash_file

LAKE = TableStores(StorageOptions())
KEPT = "kept/"


class Reader:
    """Reads one manifest as a task does, and keeps what it read."""

    def __init__(self, folder: Path) -> None:
        self.work = Target(Location.parse(f"file://{folder}/work"), StorageOptions())
        self.store = self.work.open()
        self.file = folder / "m.avro"

    def write(self, *files: str) -> ManifestItem:
        self.file.write_bytes(write_manifest([Entry(file) for file in files]))
        return ManifestItem(
            f"file://{self.file}", Promised(len(files), self.file.stat().st_size), LIVE
        )

    def read(self, item: ManifestItem) -> tuple[set[int], dict[str, object]]:
        """The hashes that were sent, and what was counted."""
        batches = read_references(LAKE, self.work, 1, KEPT, iter([item]))
        cells = pa.Table.from_batches(batches)
        (counts,) = unpack_rows(cells, COUNTS, COUNTS_SCHEMA).to_pylist()
        return set(unpack_hashes(cells, LIVE).tolist()), counts


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def hashed(*files: str) -> set[int]:
    return {hash_file(file) for file in files}


def kept(reader: Reader, item: ManifestItem) -> ManifestItem:
    _, counts = reader.read(item)
    assert counts["pack"]
    return replace(item, pack=str(counts["pack"]))


def test_a_manifest_that_was_read_is_not_read_again(reader: Reader) -> None:
    """Even where it is gone: what it held is known, and counted as it was."""
    item = kept(reader, reader.write("s3://b/1", "s3://b/2"))
    reader.file.unlink()

    sent, counts = reader.read(item)

    assert sent == hashed("s3://b/1", "s3://b/2")
    assert (counts["entries"], counts["sent"], counts["problem"]) == (2, 2, None)
    assert (counts["pack"], counts["is_fuller"]) == (item.pack, False)


def test_each_manifest_keeps_its_own_hashes(reader: Reader, tmp_path: Path) -> None:
    """Though the names of many are hashed together."""
    one = reader.write("s3://b/1")
    reader.file = tmp_path / "n.avro"
    two = reader.write("s3://b/2", "s3://b/3")
    cells = pa.Table.from_batches(read_references(LAKE, reader.work, 1, KEPT, iter([one, two])))
    counts = unpack_rows(cells, COUNTS, COUNTS_SCHEMA).to_pylist()
    (pack,) = {str(row["pack"]) for row in counts}

    assert reader.read(replace(one, pack=pack))[0] == hashed("s3://b/1")
    assert reader.read(replace(two, pack=pack))[0] == hashed("s3://b/2", "s3://b/3")


def test_more_entries_than_promised_are_told_again(reader: Reader) -> None:
    """The notice does not get lost with the reading."""
    item = reader.write("s3://b/1", "s3://b/2")
    item = kept(reader, replace(item, promised=item.promised._replace(entries=1)))
    reader.file.unlink()

    assert reader.read(item)[1]["is_fuller"]


@pytest.mark.parametrize("how", ["damaged", "cut", "gone", "empty"])
def test_a_pack_that_is_not_as_it_was_written_is_not_believed(reader: Reader, how: str) -> None:
    """The manifest is read anew."""
    item = kept(reader, reader.write("s3://b/1"))
    data = reader.store.read(item.pack)
    if how == "gone":
        reader.store.delete_many([item.pack])
    else:
        damaged = {
            "damaged": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
            "cut": data[:-1],
            "empty": b"",
        }
        reader.store.write(item.pack, damaged[how])
    reader.write("s3://b/2")

    sent, counts = reader.read(item)

    assert sent == hashed("s3://b/2")
    assert counts["pack"] not in ("", item.pack)


def test_another_length_is_another_manifest(reader: Reader) -> None:
    """Written anew in its place, and named so by a manifest list."""
    before = kept(reader, reader.write("s3://b/1"))
    after = replace(reader.write("s3://b/with-a-longer-name"), pack=before.pack)

    assert reader.read(after)[0] == hashed("s3://b/with-a-longer-name")


def test_fewer_entries_than_are_promised_now_stop_the_run(reader: Reader) -> None:
    """As they would have, had the manifest been read."""
    item = kept(reader, reader.write("s3://b/1"))

    sent, counts = reader.read(replace(item, promised=item.promised._replace(entries=2)))

    assert not sent
    assert counts["problem"]


def test_files_behind_a_new_link_are_known_by_their_real_path_too(
    reader: Reader, tmp_path: Path
) -> None:
    """A listing may come by the real path, so the kept hashes would not do."""
    folder, real = tmp_path / "table", tmp_path / "real"
    folder.mkdir()
    item = kept(reader, reader.write(f"file://{folder}/1"))
    folder.rename(real)
    folder.symlink_to(real)
    places._real_folder.cache_clear()  # as in the process of another run

    assert hashed(f"file://{real}/1") < reader.read(item)[0]


def test_what_nobody_promised_a_length_of_is_not_kept(reader: Reader) -> None:
    """Nor a file that is longer than it should be: nothing could be compared later."""
    item = reader.write("s3://b/1")
    for length in (None, item.promised.length and item.promised.length - 1):
        _, counts = reader.read(replace(item, promised=Promised(1, length)))
        assert (counts["problem"], counts["pack"]) == (None, "")
    assert not list(reader.store.keys(KEPT))


def test_the_index_names_packs_by_path_and_length(reader: Reader) -> None:
    """A damaged list of packs is passed over."""
    item = reader.write("s3://b/1")
    length = item.promised.length
    assert length is not None
    save_index(reader.store, KEPT, {(item.path, length): "a.pack"})

    packs = load_index(reader.store, KEPT)
    other = replace(item, promised=Promised(1, length + 1))
    told = [i.pack for i in with_packs([item, other], packs) if isinstance(i, ManifestItem)]

    assert told == ["a.pack", ""]
    (key,) = reader.store.keys(KEPT)
    reader.store.write(key, reader.store.read(key)[:-1])
    assert not load_index(reader.store, KEPT)
