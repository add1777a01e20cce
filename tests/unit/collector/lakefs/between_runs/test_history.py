"""Runs are listed, shown and forgotten, also those that broke off."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.collector.lakefs.between_runs.history import (
    DamagedRun,
    forget_run,
    list_runs,
    load_run,
)
from lakesweep.collector.lakefs.paths import (
    EVENTS,
    RunFolder,
    mark_folder,
    mark_record,
    uncommitted_folder,
)
from lakesweep.collector.record import RunRecord, RunStatus, encode_record
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError, FormatError, StorageError
from lakesweep.storage import ObjectStore, open_store
from lakesweep_testing.faults import FaultPlan, FaultyStore

AT = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def store() -> ObjectStore:
    return open_store(Location.parse(f"mem://history-{uuid.uuid4().hex}/ns"))


def save(store: ObjectStore, run_id: str, mark_id: str = "", days: int = 0) -> None:
    record = RunRecord(
        "repo",
        run_id,
        mark_id or run_id,
        "all",
        "clean",
        RunStatus.MARKED,
        AT + timedelta(days=days),
        plan_id="p",
    )
    store.write(RunFolder(RunId(run_id)).record, encode_record(record))


def test_the_newest_run_comes_first_and_damaged_ones_last(store: ObjectStore) -> None:
    """A record that can't be read, or is not there, hides no other run."""
    save(store, "older", days=1)
    save(store, "newer", days=2)
    store.write(RunFolder(RunId("torn")).record, b'{"schema": "lakesw')
    store.write(f"{RunFolder(RunId('killed')).root}listing/x.parquet", b"x")
    *runs, killed, torn = list_runs(store)
    assert [run.run_id for run in runs] == ["newer", "older"]
    assert isinstance(killed, DamagedRun)
    assert killed.run_id == "killed"
    assert isinstance(torn, DamagedRun)
    assert torn.run_id == "torn"


def test_no_runs_is_an_empty_list(store: ObjectStore) -> None:
    """Not an error: the repository is new to us."""
    assert list_runs(store) == []


def test_an_unknown_run_is_wrong_use(store: ObjectStore) -> None:
    """Exit status 2, and the way to the right id."""
    with pytest.raises(ConfigError, match="runs list"):
        load_run(store, "repo", "nope")
    with pytest.raises(ConfigError, match="runs list"):
        forget_run(store, "repo", "nope")


@pytest.mark.parametrize("run_id", ["../x", "a/b", "", ".", "a b"])
def test_a_run_id_leads_nowhere_else(store: ObjectStore, run_id: str) -> None:
    """It becomes part of the paths that `forget` removes."""
    for action in (load_run, forget_run):
        with pytest.raises(ConfigError) as error:
            action(store, "repo", run_id)
        assert error.value.kind == "bad-run-id"


def test_forgetting_removes_the_runs_files_and_nothing_else(store: ObjectStore) -> None:
    """Its folder, its mark, the server's list; not its neighbours, not what it deleted."""
    save(store, "one", "m1")
    save(store, "one-more", "m11")
    own = [
        f"{RunFolder(RunId('one')).ledger}a.parquet",
        f"{mark_folder(MarkId('m1'))}part-00000.parquet",
        mark_record(MarkId("m1")),
        f"{uncommitted_folder(RunId('one'))}summary.json",
    ]
    others = [
        f"{mark_folder(MarkId('m11'))}part-00000.parquet",
        mark_record(MarkId("m11")),
        f"{uncommitted_folder(RunId('one-more'))}summary.json",
        f"{EVENTS}000000000000001-gone-one/x.parquet",
        "data/x/y",
    ]
    for key in own + others:
        store.write(key, b"x")
    assert forget_run(store, "repo", "one") == len(own) + 1
    left = {key for batch in store.list() for key in batch.column("key").to_pylist()}
    assert left == {*others, RunFolder(RunId("one-more")).record}


def test_a_damaged_run_can_be_forgotten(store: ObjectStore) -> None:
    """That is what its error message advises."""
    store.write(RunFolder(RunId("torn")).record, b"{")
    with pytest.raises(FormatError, match="runs forget"):
        load_run(store, "repo", "torn")
    assert forget_run(store, "repo", "torn") == 1


def test_a_file_that_stays_is_an_error_and_the_record_stays_with_it(store: ObjectStore) -> None:
    """So that forgetting can be tried again."""
    save(store, "one")
    store.write(f"{RunFolder(RunId('one')).ledger}a.parquet", b"x")
    with pytest.raises(StorageError) as error:
        forget_run(FaultyStore(store, 1, FaultPlan(failed_deletes=1.0)), "repo", "one")
    assert error.value.kind == "not-forgotten"
    assert json.loads(store.read(RunFolder(RunId("one")).record))["run_id"] == "one"
