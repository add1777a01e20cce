"""Plans: what they promise, and what a changed one is worth."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ConfigError, FormatError, UnsafeToSweepError
from lakesweep.formats.tables import MARK_SCHEMA, read_mark, write_mark
from lakesweep.runs.confirmation import check_confirmation
from lakesweep.runs.paths import MarkId, RunFolder, RunId, mark_folder, parse_mark_id
from lakesweep.runs.plan import Plan, decode_plan, is_untouched, load_plan, save_plan
from lakesweep.runs.plan import write_mark as write_mark_folder
from lakesweep.runs.request import SweepRequest
from lakesweep.runs.work.parts import Part
from lakesweep.storage import ObjectStore, open_store

MARK = MarkId("m1")


@pytest.fixture
def store() -> ObjectStore:
    return open_store(Location.parse(f"mem://plan-{uuid.uuid4().hex}/ns"))


SMALL, BASE = Tally(1, 10), Tally(4, 40)


def make_plan(store: ObjectStore, garbage: Tally = SMALL, base: Tally = BASE) -> Plan:
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
        base=base,
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
    changed = store.read(RunFolder(plan.run_id).manifest).replace(b'"objects": 4', b'"objects": 9')
    store.write(RunFolder(plan.run_id).manifest, changed)
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


def test_large_plan_asks_to_be_confirmed_by_its_id(store: ObjectStore) -> None:
    """More than a thousand objects and more than the share: only its own id lets it pass."""
    plan = make_plan(store, garbage=Tally(1001, 10), base=Tally(2000, 1000))
    with pytest.raises(UnsafeToSweepError, match=plan.id) as caught:
        check_confirmation(plan, SweepRequest())
    assert caught.value.kind == "blast-radius"
    check_confirmation(plan, SweepRequest(confirm=plan.id))
    check_confirmation(plan, SweepRequest(max_delete_share=60))
    with pytest.raises(ConfigError, match="another plan"):
        check_confirmation(plan, SweepRequest(confirm="0" * 16))


def test_share_of_bytes_counts_too(store: ObjectStore) -> None:
    """Few objects may hold most of the bytes."""
    plan = make_plan(store, garbage=Tally(1001, 900), base=Tally(100_000, 1000))
    assert plan.share() == pytest.approx(90)
    with pytest.raises(UnsafeToSweepError):
        check_confirmation(plan, SweepRequest())


def test_small_plan_needs_no_confirmation(store: ObjectStore) -> None:
    """The share of a small repository says little."""
    check_confirmation(make_plan(store, Tally(1000, 1), Tally(1000, 1)), SweepRequest())


def test_plan_id_depends_on_everything_in_it(store: ObjectStore) -> None:
    """Two plans that differ anywhere have different ids."""
    plan = make_plan(store)
    assert replace(plan, keep_tags=True).id != plan.id
    assert replace(plan, garbage=Tally(2, 10)).id != plan.id


@pytest.mark.parametrize("text", ["", "a/b", "../x", "a b", "x" * 129, "ü"])
def test_mark_ids_lead_nowhere_else(text: str) -> None:
    """A mark id becomes part of a path, so it holds letters, digits, - and _ only."""
    with pytest.raises(ConfigError, match="not a mark id"):
        parse_mark_id(text)
