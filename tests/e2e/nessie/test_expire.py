"""What an expiry deletes, and what it leaves: the rule of nessie-gc, on every kind of table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.collector.nessie.identify import Marked
from lakesweep.collector.nessie.records import find_record
from lakesweep.collector.record import RunStatus
from lakesweep.domain.live_sets import LiveSetStatus, deferred_file
from lakesweep.errors import CatalogError, ConfigError, PartlySweptError
from lakesweep_testing.iceberg_tables import EQUALITY_DELETES, IcebergTable
from lakesweep_testing.nessie_scene import NessieScene


@pytest.mark.parametrize(
    "options",
    [
        {"format_version": 1},
        {"format_version": 1, "embeds_manifests": True},
        {"format_version": 2},
        {"format_version": 2, "codec": "null"},
        {"format_version": 2, "is_metadata_compressed": True},
        {"format_version": 3},
    ],
    ids=["v1", "v1 with embedded manifests", "v2", "uncompressed", "gz metadata", "v3"],
)
def test_files_of_cut_off_commits_go_and_all_that_the_head_needs_stays(
    scene: NessieScene, options: dict[str, object]
) -> None:
    """After the sweep the lake holds exactly what the head's snapshot needs."""
    orders = scene.table("orders", **options)
    orders.append("a.parquet", "b.parquet")
    orders.commit(orders.iceberg.delete_rows("positions.parquet"))
    orders.commit(orders.iceberg.delete_rows("equalities.parquet", content=EQUALITY_DELETES))
    orders.remove("a.parquet")
    head = orders.commit(orders.iceberg.add_statistics("stats.puffin"))
    orders.iceberg.write_orphan("never-committed.parquet")

    record = scene.expire(scene.mark("1"))

    assert scene.files() == orders.live_files(head)
    assert record.status is RunStatus.SWEPT
    assert record.objects["garbage"] == record.objects["deleted"] > 0
    seen = record.objects
    assert seen["listed"] == seen["live"] + seen["young"] + seen["protected"] + seen["garbage"]


def test_with_no_policy_only_orphans_go(scene: NessieScene) -> None:
    """Every commit is live, and so is what each of them names."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orders.remove("a.parquet")
    orphan = orders.iceberg.write_orphan("x.parquet")
    before = scene.files()

    scene.expire(scene.mark())

    assert before - scene.files() == {orphan}
    assert scene.files() == orders.live_files()


def test_a_view_keeps_its_metadata_and_loses_older_ones(scene: NessieScene) -> None:
    """A view is a content like a table, but has only metadata: what else lies at its location is somebody else's.

    Dremio puts a view at the path of its name, where raw files of the same name may lie.
    """
    made = scene.view("v")
    raw = {scene.uri("v/2024/orders.csv"), scene.uri("v/metadata/2024/columns.csv")}
    for file in raw:
        scene.write(file, b"1,2")
    scene.write(scene.uri("v/metadata/00000-old.metadata.json"), b"{}")

    scene.expire(scene.mark())

    assert scene.files() == {made.metadata_location, *raw}


@pytest.mark.parametrize("place", ["sales", "orders/sales"], ids=["alone", "below a table"])
def test_a_table_of_another_catalog_at_the_place_of_a_view_stays(
    scene: NessieScene, place: str
) -> None:
    """That a live view is there does not make the table known. Manifests tell the two apart."""
    scene.table("orders").append("a.parquet")
    foreign = IcebergTable(scene.write, scene.uri(place))
    foreign.append("b.parquet")
    foreign.append("c.parquet")
    scene.view("sales", scene.uri(place))

    record = scene.expire(scene.mark())

    assert {*foreign.live_files(*foreign.snapshots), *foreign.metadata_files} <= scene.files()
    assert any(f"{scene.uri(place)} (Iceberg" in note for note in record.notes)


def test_a_table_at_the_place_of_a_view_loses_what_nobody_needs(scene: NessieScene) -> None:
    """Both are live, so the folder is the table's as well."""
    both = scene.table("both")
    both.append("a.parquet")
    head = both.append("b.parquet")
    made = scene.view("v", scene.uri("both"))
    orphan = f"{scene.uri('both')}/metadata/orphan-m0.avro"
    scene.write(orphan, b"a manifest that was never committed")

    scene.expire(scene.mark("1"))

    assert scene.files() == {made.metadata_location, *both.live_files(head)}


def test_inner_snapshots_go_unless_all_are_kept(scene: NessieScene) -> None:
    """By the tool's rule one snapshot of a metadata file is live; --keep-all-snapshots keeps what it lists."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    head = orders.commit(orders.iceberg.overwrite("b.parquet"))
    marked = scene.mark("1")
    every = orders.live_files(head, all_snapshots=True)

    kept = scene.defer(marked, keep_all_snapshots=True)
    assert scene.files() - scene.deferred(marked) == every
    assert kept.status is RunStatus.MARKED

    again = scene.mark("1")
    scene.expire(again)
    assert scene.files() == orders.live_files(head)


def test_snapshots_that_the_table_itself_has_tagged_stay(scene: NessieScene) -> None:
    """`CREATE TAG` in Iceberg names a snapshot for readers, however many commits Nessie has made since."""
    orders = scene.table("orders")
    tagged = orders.append("a.parquet")
    orders.commit(orders.iceberg.tag("audit"))
    head = orders.commit(orders.iceberg.overwrite("b.parquet"))

    scene.expire(scene.mark("1"))

    of_tag = orders.live_files(tagged) - {tagged.metadata_location}
    assert scene.files() == orders.live_files(head) | of_tag


def test_expired_snapshots_of_the_table_itself_go(scene: NessieScene) -> None:
    """Metadata that no longer lists a snapshot does not keep its files."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orders.remove("a.parquet")
    orders.append("b.parquet")
    head = orders.commit(orders.iceberg.expire_snapshots())

    scene.expire(scene.mark("1"), keep_all_snapshots=True)

    assert scene.files() == orders.live_files(head)


def test_branches_and_tags_keep_what_they_reach(scene: NessieScene) -> None:
    """A file lives as long as any reference needs it, in whichever window."""
    orders = scene.table("orders")
    first = orders.append("a.parquet")
    scene.nessie.create_tag("release", "main")
    orders.remove("a.parquet")
    head = orders.append("b.parquet")

    scene.expire(scene.mark("1"))

    assert scene.files() == orders.live_files(first, head)


def test_the_state_at_the_cutoff_stays_when_asked_for(scene: NessieScene) -> None:
    """What readers saw at the cut-off time was written before it; nessie-gc lets it go."""
    orders = scene.table("orders")
    scene.nessie.now = datetime(2026, 1, 1, tzinfo=UTC)
    first = orders.append("a.parquet")
    scene.nessie.now = datetime(2026, 1, 3, tzinfo=UTC)
    second = orders.remove("a.parquet")

    as_the_tool = scene.mark("2026-01-02T00:00:00Z")
    scene.defer(as_the_tool)
    assert scene.files() - scene.deferred(as_the_tool) == orders.live_files(second)

    kept = scene.mark("2026-01-02T00:00:00Z", keep_state_at_cutoff=True)
    scene.defer(kept)
    assert scene.files() - scene.deferred(kept) == orders.live_files(first, second)


class TestAge:
    def test_young_files_stay(self, scene: NessieScene) -> None:
        """A writer's files are not committed yet: for a day before the mark nothing goes."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        young = orders.iceberg.write_orphan("young.parquet")
        old = orders.iceberg.write_orphan("old.parquet")
        marked = scene.mark()
        scene.touch(young, marked.created - timedelta(hours=23))
        scene.touch(old, marked.created - timedelta(hours=25))

        record = scene.expire(marked)

        assert young in scene.files()
        assert old not in scene.files()
        assert record.objects["young"] == 1

    def test_max_file_modification_takes_the_place_of_the_grace_and_is_inclusive(
        self, scene: NessieScene
    ) -> None:
        """A file modified at that very time may go, as with nessie-gc."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)
        exact = orders.iceberg.write_orphan("exact.parquet")
        later = orders.iceberg.write_orphan("later.parquet")
        scene.touch(exact, at)
        scene.touch(later, at + timedelta(seconds=1))

        scene.expire(scene.mark(), max_file_modification=at)

        assert exact not in scene.files()
        assert later in scene.files()

    def test_a_limit_after_the_mark_does_not_reach_files_written_after_it(
        self, scene: NessieScene
    ) -> None:
        """The mark knows nothing of them: they may be committed by now."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        marked = scene.mark()
        after = orders.append("committed-since.parquet")
        for file in orders.live_files(after):
            scene.touch(file, marked.created + timedelta(seconds=5))

        record = scene.expire(marked, max_file_modification=marked.created + timedelta(days=1))

        assert orders.live_files(after) <= scene.files()
        assert any("later than the mark" in note for note in record.notes)

    def test_a_set_of_nessie_gc_gets_a_margin_for_its_unknown_zone(
        self, scene: NessieScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Marked in Tokyo and read as UTC, its time is nine hours late; fourteen are the most."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        orphan = orders.iceberg.write_orphan("x.parquet")
        marked = scene.mark()
        monkeypatch.setattr(scene.live_sets, "facts", lambda live_set_id: None)
        scene.touch(orphan, marked.created - timedelta(hours=24 + 13))

        scene.expire(marked)

        assert orphan in scene.files()

    @pytest.mark.parametrize("is_foreign", [True, False], ids=["marked there", "marked here"])
    def test_a_list_of_nessie_gc_gets_the_grace_too(
        self, scene: NessieScene, monkeypatch: pytest.MonkeyPatch, is_foreign: bool
    ) -> None:
        """It records what was written a second before the mark and is committed a second after it."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        young, old = (orders.iceberg.write_orphan(f"{n}.parquet") for n in ("young", "old"))
        marked = scene.mark()
        scene.touch(young, marked.created - timedelta(seconds=30))
        _record_as_nessie_gc(scene, marked, {young: 30, old: 10 * 86400})
        if is_foreign:
            monkeypatch.setattr(scene.live_sets, "facts", lambda live_set_id: None)

        record = scene.delete_deferred(marked)

        assert young in scene.files()
        assert old not in scene.files()
        assert record.objects["deleted"] == 1
        assert any("were kept: young" in note for note in record.notes)

    def test_a_list_made_here_goes_by_the_grace_it_was_made_with(self, scene: NessieScene) -> None:
        """Whoever lowered it for the list need not say it again."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        young = orders.iceberg.write_orphan("young.parquet")
        scene.touch(young, datetime.now(UTC) - timedelta(hours=2))
        marked = scene.mark()
        scene.defer(marked, grace=timedelta(hours=1))

        scene.delete_deferred(marked)

        assert young not in scene.files()


def _record_as_nessie_gc(scene: NessieScene, marked: Marked, ages: dict[str, float]) -> None:
    """A finished expiry whose files are recorded, and no file of lakesweep's about it."""
    live_sets, at = scene.live_sets, marked.created
    live_sets.start_expire(marked.live_set_id, at)
    live_sets.add_deferred(
        marked.live_set_id,
        [
            deferred_file(scene.uri("orders/"), uri, at - timedelta(seconds=seconds))
            for uri, seconds in ages.items()
        ],
    )
    live_sets.finish_expire(marked.live_set_id, at)


class TestStatus:
    def test_a_set_whose_identify_failed_is_refused(self, scene: NessieScene) -> None:
        """Half of what is live is no ground to delete the rest."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        scene.nessie.fail("/history", status=500, times=100)
        with pytest.raises(Exception, match="500"):
            scene.mark()
        failed = scene.live_sets.all()[0]
        before = scene.files()

        assert failed.status is LiveSetStatus.IDENTIFY_FAILED
        assert failed.error_message
        with pytest.raises(ConfigError):
            scene.expire(failed.id)
        assert scene.files() == before

    def test_a_set_is_expired_once(self, scene: NessieScene) -> None:
        """A second expiry of the same set is refused, as by nessie-gc."""
        scene.table("orders").append("a.parquet")
        marked = scene.mark()
        scene.expire(marked)
        with pytest.raises(ConfigError, match="EXPIRY_SUCCESS"):
            scene.expire(marked)

    @pytest.mark.parametrize(
        "end", [CatalogError("The disk is full", kind="x"), KeyboardInterrupt()]
    )
    def test_a_set_that_is_expired_and_does_not_say_so(
        self, scene: NessieScene, monkeypatch: pytest.MonkeyPatch, end: BaseException
    ) -> None:
        """A database that fails after the last delete, or a kill then: the same command goes on, and no delete is forgotten."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        orders.iceberg.write_orphan("x.parquet")
        marked = scene.mark()

        def fail(live_set_id: str, at: datetime) -> None:
            raise end

        with monkeypatch.context() as patch:
            patch.setattr(scene.live_sets, "finish_expire", fail)
            with pytest.raises((PartlySweptError, KeyboardInterrupt)) as ended:
                scene.expire(marked)
        assert scene.files() == orders.live_files()
        left = find_record(scene.context().resources.store, marked.live_set_id)
        assert left is not None
        assert left.objects["deleted"] == 1
        if isinstance(ended.value, PartlySweptError):
            assert (left.status, left.kind) == (RunStatus.PARTLY_SWEPT, "x")
            assert "1 file deleted" in ended.value.message

        record = scene.expire(marked)

        assert (record.status, record.objects["deleted"]) == (RunStatus.SWEPT, 1)
        assert scene.live_sets.get(marked.live_set_id).status is LiveSetStatus.EXPIRY_SUCCESS

    def test_statuses_and_base_locations_are_stored(self, scene: NessieScene) -> None:
        """`show` tells them."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        marked = scene.mark()
        scene.expire(marked)

        stored = scene.live_sets.get(marked.live_set_id)
        assert stored.status is LiveSetStatus.EXPIRY_SUCCESS
        assert list(scene.live_sets.base_locations(marked.live_set_id)) == [
            (orders.content_id, f"{orders.iceberg.location}/")
        ]


class TestPatterns:
    @pytest.mark.parametrize(
        ("default", "policy"), [("NONE", "1"), ("1", "NONE")], ids=["ours", "theirs"]
    )
    def test_the_longer_of_two_readings_wins_and_is_named(
        self, scene: NessieScene, default: str, policy: str
    ) -> None:
        """nessie-gc finds `^main` in main-old; whoever wrote the policy may mean either."""
        scene.table("customers").append("c.parquet")
        scene.nessie.create_branch("main-old")
        orders = scene.table("orders")
        orders.branch = "main-old"
        orders.append("a.parquet")
        orders.remove("a.parquet")
        marked = scene.mark(default, {"main|dev": policy})

        record = scene.expire(marked)

        assert orders.live_files() <= scene.files()
        assert any("main-old" in note and "nessie-gc" in note for note in record.notes)

    def test_a_pattern_that_matches_nothing_is_refused_before_there_is_a_set(
        self, scene: NessieScene
    ) -> None:
        """A misspelt name would lose what it was to keep."""
        scene.table("orders").append("a.parquet")
        scene.nessie.create_branch("release-2026")
        with pytest.raises(ConfigError, match="release-2026") as refused:
            scene.mark("1", {"relese-2026": "NONE"})
        assert refused.value.kind == "unmatched-cutoff"
        assert scene.live_sets.all() == []
