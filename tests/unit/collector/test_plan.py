"""Plans: what they promise, and what a changed one is worth."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest

from lakesweep.collector.lakefs.marks import is_untouched, load_plan, save_plan
from lakesweep.collector.lakefs.marks import write_mark as write_mark_folder
from lakesweep.collector.lakefs.paths import RunFolder, mark_folder
from lakesweep.collector.parts import Part
from lakesweep.collector.plan import Plan, decode_plan
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ConfigError, FormatError, UnsafeToSweepError
from lakesweep.formats.tables import MARK_SCHEMA, read_mark, write_mark
from lakesweep.storage import ObjectStore, open_store

MARK = MarkId("m1")


@pytest.fixture
def store() -> ObjectStore:
    return open_store(Location.parse(f"mem://plan-{uuid.uuid4().hex}/ns"))


SMALL, LIVE = Tally(1, 10), Tally(4, 40)


def make_plan(store: ObjectStore, garbage: Tally = SMALL, live: Tally = LIVE) -> Plan:
    rows = MARK_SCHEMA.empty_table()
    store.write("part.parquet", write_mark(rows))
    files = write_mark_folder(store, MARK, [Part("part.parquet", 0, 0)])
    return Plan(
        repository="repo",
        namespace=store.root.uri,
        run_id=RunId("r1"),
        mark_id=MARK,
        what="all",
        cutoff=datetime(2026, 1, 1, tzinfo=UTC),
        live=live,
        garbage=garbage,
        files=files,
    )


def test_plan_survives_its_file(store: ObjectStore) -> None:
    """What is saved is what is loaded, with the same id."""
    plan = make_plan(store)
    save_plan(store, plan)
    assert load_plan(store, "repo", MARK) == plan


def test_changed_plan_file_is_refused(store: ObjectStore) -> None:
    """The id is a fingerprint: a plan that says something else than it did is no plan."""
    plan = make_plan(store)
    save_plan(store, plan)
    changed = store.read(RunFolder(plan.run_id).plan).replace(b'"objects": 4', b'"objects": 9')
    store.write(RunFolder(plan.run_id).plan, changed)
    with pytest.raises(FormatError, match="was changed"):
        load_plan(store, "repo", MARK)


def test_plan_of_another_repository_is_refused(store: ObjectStore) -> None:
    """A mark of another repository names other objects."""
    save_plan(store, make_plan(store))
    with pytest.raises(UnsafeToSweepError, match="was made for repo"):
        load_plan(store, "other", MARK)


def test_mark_that_was_not_finished_is_no_mark(store: ObjectStore) -> None:
    """Files in a mark's folder without its record are a mark that failed half-way."""
    make_plan(store)
    with pytest.raises(ConfigError, match="no finished mark"):
        load_plan(store, "repo", MARK)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"id": 1}', b"\xff"])
def test_nonsense_for_a_plan_is_a_clear_error(data: bytes) -> None:
    """Wrong bytes give an error and nothing else."""
    with pytest.raises(FormatError, match="can't be read"):
        decode_plan(data, "x")


def test_edited_mark_is_noticed(store: ObjectStore) -> None:
    """A file changed, added or removed by hand is told."""
    plan = make_plan(store)
    assert is_untouched(store, plan)
    extra = f"{mark_folder(MARK)}extra.parquet"
    store.write(extra, store.read(plan.files[0].key))
    assert not is_untouched(store, plan)
    store.delete_many([extra])
    assert is_untouched(store, plan)
    store.write(plan.files[0].key, b"other")
    assert not is_untouched(store, plan)


def test_empty_mark_is_a_folder_with_columns(store: ObjectStore) -> None:
    """Whoever reads the folder of a mark without garbage finds the columns and no rows."""
    (file,) = write_mark_folder(store, MarkId("empty"), [])
    assert read_mark(store.read(file.key)).schema == MARK_SCHEMA
