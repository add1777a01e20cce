"""Contents, facts, base locations and deferred files: what went in comes out, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from lakesweep.catalogs.nessie.live_sets.store import DistinctContent, LiveSetStore
from lakesweep.domain.live_sets import (
    ContentKind,
    ContentReference,
    DeferredFile,
    DroppedTable,
    LiveSetId,
    MarkFacts,
    deferred_file,
    new_live_set_id,
)
from lakesweep.errors import CatalogNotFoundError, ConfigError

AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
MakeReference = Callable[..., ContentReference]


@pytest.fixture
def marking_set(store: LiveSetStore) -> LiveSetId:
    live_set_id = new_live_set_id()
    store.start_identify(live_set_id, AT)
    return live_set_id


def test_contents_come_back_as_they_went_in(
    store: LiveSetStore, marking_set: LiveSetId, make_reference: MakeReference
) -> None:
    """Every field, with dots in keys, text beyond ASCII, views and tables without a snapshot."""
    references = [
        make_reference("c1", "aa", content_key=("münchen", "a.b", "t"), snapshot_id=-1),
        make_reference("c1", "bb", metadata_location="s3://lake/日本 %20/😀.json"),
        make_reference("c2", "aa", content_type=ContentKind.ICEBERG_VIEW, snapshot_id=2**63 - 1),
    ]
    assert store.add_contents(marking_set, iter(references)) == 3
    assert list(store.contents(marking_set)) == references
    assert store.content_count(marking_set) == 2


def test_content_of_a_commit_is_stored_once(
    store: LiveSetStore, marking_set: LiveSetId, make_reference: MakeReference
) -> None:
    """A duplicate, in one call or a later one, is not counted and the first one stays."""
    first = make_reference("c1", "aa", snapshot_id=1)
    assert store.add_contents(marking_set, [first, make_reference("c1", "aa", snapshot_id=2)]) == 1
    later = [make_reference("c1", "aa", snapshot_id=3), make_reference("c1", "bb")]
    assert store.add_contents(marking_set, later) == 1
    assert store.add_contents(marking_set, later) == 0
    assert list(store.contents(marking_set)) == [first, later[1]]


def test_distinct_contents_leave_out_commit_and_key(
    store: LiveSetStore, marking_set: LiveSetId, make_reference: MakeReference
) -> None:
    """One state seen from many commits is one state; locations that differ by case are two."""
    store.add_contents(
        marking_set,
        [
            make_reference("c1", "aa"),
            make_reference("c1", "bb", content_key=("db", "renamed")),
            make_reference("c1", "cc", snapshot_id=8),
            make_reference("c1", "dd", metadata_location="s3://lake/c1/metadata/1.JSON"),
            make_reference("c2", "aa", metadata_location="s3://lake/c1/metadata/1.json"),
        ],
    )
    table = ContentKind.ICEBERG_TABLE
    assert sorted(store.distinct_contents(marking_set)) == [
        DistinctContent("c1", table, "s3://lake/c1/metadata/1.JSON", 7),
        DistinctContent("c1", table, "s3://lake/c1/metadata/1.json", 7),
        DistinctContent("c1", table, "s3://lake/c1/metadata/1.json", 8),
        DistinctContent("c2", table, "s3://lake/c1/metadata/1.json", 7),
    ]


def test_ids_that_differ_by_case_or_a_blank_are_two(
    store: LiveSetStore, marking_set: LiveSetId, make_reference: MakeReference
) -> None:
    """No live content is taken for another, whatever the database thinks of capital letters."""
    references = [make_reference(content) for content in ("ID", "Id", "id", "id ", "ïd")]
    assert store.add_contents(marking_set, references) == 5
    assert {reference.content_id for reference in store.contents(marking_set)} == {
        *("ID", "Id", "id", "id ", "ïd")
    }
    assert store.content_count(marking_set) == 5


def test_sets_are_apart(
    store: LiveSetStore, make_reference: MakeReference, facts: MarkFacts
) -> None:
    """The same content in two sets is stored twice; deleting one set leaves the other."""
    one, two = new_live_set_id(), new_live_set_id()
    for live_set_id in (one, two):
        store.start_identify(live_set_id, AT)
        store.add_contents(live_set_id, [make_reference()])
        store.finish_identify(live_set_id, AT, facts)
        store.start_expire(live_set_id, AT)
        store.add_base_locations(live_set_id, [("c1", "s3://lake/c1/")])
        store.add_deferred(live_set_id, [DeferredFile("s3://lake/c1/", "x", None)])
    store.delete(one)
    assert [live_set.id for live_set in store.all()] == [two]
    assert store.facts(two) == facts
    assert len(list(store.contents(two))) == 1
    assert list(store.base_locations(two)) == [("c1", "s3://lake/c1/")]
    assert len(list(store.deferred(two))) == 1
    with pytest.raises(CatalogNotFoundError):
        store.delete(one)


def test_contents_are_added_during_the_mark_only(
    store: LiveSetStore, marking_set: LiveSetId, make_reference: MakeReference, facts: MarkFacts
) -> None:
    """What is live is fixed when the mark ends; what is swept is written while the expiry runs."""
    for call in (
        lambda: store.add_base_locations(marking_set, [("c1", "s3://lake/")]),
        lambda: store.add_deferred(marking_set, [DeferredFile("s3://lake/", "x", None)]),
        lambda: store.clear_deferred(marking_set),
    ):
        with pytest.raises(ConfigError) as refusal:
            call()
        assert refusal.value.kind == "wrong-status"
    store.finish_identify(marking_set, AT, facts)
    with pytest.raises(ConfigError) as refusal:
        store.add_contents(marking_set, [make_reference()])
    assert refusal.value.kind == "wrong-status"
    assert list(store.contents(marking_set)) == []


def test_a_failing_source_stores_nothing(
    store: LiveSetStore, marking_set: LiveSetId, make_reference: MakeReference
) -> None:
    """A call stores all it was given or nothing: a walk that breaks off leaves no half of it."""

    def breaking_off() -> Iterator[ContentReference]:
        for number in range(5000):
            yield make_reference(f"c{number}")
        raise RuntimeError("the catalog went away")

    with pytest.raises(RuntimeError, match="went away"):
        store.add_contents(marking_set, breaking_off())
    assert list(store.contents(marking_set)) == []


def test_large_facts_come_back(
    store: LiveSetStore, marking_set: LiveSetId, facts: MarkFacts
) -> None:
    """Facts may be longer than a text column of any database."""
    kind = ContentKind.ICEBERG_TABLE
    large = dataclasses.replace(
        facts,
        heads={f"BRANCH b{number}": "é" * 64 for number in range(2000)},
        dropped=tuple(DroppedTable(f"c{n}", ("db", "t"), kind, "s3://x", n) for n in range(3000)),
    )
    store.finish_identify(marking_set, AT, large)
    assert store.facts(marking_set) == large


def test_base_locations_are_kept_once(store: LiveSetStore, expiring_set: LiveSetId) -> None:
    """A content may have several; one may belong to several contents."""
    rows = [("c1", "s3://lake/a/"), ("c1", "s3://lake/b/"), ("c2", "s3://lake/a/")]
    store.add_base_locations(expiring_set, rows)
    store.add_base_locations(expiring_set, rows[1:] + rows[1:])
    assert sorted(store.base_locations(expiring_set)) == rows


def test_deferred_files_come_back_in_order(store: LiveSetStore, expiring_set: LiveSetId) -> None:
    """Ordered by base and path; an unknown time stays unknown; names that differ by case are two files."""
    files = [
        deferred_file("s3://lake/a", "s3://lake/a/data/1", AT.replace(microsecond=999000)),
        deferred_file("s3://lake/a", "s3://lake/a/data/2", None),
        deferred_file("s3://lake/a", "s3://lake/a/data/é", datetime(1969, 12, 31, tzinfo=UTC)),
        deferred_file("s3://lake/b", "s3://lake/b/X", AT),
        deferred_file("s3://lake/b", "s3://lake/b/x", AT),
    ]
    assert store.add_deferred(expiring_set, reversed(files)) == 5
    assert store.add_deferred(expiring_set, files) == 0
    assert list(store.deferred(expiring_set)) == files
    store.clear_deferred(expiring_set)
    assert list(store.deferred(expiring_set)) == []


def test_a_set_can_be_written_while_another_is_read(
    store: LiveSetStore, make_reference: MakeReference, marking_set: LiveSetId
) -> None:
    """A reader half-way through a set stands in nobody's way."""
    store.add_contents(marking_set, (make_reference(f"c{n:04d}") for n in range(1000)))
    reader = store.contents(marking_set)
    first = next(reader)
    other = new_live_set_id()
    store.start_identify(other, AT)
    assert store.add_contents(other, [make_reference()]) == 1
    assert len([first, *reader]) == 1000
