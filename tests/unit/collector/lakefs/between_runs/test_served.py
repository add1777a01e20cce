"""Files that a server wrote for a run: removed once they have served, unless they are somebody else's now."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.collector.lakefs.between_runs.served import note_served, remove_served
from lakesweep.collector.lakefs.paths import GC, OWN
from lakesweep.domain.commits import BranchHead, BranchId, CommitId
from lakesweep.domain.location import Location
from lakesweep.formats.entries import Entry
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.refs_dump import MANIFEST_KEY, RefsDump, write_refs_dump
from lakesweep.formats.values import join_value
from lakesweep.storage import ObjectStore, open_store
from lakesweep.storage.memory import memory_container

AT = datetime(2026, 5, 1, tzinfo=UTC)


class Clock:
    now = AT

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> ObjectStore:
    name = f"served-{uuid.uuid4().hex}"
    memory_container(name).clock = clock
    return open_store(Location.parse(f"mem://{name}/ns"))


def write_dump(store: ObjectStore) -> list[str]:
    dump = write_refs_dump(RefsDump([], [BranchHead(BranchId("main"), CommitId("c"))], []))
    for key, data in dump.files:
        store.write(key, data)
    return [key for key, _ in dump.files]


def test_a_dump_and_a_list_of_commits_go_with_their_note(store: ObjectStore) -> None:
    """They were read, and a run that asks again gets new ones."""
    keys = [*write_dump(store), f"{GC}commits/run_id=r/commits.csv"]
    store.write(keys[-1], b"commits")
    note_served(store, keys, AT)
    assert remove_served(store) == len(set(keys))
    assert list(store.keys("")) == []


def test_a_dump_that_somebody_wrote_again_stays(store: ObjectStore, clock: Clock) -> None:
    """A user's dump of the same refs has the same names."""
    keys = write_dump(store)
    note_served(store, keys, AT)
    clock.now += timedelta(seconds=1)
    write_dump(store)
    assert remove_served(store) == 0
    assert set(store.keys("")) == set(keys)


def test_the_dump_of_a_user_that_came_before_the_note_stays(
    store: ObjectStore, clock: Clock
) -> None:
    """Between a run's dump and its note a user may have dumped the same refs: by names and times their files are ours."""
    keys = [*write_dump(store), MANIFEST_KEY]
    dump = write_refs_dump(RefsDump([], [BranchHead(BranchId("main"), CommitId("c"))], []))
    store.write(MANIFEST_KEY, dump.manifest.encode())
    note_served(store, keys[:-1], AT)
    assert remove_served(store) == 0
    assert set(store.keys("")) == set(keys)


@pytest.mark.parametrize("manifest", [b"{", b'{"tags_meta_range_id": 1}'])
def test_files_of_dumps_stay_where_the_manifest_can_not_be_read(
    store: ObjectStore, manifest: bytes
) -> None:
    """Nobody can tell whose they are."""
    keys = [*write_dump(store), MANIFEST_KEY]
    store.write(MANIFEST_KEY, manifest)
    note_served(store, keys[:-1], AT)
    assert remove_served(store) == 0


def test_a_note_that_names_anything_else_removes_nothing(store: ObjectStore) -> None:
    """Ranges of data lie in the same folder as dumps, and a note can be written by anybody who can write data."""
    [data_range] = write_ranges(
        [(b"path", join_value(b"i" * 32, Entry("data/a/b", None, 1, "e").encode()))]
    )
    keys = [f"_lakefs/{data_range.id}", "data/a/b", "_lakefs/dummy", f"{GC}addresses/x/y"]
    for key in keys:
        store.write(key, data_range.data)
    note_served(store, keys, AT)
    store.write(f"{OWN}served/torn.json", b'{"data/a')
    store.write(f"{OWN}served/list.json", json.dumps(keys).encode())
    assert remove_served(store) == 0
    assert set(store.keys("")) == set(keys)
