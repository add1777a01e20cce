"""The one listing: every piece once, every object a candidate or protected, and what is noticed comes as values."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.collector import listing as listing_module
from lakesweep.collector.lakefs.listing import CANDIDATE_SCHEMA, ListedNamespace
from lakesweep.collector.listing import Listing, Piece, list_objects
from lakesweep.collector.nessie.listing import (
    DELTA,
    FILE_SCHEMA,
    ICEBERG,
    UNTOUCHABLE,
    FoundTable,
    ListedFolders,
    tables_of,
)
from lakesweep.collector.nessie.places import TableStores
from lakesweep.collector.parts import read_part
from lakesweep.collector.target import Target
from lakesweep.domain.addresses import CANDIDATE_PATTERN, ProtectedReason
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Tally
from lakesweep.engine import here_first
from lakesweep.engine.here_first import HereFirst
from lakesweep.engine.tasks import Engine, Scatter
from lakesweep.errors import UnsafeToSweepError
from lakesweep.storage import StorageOptions, memory
from lakesweep_testing.inprocess import InProcessEngine

SLICE = "data/gcoca17haabs73f2gtq0/"
OBJECTS = [f"{SLICE}c{n:018d}0" for n in range(3)]
PREFIXES = [Piece(SLICE), Piece("data/other/"), Piece("", recursive=False)]


@pytest.fixture
def target() -> Target:
    return Target(Location.parse(f"mem://listing-{uuid.uuid4().hex}/ns"), StorageOptions())


def filled(target: Target, keys: Sequence[str]) -> Target:
    for key in keys:
        target.open().write(key, b"four")
    return target


def listed(
    target: Target, engine: Engine | None = None, pieces: Sequence[Piece[str]] = PREFIXES
) -> Listing:
    catalog = ListedNamespace(target)
    return list_objects(
        engine or InProcessEngine(), target, "own/", catalog, pieces, most_tasks=200
    )


def names_in(target: Target, listing: Listing, schema: pa.Schema) -> set[str]:
    return {
        name
        for part in listing.parts
        for batch in read_part(target.open().read(part.key), schema, part.key)
        for name in batch.column(0).to_pylist()
    }


def test_what_lakefs_wrote_is_a_candidate_and_all_else_is_counted_and_named(target: Target) -> None:
    """Each reason comes with examples, however many of another kind come before."""
    many = [f"data/other/{n}" for n in range(30)]
    listing = listed(filled(target, [*OBJECTS, *many, "read.me", "dummy", "a/b"]))
    assert listing.listed == Tally(35, 140)
    assert listing.protected == Tally(32, 128)
    assert names_in(target, listing, CANDIDATE_SCHEMA) == set(OBJECTS)
    assert listing.notices[ProtectedReason.UNKNOWN_SHAPE_UNDER_DATA] == sorted(many)[:5]
    assert listing.notices[ProtectedReason.FOREIGN_FILE_AT_ROOT] == ["read.me"]
    assert listing.notices[ProtectedReason.MARKER] == ["dummy"]


def test_another_repository_inside_is_noticed(target: Target) -> None:
    """Its objects would look like garbage here."""
    foreign = "data/other/_lakefs/dummy"
    listing = listed(filled(target, [*OBJECTS, foreign, "data/other/x"]))
    assert listing.notices[ProtectedReason.OTHER_REPOSITORY] == [foreign]


def test_tables_that_lie_below_a_folder_are_noticed(tmp_path: Path) -> None:
    """Files are known by their URIs, and odd names and Hadoop's checksums are no candidates."""
    target = Target(Location.parse(tmp_path.as_uri()), StorageOptions(local_fsync=False))
    names = ["t/a.parquet", "in/metadata/1.metadata.json", "d/_delta_log/0.json"]
    filled(target, [*names, "t/.a.parquet.crc"])
    (tmp_path / "t" / "odd\n").write_bytes(b"four")
    root, catalog = target.namespace, ListedFolders(TableStores(target.storage))
    pieces = [Piece(root.child(name)) for name in ("t", "in", "d")]
    listing = list_objects(InProcessEngine(), target, "own/", catalog, pieces, most_tasks=200)
    found = names_in(target, listing, FILE_SCHEMA)
    assert found == {f"{root.uri}/{name}" for name in names}
    tables = {FoundTable(ICEBERG, f"{root.uri}/in"), FoundTable(DELTA, f"{root.uri}/d")}
    assert tables_of(listing) == tables
    assert listing.notices[UNTOUCHABLE] == [f"{root.uri}/t/odd\n"]
    assert listing.protected == Tally(2, 8)


class ChangingEngine(InProcessEngine):
    """Changes what the first task told."""

    def __init__(self, change: Callable[[list[dict[str, Any]]], object]) -> None:
        super().__init__()
        self._change = change

    def collect(self, scatter: Scatter) -> pa.Table:
        rows = super().collect(scatter)
        told = rows.to_pylist()
        self._change(told)
        return pa.Table.from_pylist(told, schema=rows.schema)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda rows: rows.pop(), "exactly once", id="a task's answer got lost"),
        pytest.param(lambda rows: rows.append(rows[0]), "exactly once", id="it came twice"),
        pytest.param(lambda rows: rows[0]["parts"].clear(), "were listed", id="a part got lost"),
        pytest.param(
            lambda rows: rows[0].update(protected=9), "were listed", id="more is protected"
        ),
    ],
)
def test_a_listing_that_does_not_add_up_is_refused(
    target: Target, change: Callable[[list[dict[str, Any]]], object], said: str
) -> None:
    """A piece that nobody listed would leave its live objects out of every account."""
    filled(target, OBJECTS)
    with pytest.raises(UnsafeToSweepError, match=said) as refused:
        listed(target, ChangingEngine(change))
    assert refused.value.kind == "not-conserved"


@pytest.mark.parametrize("form", ["{:020d}", "{:032x}", "{0:08b}-{0}"])
def test_a_large_piece_is_cut_and_every_object_listed_once(
    target: Target, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """Below one prefix, and directly at the root between folders: the pages of a listing are not one after the other."""
    monkeypatch.setattr(memory, "_BATCH_ROWS", 7)
    monkeypatch.setattr(listing_module, "_MOST_AT_ONCE", 20)
    below = [f"{SLICE}{form.format(number)}" for number in range(300)]
    direct = [f"{number:032x}" for number in range(0, 3_000_000_000, 10_000_001)]
    filled(target, [*below, *direct, "data/other/x", "a/b", "README"])
    engine = Rounds()
    listing = listed(target, engine)
    assert (
        listing.listed.objects == len(below) + len(direct) + 2
    )  # not what lies in folders at the root
    names = sorted(name for part in listing.parts for name in part_names(target, part.key))
    assert names == sorted([*direct, *(k for k in below if re.fullmatch(CANDIDATE_PATTERN, k))])
    assert len(engine.rounds) > 1
    assert len(engine.rounds[1]) > 10


class Rounds(InProcessEngine):
    """Notes the pieces of every round."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[list[str]] = []

    def collect(self, scatter: Scatter) -> pa.Table:
        self.rounds.append([str(piece) for piece in scatter.items])
        return super().collect(scatter)


def part_names(target: Target, key: str) -> list[str]:
    batches = read_part(target.open().read(key), CANDIDATE_SCHEMA, key)
    return [name for batch in batches for name in batch.column(0).to_pylist()]


class TestSmallListings:
    """Where the engine does small work in the driver's own process, a first round is what fits there."""

    @pytest.fixture
    def spark(self) -> Rounds:
        return Rounds()

    def test_a_small_one_needs_no_spark(
        self, target: Target, spark: Rounds, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its only round is one task."""
        filled(target, [*OBJECTS, "data/other/x", "README"])
        moments = itertools.count(0.0, 0.25)  # each look at the clock
        clock = SimpleNamespace(monotonic=lambda: next(moments))
        monkeypatch.setattr(here_first, "time", clock)
        with HereFirst(lambda: spark, 4.0, takes_unknown=False) as engine:
            listing = listed(target, engine)
            assert engine.seconds_here == pytest.approx(3.75), "what it did not take is left"
        assert listing.listed.objects == 5
        assert len(listing.parts) == 1
        assert spark.rounds == []

    def test_what_is_left_of_a_large_piece_is_spark_s(
        self, target: Target, spark: Rounds, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every object is listed once, and none is lost between the two."""
        monkeypatch.setattr(memory, "_BATCH_ROWS", 7)
        monkeypatch.setattr(listing_module, "_PAGE", 20)
        monkeypatch.setattr(listing_module, "SECONDS_PER_OBJECT", 0.01)
        below = [f"{SLICE}{number:020d}" for number in range(300)]
        direct = [f"{number:032x}" for number in range(0, 3_000_000_000, 10_000_001)]
        filled(target, [*below, *direct, "data/other/x"])
        # Three pieces, with 41 objects of each.
        with HereFirst(lambda: spark, 2.48, takes_unknown=False) as engine:
            listing = listed(target, engine)
        names = [name for part in listing.parts for name in part_names(target, part.key)]
        assert sorted(names) == sorted(
            [*direct, *(k for k in below if re.fullmatch(CANDIDATE_PATTERN, k))]
        )
        assert listing.listed.objects == len(below) + len(direct) + 1
        assert len(spark.rounds) == 1, "50,000 objects of each piece are listed at once there"
        assert len(spark.rounds[0]) > 10
        assert all(" after " in piece for piece in spark.rounds[0])

    @pytest.mark.parametrize("seconds", [4.0, 100.0])
    def test_many_pieces_are_spark_s(self, target: Target, spark: Rounds, seconds: float) -> None:
        """A page of each may be more than what is small."""
        pieces = [Piece(f"data/{number}/") for number in range(400)]
        with HereFirst(lambda: spark, seconds, takes_unknown=False) as engine:
            listed(target, engine, pieces)
        assert len(spark.rounds) == (1 if seconds < 5 else 0)

    def test_a_local_folder_is_spark_s(self, tmp_path: Path, spark: Rounds) -> None:
        """Nothing bounds what one piece of it holds."""
        target = Target(Location.parse(f"file://{tmp_path}"), StorageOptions())
        filled(target, OBJECTS)
        with HereFirst(lambda: spark, 4.0, takes_unknown=False) as engine:
            assert listed(target, engine).listed.objects == 3
        assert len(spark.rounds) == 1
