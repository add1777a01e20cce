"""The second look reads no manifest that the expiry has read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from lakesweep.collector.nessie.places import TableStores, Unreadable
from lakesweep.collector.nessie.set_files import SetFolder
from lakesweep_testing.nessie_scene import NessieScene


def is_manifest(uri: str) -> bool:
    return uri.endswith(".avro") and not uri.rpartition("/")[2].startswith("snap-")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that tasks read, in order."""
    found: list[str] = []
    original = TableStores.read_many

    def note(self: TableStores, uris: Iterable[str]) -> Iterator[tuple[str, bytes | Unreadable]]:
        wanted = list(uris)
        found.extend(uri for uri in wanted if is_manifest(uri))
        return original(self, wanted)

    monkeypatch.setattr(TableStores, "read_many", note)
    return found


def manifests_of(scene: NessieScene) -> set[str]:
    return {uri for uri in scene.files() if is_manifest(uri)}


def test_deferred_deletes_read_no_manifest_again(scene: NessieScene, read: list[str]) -> None:
    """What became live since the mark is read, once; all the rest is known."""
    orders = scene.table("orders")
    orders.append("a.parquet", "b.parquet")
    orphan = orders.iceberg.write_orphan("orphan.parquet")
    again = orders.iceberg.write_orphan("again.parquet")
    marked = scene.mark()
    scene.defer(marked)
    assert set(read) == manifests_of(scene)
    read.clear()
    since = manifests_of(scene)
    orders.append("again.parquet")
    new = manifests_of(scene) - since

    record = scene.delete_deferred(marked, ask_nessie=True)

    assert set(read) <= new
    assert len(read) == len(set(read))
    assert orphan not in scene.files()
    assert again in scene.files()
    assert record.objects["deleted"] == 1


def test_a_live_file_stays_though_its_kept_hashes_are_damaged(
    scene: NessieScene, read: list[str]
) -> None:
    """They are read anew."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orphan = orders.iceberg.write_orphan("orphan.parquet")
    marked = scene.mark()
    scene.defer(marked)
    store = scene.context().resources.store
    for key in list(store.keys(SetFolder(marked.live_set_id).manifests)):
        if key.endswith(".pack"):
            data = store.read(key)
            store.write(key, data[:-1] + bytes([data[-1] ^ 1]))
    first = set(read)
    read.clear()

    scene.delete_deferred(marked, ask_nessie=True)

    assert set(read) == first
    assert orphan not in scene.files()
