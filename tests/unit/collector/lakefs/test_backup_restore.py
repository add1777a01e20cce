"""Backup and restore: verified, resumable, never inside the namespace, and told to later marks."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.collector.copies.copier import CopyChunk, CopyRoad, copy_chunks
from lakesweep.collector.judge.references import RESTORED
from lakesweep.collector.lakefs.backup_restore import CopyRun, list_parts, run_copy, run_listed
from lakesweep.collector.lakefs.between_runs.history import list_runs
from lakesweep.collector.lakefs.between_runs.saved import event_files
from lakesweep.collector.lakefs.deletion import ObjectDeletion
from lakesweep.collector.lakefs.paths import OWN
from lakesweep.collector.lease import Lease
from lakesweep.collector.parts import read_addresses
from lakesweep.collector.phases import Phases
from lakesweep.collector.record import BACKUP, RESTORE, RunRecord, RunStatus
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.errors import (
    ConfigError,
    ObjectNotFoundError,
    StorageDeniedError,
    StorageError,
    UnsafeToSweepError,
)
from lakesweep.formats.tables import MARK_SCHEMA, write_mark
from lakesweep.storage import ObjectInfo, ObjectStore, StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

WHY_NOT = ObjectDeletion(root_names=True).why_not

SLICE = "data/gcoca17haabs73f2gtq0/"


def address(number: int) -> str:
    return f"{SLICE}c{number:018d}0"


class Place:
    """A namespace, a backup and a list of addresses, each in a container of its own."""

    def __init__(self) -> None:
        name = uuid.uuid4().hex
        self.namespace = Target(Location.parse(f"mem://ns-{name}/lake"), StorageOptions())
        self.outside = Target(Location.parse(f"mem://bak-{name}/backup"), StorageOptions())
        self.lists = Target(Location.parse(f"mem://list-{name}/mark"), StorageOptions())

    def put(self, where: Target, *numbers: int, content: str = "content") -> None:
        for number in numbers:
            where.open().write(address(number), f"{content} {number}".encode())

    def mark(self, *addresses: str, name: str = "part-0.parquet") -> None:
        rows = [{"address": a, "size_bytes": 9} for a in addresses]
        self.lists.open().write(name, write_mark(pa.Table.from_pylist(rows, schema=MARK_SCHEMA)))

    def has(self, where: Target, *numbers: int) -> list[bool]:
        found = where.open().stat_many([address(n) for n in numbers])
        return [info is not None for _, info in found]

    def run(self, flow: str) -> RunRecord:
        phases = Phases("test")
        engine = InProcessEngine()
        return run_listed(flow, engine, phases, self.lists, self.namespace, self.outside)


@pytest.fixture
def place() -> Place:
    place = Place()
    place.mark(address(1), address(2), address(3))
    return place


def test_a_backup_copies_what_is_there(place: Place) -> None:
    """What is gone already has nothing to be saved, and is no failure."""
    place.put(place.namespace, 1, 2)
    record = place.run(BACKUP)
    assert record.status is RunStatus.BACKED_UP
    assert (record.objects["copied"], record.objects["already_gone"]) == (2, 1)
    assert place.has(place.outside, 1, 2, 3) == [True, True, False]


def test_a_backup_that_finds_none_of_its_objects_fails(place: Place) -> None:
    """The namespace was typed by hand, and in another one nothing of the list is there: no copy is no backup."""
    with pytest.raises(StorageError, match="none of them is in") as error:
        place.run(BACKUP)
    assert error.value.kind == "copies-failed"
    (record,) = list_runs(place.namespace.open())
    assert isinstance(record, RunRecord)
    assert record.status is RunStatus.FAILED
    assert place.namespace.namespace.uri in record.reason
    assert record.objects["failed"] == 3


def test_a_backup_of_an_empty_list_has_nothing_to_find() -> None:
    """A mark without garbage is a mark."""
    place = Place()
    place.mark()
    assert place.run(BACKUP).status is RunStatus.BACKED_UP


def test_given_again_it_copies_only_what_is_missing(place: Place) -> None:
    """That is how a stopped backup goes on."""
    place.put(place.namespace, 1, 2, 3)
    place.put(place.outside, 2)
    record = place.run(BACKUP)
    assert (record.objects["copied"], record.objects["already_there"]) == (2, 1)
    assert place.run(BACKUP).objects["already_there"] == 3


@pytest.mark.parametrize("content", ["CONTENT", "longer content"])
def test_other_content_under_the_address_is_never_replaced(place: Place, content: str) -> None:
    """Neither of the same size nor of another: the run fails, names the object, and copies the rest."""
    place.put(place.namespace, 1, 2, 3)
    place.put(place.outside, 2, content=content)
    with pytest.raises(StorageError, match="other content") as error:
        place.run(BACKUP)
    assert error.value.kind == "copies-failed"
    assert address(2) in error.value.message
    assert place.has(place.outside, 1, 3) == [True, True]
    assert place.outside.open().read(address(2)) == f"{content} 2".encode()
    (record,) = list_runs(place.namespace.open())
    assert isinstance(record, RunRecord)
    assert record.status is RunStatus.FAILED
    assert record.objects["failed"] == 1


def test_a_restore_brings_back_and_tells_later_marks(place: Place) -> None:
    """The events name what is there again, so that marks over committed data see it."""
    place.put(place.outside, 1, 2, 3)
    place.put(place.namespace, 3)
    record = place.run(RESTORE)
    assert record.status is RunStatus.RESTORED
    assert (record.objects["copied"], record.objects["already_there"]) == (2, 1)
    store = place.namespace.open()
    events = event_files(store)
    assert {event.kind for event in events} == {RESTORED}
    told = {
        a
        for e in events
        for batch in read_addresses(store.read(e.key), e.key)
        for a in batch.to_pylist()
    }
    assert told == {address(1), address(2), address(3)}


def test_what_the_backup_does_not_have_can_not_be_restored(place: Place) -> None:
    """The others come back all the same; the failure names one."""
    place.put(place.outside, 1, 2)
    with pytest.raises(StorageError, match="missing in mem://bak") as error:
        place.run(RESTORE)
    assert address(3) in error.value.message
    assert place.has(place.namespace, 1, 2, 3) == [True, True, False]


def test_a_backup_that_was_cut_short_is_not_restored(place: Place) -> None:
    """Somebody moved it to another disk. Its copy would be as it is, and not as the object was."""
    place.put(place.outside, 1, 3)
    place.outside.open().write(address(2), b"cont")
    with pytest.raises(StorageError, match="4 bytes are there, 9 by the mark") as error:
        place.run(RESTORE)
    assert address(2) in error.value.message
    assert place.has(place.namespace, 1, 2, 3) == [True, False, True]


def test_nothing_foreign_is_copied_into_the_namespace(place: Place) -> None:
    """A list edited by hand can't write below _lakefs/ or over the repository's marker."""
    for name in ("_lakefs/x", "dummy", "data/plain"):
        place.outside.open().write(name, b"evil")
    place.mark("_lakefs/x", "dummy", "data/plain")
    with pytest.raises(StorageError, match="not a name that lakeFS gives"):
        place.run(RESTORE)
    found = dict(place.namespace.open().stat_many(["_lakefs/x", "dummy", "data/plain"]))
    assert set(found.values()) == {None}


@pytest.mark.parametrize("flow", [BACKUP, RESTORE])
@pytest.mark.parametrize("where", ["", "data", "_lakefs/backup"])
def test_a_place_inside_the_namespace_is_refused(place: Place, flow: str, where: str) -> None:
    """It would be listed, and its copies would look like garbage."""
    inside = place.namespace.namespace
    place.outside = Target(inside.child(where) if where else inside, StorageOptions())
    with pytest.raises(ConfigError, match="outside it") as error:
        place.run(flow)
    assert error.value.kind == "backup-inside-namespace"
    assert list(place.namespace.open().list()) == []


def test_a_place_around_the_namespace_is_refused(place: Place) -> None:
    """Its own folders could swallow the namespace."""
    around = Location.parse(f"mem://{place.namespace.namespace.container}")
    place.outside = Target(around, StorageOptions())
    with pytest.raises(ConfigError, match="overlaps"):
        place.run(BACKUP)


@pytest.mark.parametrize("flow", [BACKUP, RESTORE])
def test_the_namespace_by_another_name_is_no_place_for_copies(
    place: Place, tmp_path: Path, flow: str
) -> None:
    """Behind a link, a mount or an alias of a bucket, each object would be its own copy, and go with it."""
    (tmp_path / "ns").mkdir()
    (tmp_path / "backups").symlink_to("ns")
    place.namespace = Target(Location.parse(f"file://{tmp_path}/ns"), StorageOptions())
    place.outside = Target(Location.parse(f"file://{tmp_path}/backups"), StorageOptions())
    place.put(place.namespace, 1, 2, 3)
    with pytest.raises(ConfigError, match="are one place") as refused:
        place.run(flow)
    assert refused.value.kind == "backup-inside-namespace"
    left = place.namespace.open().keys("")
    assert not [key for key in left if "same-place" in key]


def test_a_backup_of_which_only_its_objects_may_be_read_is_restored(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may not list a bucket is told on S3 that he is denied where there is no object. A restore deletes nothing."""
    place.put(place.outside, 1, 2, 3)
    stat = ObjectStore.stat

    def stat_if_there(self: ObjectStore, key: str) -> ObjectInfo:
        try:
            return stat(self, key)
        except ObjectNotFoundError as error:
            if self.root == place.outside.namespace:
                raise StorageDeniedError(f"a look at {key} was refused") from error
            raise

    monkeypatch.setattr(ObjectStore, "stat", stat_if_there)
    assert place.run(RESTORE).objects["copied"] == 3
    with pytest.raises(StorageDeniedError, match="same-place"):
        place.run(BACKUP)


def test_an_empty_list_of_files_is_wrong_use(place: Place) -> None:
    """Nothing found is not nothing to do: the location may be mistyped."""
    place.lists = Target(Location.parse(f"mem://none-{uuid.uuid4().hex}"), StorageOptions())
    with pytest.raises(ConfigError, match="no list of objects"):
        place.run(BACKUP)


def test_a_list_may_be_one_file(place: Place) -> None:
    """As well as a folder of them."""
    place.put(place.namespace, 1, 2, 3)
    place.lists = Target(place.lists.namespace.child("part-0.parquet"), StorageOptions())
    assert place.run(BACKUP).objects["copied"] == 3


def test_a_running_collector_keeps_a_restore_out(place: Place) -> None:
    """Both would write about the same objects."""
    place.put(place.outside, 1, 2, 3)
    held = Lease(place.namespace.open(), "repo", "gc", folder=OWN)
    with held, pytest.raises(UnsafeToSweepError) as error:
        place.run(RESTORE)
    assert error.value.kind == "lease-held"
    assert place.has(place.namespace, 1) == [False]


def test_single_objects_can_be_restored(place: Place) -> None:
    """Those that are named, and no other."""
    place.put(place.outside, 1, 2, 3)
    record = _restore(place, [address(2)])
    assert record.objects["copied"] == 1
    assert place.has(place.namespace, 1, 2, 3) == [False, True, False]


def test_an_object_that_the_mark_does_not_name_is_refused(place: Place) -> None:
    """Before anything is copied."""
    place.put(place.outside, 1, 2, 3)
    with pytest.raises(ConfigError, match="does not name"):
        _restore(place, [address(2), address(9)])
    assert place.has(place.namespace, 2) == [False]


def _restore(place: Place, addresses: list[str]) -> RunRecord:
    parts = list_parts(place.lists.open(), "")
    run = CopyRun("repo", place.outside, place.lists, parts, mark="m")
    resources = Resources(place.namespace, InProcessEngine(), Phases("repo"), utc_now)
    return run_copy(resources, run, RESTORE, addresses)


def test_a_task_may_run_twice_into_a_place_that_was_empty(place: Place) -> None:
    """What its first attempt copied is verified as its own, and a spoilt copy of it is mended."""
    place.put(place.namespace, 1, 2, 3)
    road = CopyRoad(
        place.lists,
        place.namespace,
        place.outside,
        place.namespace,
        "work/",
        WHY_NOT,
        is_target_empty=True,
    )
    for _ in range(2):
        (counts,) = copy_chunks(road, iter([CopyChunk("part-0.parquet", 0, 3)]))
        assert counts.column("outcome").to_pylist() == ["copied"]
        assert counts.column("objects").to_pylist() == [3]
        assert place.has(place.outside, 1, 2, 3) == [True, True, True]
        assert place.outside.open().read(address(2)) == place.namespace.open().read(address(2))
        place.put(place.outside, 2, content="half of")


def test_a_place_that_can_not_be_listed_is_searched_for_copies(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows that it is empty, so what is there is found by its name and not replaced."""
    place.mark(address(2))
    place.put(place.namespace, 2)
    place.put(place.outside, 2, content="CONTENT")

    def refuse(self: ObjectStore, prefix: str = "", *, start_after: str | None = None) -> None:
        if self.root == place.outside.namespace:
            raise StorageDeniedError(f"listing {prefix!r} was refused")

    monkeypatch.setattr(ObjectStore, "first_key", refuse)
    with pytest.raises(StorageError, match="other content"):
        place.run(BACKUP)
    assert place.outside.open().read(address(2)) == b"CONTENT 2"


def test_one_slow_object_does_not_hold_up_the_next_chunk(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first object's copy ends only when the last chunk's has been seen to begin."""
    place.put(place.namespace, 1, 2, 3)
    road = CopyRoad(place.lists, place.namespace, place.outside, place.namespace, "work/", WHY_NOT)
    next_has_begun = threading.Event()
    copied = ObjectStore.copy_from

    def copy(self: ObjectStore, source: ObjectStore, source_key: str, target_key: str) -> None:
        if source_key == address(1):
            assert next_has_begun.wait(30)
        else:
            next_has_begun.set()
        copied(self, source, source_key, target_key)

    monkeypatch.setattr(ObjectStore, "copy_from", copy)
    chunks = [CopyChunk("part-0.parquet", start, 1) for start in range(2)]
    counts = pa.Table.from_batches(copy_chunks(road, iter(chunks)))
    assert counts.column("outcome").to_pylist() == ["copied", "copied"]
    assert counts.column("example").to_pylist() == [address(1), address(2)]
