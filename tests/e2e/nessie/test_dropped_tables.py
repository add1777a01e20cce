"""Dropped tables, left locations and write paths: what --collect-dropped lets go, and what stays all the same."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy
from lakesweep.collector.nessie import collected_places
from lakesweep.collector.nessie.deletion import FileDeletion
from lakesweep.collector.nessie.dropped import ListedTable, list_dropped
from lakesweep.collector.nessie.folder_sums import FolderSum, sum_up_folders
from lakesweep.collector.nessie.identify import Marked, mark_live
from lakesweep.collector.nessie.requests import MarkRequest
from lakesweep.collector.phases import Phases
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep.domain.live_sets import MarkFacts
from lakesweep.domain.location import Location
from lakesweep.errors import UnsafeToSweepError
from lakesweep_testing.fake_nessie import delta_table, table
from lakesweep_testing.iceberg_tables import IcebergTable, Snapshot
from lakesweep_testing.nessie_scene import NessieScene, SceneTable

GRACE = timedelta(days=30)
NOW = datetime.now(UTC).replace(microsecond=0)
LONG_AGO, RECENTLY = NOW - timedelta(days=60), NOW - timedelta(days=20)


class Lake(NessieScene):
    """Everything happens sixty days ago, files and commits alike; a live table is always there."""

    def __enter__(self) -> Lake:
        super().__enter__()
        self.written_at = LONG_AGO
        self.nessie.state.now = LONG_AGO
        self.orders = self.table("orders")
        self.orders.append("a.parquet")
        return self

    def dropped(self, name: str = "gone", location: str | None = None) -> SceneTable:
        """A table that was dropped after two commits, one of which no longer needs a file."""
        made = self.table(name, location)
        made.append("old.parquet", "both.parquet")
        made.remove("old.parquet")
        made.drop()
        return made

    def collect(self, policy: str = "1", **options: object) -> RunRecord:
        """Mark with --collect-dropped, and delete at once."""
        return self.expire(self.mark_dropped(policy), ask_nessie=True, **options)

    def mark_dropped(self, policy: str = "1") -> Marked:
        # Nothing happens after the drop, so a last commit takes it out of every policy's reach.
        self.orders.append(f"{len(self.orders.states)}.parquet")
        return self.mark(policy, dropped_grace=GRACE)

    def drop_of(self, dropped: SceneTable) -> str:
        """The hash of the commit that dropped a table."""
        commits = self.nessie.state.commits.values()
        return next(commit.hash for commit in commits if dropped.key in commit.deletes)

    def below(self, name: str) -> set[str]:
        return {file for file in self.files() if file.startswith(f"{self.uri(name)}/")}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake(tmp_path) as made:
        yield made


def mark_request() -> MarkRequest:
    policies = parse_policies("1", (), NOW)
    return MarkRequest(policies, NOW, "1", (), dropped_grace=GRACE)


def noted(record: RunRecord, *words: str) -> bool:
    return any(all(word in note for word in words) for note in record.notes)


class TestWhen:
    def test_a_dropped_table_stays_unless_it_is_asked_for(self, lake: Lake) -> None:
        """Off by default."""
        lake.dropped()
        lake.orders.append("b.parquet")
        before = lake.below("gone")

        record = lake.expire(lake.mark("1"), ask_nessie=True)

        assert lake.below("gone") == before
        assert noted(record, "1 tables were dropped", "gone")

    def test_what_it_wrote_below_a_live_table_stays_too(self, lake: Lake) -> None:
        """By a write path of its own; its location is elsewhere."""
        gone = lake.table("gone")
        gone.iceberg.properties["write.data.path"] = lake.uri("orders/of-gone")
        state = gone.append(lake.uri("orders/of-gone/b.parquet"))
        gone.drop()
        lake.orders.append("b.parquet")

        lake.expire(lake.mark("1"), ask_nessie=True)

        assert gone.live_files(state) <= lake.files()

    def test_what_it_left_below_a_live_table_stays_too(self, lake: Lake) -> None:
        """It had its first location there, whose metadata is collected by now."""
        gone = lake.table("gone", lake.uri("orders/first"))
        gone.append("b.parquet")
        gone.iceberg.location = lake.uri("second")
        state = gone.append("c.parquet")
        lake.orders.append("b.parquet")
        lake.expire(lake.mark("1"), ask_nessie=True)
        gone.drop()
        lake.orders.append("c.parquet")

        lake.expire(lake.mark("1"), ask_nessie=True)

        assert gone.live_files(state) <= lake.files()

    def test_all_of_it_goes_after_its_grace(self, lake: Lake) -> None:
        """Metadata, manifests, data, and what was never committed; the live table keeps what it needs."""
        gone = lake.dropped()
        gone.iceberg.write_orphan("x.parquet")

        record = lake.collect()

        assert record.status is RunStatus.SWEPT
        assert lake.below("gone") == set()
        assert lake.files() == lake.orders.live_files(lake.orders.states[-1])
        assert noted(record, lake.uri("gone"), "is collected")

    def test_with_a_file_without_a_time_it_stays(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nobody knows whether that file is a new one."""

        def sums(*asked: Any) -> dict[Location, FolderSum]:
            return {at: replace(one, untimed=1) for at, one in sum_up_folders(*asked).items()}

        monkeypatch.setattr(collected_places, "sum_up_folders", sums)
        lake.dropped()
        before = lake.below("gone")
        assert noted(lake.collect(), lake.uri("gone"), "no time")
        assert lake.below("gone") == before

    def test_within_its_grace_it_stays(self, lake: Lake) -> None:
        """Its files are old enough; the drop is not."""
        gone = lake.table("gone")
        gone.append("b.parquet")
        lake.nessie.state.now = RECENTLY
        gone.drop()
        before = lake.below("gone")
        lake.collect()
        assert lake.below("gone") == before

    def test_gone_from_the_cut_off_for_less_than_its_grace_it_stays(self, lake: Lake) -> None:
        """Dropped sixty days ago, and live by a cut-off of forty days until twenty days ago."""
        lake.dropped()
        before = lake.below("gone")
        lake.nessie.state.now = NOW - timedelta(days=5)

        assert noted(lake.collect("P40D"), "1 tables were dropped", "gone")
        assert lake.below("gone") == before
        lake.collect("P20D")
        assert lake.below("gone") == set()

    def test_the_state_at_the_cut_off_counts_for_the_grace_too(self, lake: Lake) -> None:
        """With --keep-state-at-cutoff it was live until the drop itself was cut off, less than thirty days ago."""
        gone = lake.table("gone")
        gone.append("b.parquet")
        lake.nessie.state.now = NOW - timedelta(days=50)
        gone.drop()
        lake.nessie.state.now = NOW - timedelta(days=5)
        lake.orders.append("b.parquet")

        marked = lake.mark("P25D", keep_state_at_cutoff=True, dropped_grace=GRACE)

        assert [table.is_collected for table in marked.dropped] == [False]

    def test_commits_that_pushed_it_out_lately_do_not_count_for_long(self, lake: Lake) -> None:
        """By a policy of three commits it was live until yesterday."""
        lake.dropped()
        before = lake.below("gone")
        lake.nessie.state.now = NOW - timedelta(days=1)
        for number in range(3):
            lake.orders.append(f"late-{number}.parquet")

        lake.collect("3")

        assert lake.below("gone") == before

    @pytest.mark.parametrize("refer", ["create_branch", "create_tag"])
    def test_alive_on_another_reference_it_stays(self, lake: Lake, refer: str) -> None:
        """Dropped on main only."""
        gone = lake.table("gone")
        state = gone.append("b.parquet")
        getattr(lake.nessie, refer)("other")
        gone.drop()

        lake.collect()

        assert gone.live_files(state) <= lake.files()

    def test_a_reference_time_that_lies_ahead_shortens_nothing(self, lake: Lake) -> None:
        """The mark is made now, whatever time durations count back from."""
        gone = lake.table("gone")
        gone.append("b.parquet")
        lake.nessie.state.now = RECENTLY
        gone.drop()
        lake.orders.append("b.parquet")
        ahead = NOW + timedelta(days=30)
        request = replace(mark_request(), reference_time=ahead)
        with lake.nessie.client() as client:
            marked = mark_live(client, lake.live_sets, request, Phases("mark"))
        assert [table.is_collected for table in marked.dropped] == [False]

    def test_a_renamed_table_is_not_dropped(self, lake: Lake) -> None:
        """The id stays, whatever the key."""
        kept = lake.table("kept")
        state = kept.append("b.parquet")
        lake.nessie.rename("main", ("kept",), ("renamed",))
        lake.collect()
        assert lake.below("kept") == kept.live_files(state)


class TestWhatOthersNeed:
    def test_a_file_that_a_live_table_refers_to_stays(self, lake: Lake) -> None:
        """A table that took over some files of the dropped one, by add_files or a migration."""
        gone = lake.dropped()
        taken = f"{gone.iceberg.location}/data/both.parquet"
        heir = lake.table("heir")
        heir.append(taken)

        lake.collect()

        assert lake.below("gone") == {taken}

    def test_a_table_created_again_elsewhere_does_not_keep_the_old_one(self, lake: Lake) -> None:
        """The same key, another id and place."""
        lake.dropped()
        again = lake.table("gone", lake.uri("gone-2"))
        head = again.append("c.parquet")
        lake.collect()
        assert lake.below("gone") == set()
        assert lake.below("gone-2") == again.live_files(head)

    def test_created_again_at_its_place_it_leaves_no_file_behind(self, lake: Lake) -> None:
        """The new table keeps its own files, and those of the old one that it took over."""
        gone = lake.dropped()
        again = lake.table("gone", lake.uri("gone"))
        head = again.append("c.parquet", f"{gone.iceberg.location}/data/both.parquet")

        lake.collect()

        assert lake.below("gone") == again.live_files(head)

    def test_inside_a_live_table_only_its_own_files_go(self, lake: Lake) -> None:
        """What lies below a live table's location is judged file by file."""
        lake.dropped("inner", lake.uri("orders/inner"))
        lake.collect()
        assert lake.below("orders") == lake.orders.live_files(lake.orders.states[-1])

    @pytest.mark.parametrize("place", ["orders/inner", "orders"])
    def test_within_its_grace_it_stays_inside_a_live_table_too(
        self, lake: Lake, place: str
    ) -> None:
        """Told by its folder, or by its metadata where it shares the live table's own."""
        inner = lake.table("inner", lake.uri(place))
        state = inner.append("b.parquet")
        lake.nessie.state.now = RECENTLY
        inner.drop()
        lake.collect()
        assert inner.live_files(state) <= lake.files()

    def test_around_a_live_table_it_stays(self, lake: Lake) -> None:
        """Its location holds more than this catalog can tell."""
        outer = lake.dropped("outer", f"file://{lake.lake}")
        stray = lake.uri("landing/upload.csv")
        lake.write(stray, b"not of Iceberg")

        record = lake.collect()

        assert outer.live_files() | {stray} <= lake.files()
        assert noted(record, "stays", "live tables lie in it")

    def test_another_dropped_table_within_its_grace_keeps_what_they_share(self, lake: Lake) -> None:
        """Created again at the same place, and dropped again lately."""
        lake.dropped()
        again = lake.table("gone", lake.uri("gone"))
        again.append("c.parquet")
        lake.nessie.state.now = RECENTLY
        again.drop()
        before = lake.below("gone")

        record = lake.collect()

        assert lake.below("gone") == before
        assert noted(record, lake.uri("gone"), "others may own files there")

    def test_a_content_of_another_kind_around_it_keeps_it(self, lake: Lake) -> None:
        """A Delta table whose folder the dropped one lies in."""
        lake.dropped("gone", lake.uri("delta/gone"))
        log = lake.uri("delta/_delta_log/00000000000000000000.json")
        lake.nessie.commit("main", puts={("d",): delta_table([log])})
        before = lake.below("delta/gone")

        record = lake.collect()

        assert lake.below("delta/gone") == before
        assert noted(record, lake.uri("delta/gone"), "others may own files there")

    def test_another_tables_folder_inside_it_stays(self, lake: Lake) -> None:
        """A table of another catalog."""
        gone = lake.dropped()
        foreign = IcebergTable(lake.write, lake.uri("gone/foreign"))
        foreign.append("b.parquet")
        lake.touch(foreign.metadata_files[0], LONG_AGO - GRACE)  # before the table was dropped

        lake.collect()

        assert (
            lake.below("gone")
            == lake.below("gone/foreign")
            == foreign.live_files(*foreign.snapshots)
        )
        assert gone.iceberg.metadata_files[-1] not in lake.files()


class TestInUse:
    def assert_stays(self, lake: Lake, *words: str) -> RunRecord:
        before = lake.below("gone")
        record = lake.collect()
        assert lake.below("gone") == before
        assert noted(record, "stays", *words)
        return record

    def test_a_place_that_somebody_writes_to_stays(self, lake: Lake) -> None:
        """All of it: nobody here knows what the new file's table needs."""
        gone = lake.dropped()
        lake.touch(gone.iceberg.write_orphan("new.parquet"), RECENTLY)
        self.assert_stays(lake, "was written there", "within the grace of dropped tables")

    def test_a_place_that_somebody_wrote_to_after_the_drop_stays(self, lake: Lake) -> None:
        """A folder is free to be used again, and its new files grow old as well."""
        lake.dropped()
        theirs = lake.uri("gone/data/theirs.csv")
        lake.write(theirs, b"an export")
        lake.touch(theirs, LONG_AGO + timedelta(days=3))
        self.assert_stays(lake, "was written there", "after its table was dropped")

    def test_a_collected_place_that_is_used_again_stays(self, lake: Lake) -> None:
        """Nessie's history tells of the dropped table for ever."""
        lake.dropped()
        lake.collect()
        theirs = lake.uri("gone/data/theirs.csv")
        lake.write(theirs, b"an export")
        lake.touch(theirs, LONG_AGO + timedelta(days=3))
        self.assert_stays(lake, "was written there", "after its table was dropped")

    def test_a_table_that_moved_to_another_catalog_stays(self, lake: Lake) -> None:
        """Its newest metadata file was committed elsewhere, long ago by now."""
        gone = lake.dropped()
        elsewhere = gone.iceberg.append("theirs.parquet")
        lake.touch(elsewhere.metadata_location, LONG_AGO + timedelta(days=1))
        self.assert_stays(lake, "another one may have the table", elsewhere.metadata_location)

    def test_a_table_whose_metadata_can_not_be_read_stays(self, lake: Lake) -> None:
        """Nobody knows where it lay."""
        gone = lake.dropped()
        Path(gone.states[-1].metadata_location.removeprefix("file://")).unlink()
        self.assert_stays(lake, gone.states[-1].metadata_location)

    def test_other_places_of_a_table_that_stays_stay_too(self, lake: Lake) -> None:
        """Somebody uses the table, so its write path is used as well."""
        gone = lake.table("gone")
        gone.iceberg.properties["write.data.path"] = lake.uri("elsewhere")
        gone.append(lake.uri("elsewhere/b.parquet"))
        gone.drop()
        lake.touch(gone.iceberg.write_orphan("new.parquet"), RECENTLY)
        before = lake.below("elsewhere")
        record = self.assert_stays(lake, "was written there")
        assert lake.below("elsewhere") == before
        assert noted(record, lake.uri("elsewhere"), "the files of its table stay")

    def test_a_whole_store_stays(self, lake: Lake) -> None:
        """A dropped table at a bucket's root."""
        gone = lake.table("gone")
        state = gone.append("b.parquet")
        gone.iceberg.location = "s3://bucket"
        data = gone.iceberg._metadata()
        lake.write(state.metadata_location, data)
        gone.drop()
        self.assert_stays(lake, "s3://bucket", "whole store")


class TestSecondLook:
    def test_undropped_between_mark_and_sweep_all_of_it_stays(self, lake: Lake) -> None:
        """A branch on the commit before the drop: also what only older commits need stays this time."""
        gone = lake.table("gone")
        gone.append("old.parquet")
        gone.commit(gone.iceberg.overwrite("new.parquet"))
        there = lake.nessie.heads()["main"]
        gone.drop()
        marked = lake.mark_dropped()
        before = lake.below("gone")
        lake.nessie.create_branch("undrop", "main", there)

        lake.expire(marked, ask_nessie=True)

        assert lake.below("gone") == before
        assert lake.below("orders") == lake.orders.live_files()

    def test_undropped_between_mark_and_sweep_its_write_path_stays(self, lake: Lake) -> None:
        """So it is with every place of the table."""
        gone = lake.table("gone")
        gone.iceberg.properties["write.data.path"] = lake.uri("elsewhere")
        gone.append(lake.uri("elsewhere/old.parquet"))
        gone.commit(gone.iceberg.overwrite(lake.uri("elsewhere/new.parquet")))
        there = lake.nessie.heads()["main"]
        gone.drop()
        marked = lake.mark_dropped()
        before = lake.below("elsewhere")
        lake.nessie.create_branch("undrop", "main", there)

        lake.expire(marked, ask_nessie=True)

        assert lake.below("elsewhere") == before

    def test_a_commit_between_mark_and_sweep_keeps_no_write_path(self, lake: Lake) -> None:
        """A live table's own, which the mark knew."""
        lake.orders.iceberg.properties["write.data.path"] = lake.uri("elsewhere")
        lake.orders.append("b.parquet")
        orphan = lake.uri("elsewhere/orphan.parquet")
        lake.write(orphan, b"orphan")
        marked = lake.mark_dropped()
        lake.orders.append("c.parquet")

        lake.expire(marked, ask_nessie=True)

        assert orphan not in lake.files()

    def test_registered_again_between_mark_and_deferred_deletes(self, lake: Lake) -> None:
        """A new id with the old metadata file."""
        gone = lake.dropped()
        marked = lake.mark_dropped()
        lake.defer(marked)
        assert lake.deferred(marked) >= lake.below("gone")
        before = lake.below("gone")
        state = gone.states[-1]
        put = {("back",): table(state.metadata_location, state.snapshot_id)}
        lake.nessie.commit("main", puts=put)

        lake.delete_deferred(marked, ask_nessie=True)

        assert lake.below("gone") == before

    def test_written_to_between_the_list_and_its_deletes_it_stays(self, lake: Lake) -> None:
        """The place is looked at again."""
        gone = lake.dropped()
        marked = lake.mark_dropped()
        lake.defer(marked)
        before = lake.below("gone")
        new = gone.iceberg.write_orphan("new.parquet")
        lake.touch(new, NOW)

        lake.delete_deferred(marked, ask_nessie=True)

        assert lake.below("gone") == before | {new}

    def test_a_large_share_needs_to_be_confirmed(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The blast radius counts dropped tables as any garbage."""
        monkeypatch.setattr("lakesweep.collector.guards.SMALL_PLAN_OBJECTS", 1, raising=True)
        lake.dropped()
        marked = lake.mark_dropped()
        before = lake.files()
        with pytest.raises(UnsafeToSweepError, match="--confirm") as refused:
            lake.expire(marked, ask_nessie=True)
        assert lake.files() == before

        plan = re.search(r"--confirm (\S+?)[`.\s]", refused.value.message + " ")
        assert plan is not None
        lake.expire(marked, ask_nessie=True, confirm=plan[1])

        assert lake.below("gone") == set()


class TestStoredSets:
    @pytest.fixture
    def stored(self, tmp_path: Path) -> Iterator[Lake]:
        with open_live_sets(f"sqlite:///{tmp_path}/live-sets.db") as live_sets:
            live_sets.create_schema(SchemaStrategy.CREATE)
            with Lake(tmp_path, live_sets=live_sets) as made:
                yield made

    def test_deferred_deletes_know_what_the_mark_collects(self, stored: Lake) -> None:
        """The database keeps it."""
        stored.dropped()
        marked = stored.mark_dropped()
        stored.defer(marked)
        record = stored.delete_deferred(marked, ask_nessie=True)
        assert record.status is RunStatus.SWEPT
        assert stored.below("gone") == set()

    def test_a_list_is_no_leave_to_collect(self, stored: Lake) -> None:
        """Files of a dropped table that got on the list of a set marked without it stay."""
        stored.dropped()
        stored.orders.append("b.parquet")
        with_flag = stored.mark_dropped()
        stored.defer(with_flag)
        files = list(stored.live_sets.deferred(with_flag.live_set_id))
        without = stored.mark("1")
        stored.defer(without)
        before = stored.below("gone")
        stored.live_sets.start_expire(without.live_set_id, NOW, again=True)
        stored.live_sets.add_deferred(without.live_set_id, files)
        stored.live_sets.finish_expire(without.live_set_id, NOW)

        stored.delete_deferred(without, ask_nessie=True)

        assert stored.below("gone") == before

    def test_facts_of_an_older_version_collect_nothing(self, stored: Lake) -> None:
        """They say neither when a table was seen last nor that it is collected."""
        stored.dropped()
        facts = stored.live_sets.facts(stored.mark_dropped().live_set_id)
        assert facts is not None
        assert facts.dropped[0].is_collected
        assert MarkFacts.from_json(facts.to_json()) == facts
        text = facts.to_json().replace(',"is_collected":true', "").replace('"last_seen"', '"x"')
        older = MarkFacts.from_json(text)
        assert (older.dropped[0].is_collected, older.dropped[0].last_seen) == (False, None)


class TestSweepsAfterIt:
    def test_a_second_sweep_finds_nothing_more(self, lake: Lake) -> None:
        """The metadata is gone, and on the record of what we collected."""
        lake.dropped()
        lake.collect()
        orphan = lake.orders.iceberg.write_orphan("x.parquet")

        record = lake.collect()

        assert record.status is RunStatus.SWEPT
        assert orphan not in lake.files()
        assert not noted(record, lake.uri("gone"))

    def killed(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Marked:
        """A sweep that died after it had deleted the newest metadata file, which tells the table's place."""
        newest = lake.dropped().states[-1].metadata_location
        marked = lake.mark_dropped()

        def deletes_one_and_dies(*words: object) -> object:
            Path(newest.removeprefix("file://")).unlink()
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(FileDeletion, "_outcomes", deletes_one_and_dies)
            with pytest.raises(KeyboardInterrupt):
                lake.expire(marked, ask_nessie=True)
        assert any(file.endswith(".metadata.json") for file in lake.below("gone"))
        return marked

    def test_a_killed_sweep_goes_on(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        """Older metadata files are left, of which nothing tells any more that they were the table's."""
        marked = self.killed(lake, monkeypatch)
        lake.expire(marked, ask_nessie=True)
        assert lake.below("gone") == set()

    def test_what_a_killed_sweep_left_goes_with_the_next(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A new mark knows from the record of collected files where the table lay."""
        self.killed(lake, monkeypatch)
        lake.collect()
        assert lake.below("gone") == set()

    def test_what_others_commit_to_the_rest_of_it_stays(
        self, lake: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Metadata that is later than the drop is not of this catalog."""
        self.killed(lake, monkeypatch)
        theirs = f"{lake.uri('gone')}/metadata/00009-theirs.metadata.json"
        lake.write(theirs, b"theirs")
        lake.touch(theirs, LONG_AGO + timedelta(days=1))
        before = lake.below("gone")
        lake.collect()
        assert lake.below("gone") == before

    def test_of_a_dropped_view_only_metadata_goes(self, lake: Lake) -> None:
        """Neither the sweep that collects it nor the next takes what else lies where the view was."""
        lake.view("gone")
        lake.nessie.commit("main", deletes=[("gone",)])
        raw = {lake.uri("gone/orders.csv"), lake.uri("gone/data/orders.csv")}
        for file in raw:
            lake.write(file, b"1,2")
        lake.collect()
        assert lake.below("gone") == raw
        assert not noted(lake.collect(), lake.uri("gone/data"))
        assert lake.below("gone") == raw

    def test_a_dropped_view_where_another_catalog_has_a_table(self, lake: Lake) -> None:
        """The view's metadata is the newest, and manifests beside it are of no view."""
        foreign = IcebergTable(lake.write, lake.uri("gone"))
        foreign.append("b.parquet")
        lake.touch(foreign.metadata_files[0], LONG_AGO - GRACE)
        lake.view("gone")
        lake.nessie.commit("main", deletes=[("gone",)])
        before = lake.below("gone")
        assert noted(lake.collect(), lake.uri("gone/metadata"), "files lie there that no view has")
        assert lake.below("gone") == before

    def test_a_dropped_view_at_the_place_of_a_dropped_table(self, lake: Lake) -> None:
        """The files beside its metadata were the table's, and both go."""
        lake.dropped()
        lake.view("view", lake.uri("gone"))
        lake.nessie.commit("main", deletes=[("view",)])
        lake.collect()
        assert lake.below("gone") == set()

    def test_a_place_whose_folder_is_gone(self, lake: Lake) -> None:
        """Somebody removed the empty folders."""
        lake.dropped()
        lake.collect()
        shutil.rmtree(lake.lake / "gone")
        assert lake.collect().status is RunStatus.SWEPT


class TestLeftLocations:
    def moved(self, lake: Lake) -> tuple[SceneTable, Snapshot]:
        """A table whose location was set anew; its newest state still needs a file in the old one."""
        moved = lake.table("moved", lake.uri("first"))
        moved.append("kept.parquet", "gone.parquet")
        moved.iceberg.location = lake.uri("second")
        moved.remove(f"{lake.uri('first')}/data/gone.parquet")
        moved.append("b.parquet")
        return moved, moved.append("c.parquet")

    def test_a_location_that_a_table_left_is_collected(self, lake: Lake) -> None:
        """Files that the table still needs stay there."""
        moved, head = self.moved(lake)
        lake.collect()
        assert lake.below("first") == {
            file for file in moved.live_files(head) if file.startswith(lake.uri("first"))
        }
        assert lake.below("second") <= moved.live_files(head)

    def test_without_being_asked_for_it_stays(self, lake: Lake) -> None:
        """It may have been handed to somebody else."""
        self.moved(lake)
        before = lake.below("first")
        lake.expire(lake.mark("1"), ask_nessie=True)
        assert lake.below("first") == before

    def test_used_again_by_others_it_stays(self, lake: Lake) -> None:
        """What is written there a day after the table's last metadata is not the table's."""
        self.moved(lake)
        theirs = lake.uri("first/exports/theirs.csv")
        lake.write(theirs, b"an export")
        lake.touch(theirs, LONG_AGO + timedelta(days=3))
        before = lake.below("first")
        assert noted(lake.collect(), lake.uri("first"), "after its table had left")
        assert lake.below("first") == before

    @pytest.mark.parametrize("is_dropped", [False, True], ids=["live", "dropped"])
    def test_used_again_after_it_was_collected_it_stays(self, lake: Lake, is_dropped: bool) -> None:
        """No metadata is left there that tells until when the table used it; its log of metadata does."""
        moved, _ = self.moved(lake)
        lake.collect()
        theirs = lake.uri("first/exports/theirs.csv")
        lake.write(theirs, b"an export")
        lake.touch(theirs, LONG_AGO + timedelta(days=3))
        if is_dropped:
            lake.nessie.state.now = LONG_AGO + timedelta(days=10)
            moved.drop()
        assert noted(lake.collect(), lake.uri("first"), "after its table had left")
        assert theirs in lake.files()

    @pytest.mark.parametrize("time", [None, 1 << 60], ids=["none", "nonsense"])
    def test_left_at_a_time_that_nobody_knows_it_stays(self, lake: Lake, time: int | None) -> None:
        """A metadata log without times, once the metadata there is collected."""
        moved, _ = self.moved(lake)
        moved.iceberg.log = [{**entry, "timestamp-ms": time} for entry in moved.iceberg.log]
        moved.append("d.parquet")
        lake.collect()
        before = lake.below("first")
        moved.remove(f"{lake.uri('first')}/data/kept.parquet")
        moved.append("e.parquet")
        assert noted(lake.collect(), lake.uri("first"), "nobody knows when")
        assert lake.below("first") == before

    def test_a_log_without_one_of_the_times_tells_none(self, lake: Lake) -> None:
        """The file whose time is missing may be the last that the table wrote there."""
        moved = lake.table("moved", lake.uri("first"))
        moved.append("kept.parquet")
        moved.append("gone.parquet")
        moved.iceberg.log[1]["timestamp-ms"] = None
        moved.iceberg.location = lake.uri("second")
        moved.remove(f"{lake.uri('first')}/data/gone.parquet")
        moved.append("b.parquet")
        lake.collect()
        before = lake.below("first")
        moved.remove(f"{lake.uri('first')}/data/kept.parquet")
        moved.append("c.parquet")
        assert noted(lake.collect(), lake.uri("first"), "nobody knows when")
        assert lake.below("first") == before

    def test_what_the_table_needed_longer_goes_later(self, lake: Lake) -> None:
        """By then no metadata lies there any more."""
        moved, _ = self.moved(lake)
        lake.collect()
        moved.remove(f"{lake.uri('first')}/data/kept.parquet")
        moved.append("d.parquet")
        lake.collect()
        assert lake.below("first") == set()

    def test_handed_to_another_catalog_it_stays(self, lake: Lake) -> None:
        """A table there whose metadata nobody here knows."""
        self.moved(lake)
        theirs = IcebergTable(lake.write, lake.uri("first"))
        theirs.append("theirs.parquet")
        lake.touch(theirs.metadata_files[-1], LONG_AGO + timedelta(days=2))
        before = lake.below("first")
        lake.collect()
        assert lake.below("first") == before


class TestWritePaths:
    @pytest.mark.parametrize(
        "name", ["write.data.path", "write.object-storage.path", "write.folder-storage.path"]
    )
    def test_orphans_in_a_write_path_go_when_they_are_old(self, lake: Lake, name: str) -> None:
        """By the grace of dropped tables, as nobody is certain to be alone there."""
        lake.orders.iceberg.properties[name] = lake.uri("elsewhere")
        lake.orders.append(lake.uri("elsewhere/live.parquet"))
        old, new = lake.uri("elsewhere/old.parquet"), lake.uri("elsewhere/new.parquet")
        lake.write(old, b"orphan")
        lake.write(new, b"orphan")
        lake.touch(new, RECENTLY)

        record = lake.collect()

        assert lake.below("elsewhere") == {lake.uri("elsewhere/live.parquet"), new}
        assert "written within the grace of dropped tables" in record.protected

    def test_a_write_path_below_the_location_is_no_place_of_its_own(self, lake: Lake) -> None:
        """Orphans there go by the usual grace, as everywhere below a live table's location."""
        inside = lake.uri("orders/files")
        lake.orders.iceberg.properties["write.data.path"] = inside
        lake.orders.append(f"{inside}/live.parquet")
        lake.write(f"{inside}/old.parquet", b"orphan")
        lake.touch(f"{inside}/old.parquet", RECENTLY)
        lake.collect()
        assert lake.below("orders/files") == {f"{inside}/live.parquet"}

    def test_metadata_in_a_write_path(self, lake: Lake) -> None:
        """Metadata files that no live commit needs."""
        lake.orders.iceberg.properties["write.metadata.path"] = lake.uri("meta")
        lake.orders.append("b.parquet")
        old = lake.uri("meta/00000-old.avro")
        lake.write(old, b"a manifest that was never committed")
        lake.collect()
        assert lake.below("meta") == {lake.orders.states[-1].metadata_location}

    @pytest.mark.parametrize("is_dropped", [False, True], ids=["live", "dropped"])
    def test_what_lies_around_a_metadata_path_is_no_tables(
        self, lake: Lake, is_dropped: bool
    ) -> None:
        """A folder called `metadata` lies in a table's location mostly, and not where a property names it."""
        quiet = lake.table("quiet")
        quiet.iceberg.properties["write.metadata.path"] = lake.uri("shared/metadata")
        foreign = {lake.uri("shared/exports/report.csv"), lake.uri("shared/data/report.csv")}
        for file in foreign:
            lake.write(file, b"nobody's")
        quiet.append("b.parquet")
        lake.written_at += timedelta(hours=1)
        quiet.append("c.parquet")
        if is_dropped:
            quiet.drop()

        record = lake.collect()
        lake.collect()  # what the table's metadata said is collected by now

        assert foreign <= lake.files()
        assert not noted(record, lake.uri("shared"), "nobody knows")

    @pytest.mark.parametrize("is_dropped", [False, True], ids=["live", "dropped"])
    def test_what_lies_around_a_metadata_path_of_before_is_no_tables(
        self, lake: Lake, is_dropped: bool
    ) -> None:
        """The table's metadata log names files there, and the table had its location elsewhere all the time."""
        quiet = lake.table("quiet")
        quiet.iceberg.properties["write.metadata.path"] = lake.uri("shared/metadata")
        foreign = {lake.uri("shared/exports/report.csv"), lake.uri("shared/data/report.csv")}
        for file in foreign:
            lake.write(file, b"nobody's")
        quiet.append("b.parquet")
        lake.written_at += timedelta(hours=1)
        del quiet.iceberg.properties["write.metadata.path"]
        quiet.append("c.parquet")
        quiet.append("d.parquet")
        if is_dropped:
            quiet.drop()

        record = lake.collect()
        lake.collect()

        assert foreign <= lake.files()
        assert noted(record, lake.uri("shared"), "nobody knows whether it was its table's")

    def assert_orphan_stays(self, lake: Lake) -> RunRecord:
        orphan = lake.uri("elsewhere/old.parquet")
        lake.write(orphan, b"orphan")
        record = lake.collect()
        assert orphan in lake.files()
        return record

    def test_of_two_tables_it_stays(self, lake: Lake) -> None:
        """Where two meet there may be a third."""
        other = lake.table("other")
        for one in (lake.orders, other):
            one.iceberg.properties["write.data.path"] = lake.uri("elsewhere")
        other.append("b.parquet")
        record = self.assert_orphan_stays(lake)
        assert noted(record, lake.uri("elsewhere"), "others may own files there")

    def test_with_a_table_that_nobody_knows_it_stays(self, lake: Lake) -> None:
        """Its metadata lies right in the write path."""
        lake.orders.iceberg.properties["write.data.path"] = lake.uri("elsewhere")
        lake.write(lake.uri("elsewhere/v1.metadata.json"), b"another table's")
        self.assert_orphan_stays(lake)

    def test_around_the_table_it_stays(self, lake: Lake) -> None:
        """A write path for everything."""
        lake.orders.iceberg.properties["write.data.path"] = f"file://{lake.lake}"
        self.assert_orphan_stays(lake)

    def test_of_a_content_given_up_it_stays(self, lake: Lake) -> None:
        """Its manifest is lost, so nobody can tell which files there it needs."""
        broken = lake.table("broken")
        broken.iceberg.properties["write.data.path"] = lake.uri("elsewhere")
        needed = lake.uri("elsewhere/needed.parquet")
        state = broken.append(needed)
        Path(state.manifests[0].path.removeprefix("file://")).unlink()

        record = lake.collect(give_up=frozenset({broken.content_id}))

        assert needed in lake.files()
        assert noted(record, lake.uri("elsewhere"), "others may own files there")

    def test_without_being_asked_for_it_stays(self, lake: Lake) -> None:
        """The property may name a folder that others use as well."""
        lake.orders.iceberg.properties["write.data.path"] = lake.uri("elsewhere")
        lake.orders.append("b.parquet")
        orphan = lake.uri("elsewhere/old.parquet")
        lake.write(orphan, b"orphan")
        lake.expire(lake.mark("1"), ask_nessie=True)
        assert orphan in lake.files()


class TestTheList:
    def listed(self, lake: Lake) -> dict[str, ListedTable]:
        lake.orders.append(f"{len(lake.orders.states)}.parquet")
        before = lake.files()
        with lake.nessie.client() as client:
            found = list_dropped(lake.context(), client, mark_request())
        assert lake.files() == before
        return {".".join(one.table.content_key): one for one in found.tables}

    def test_sizes_and_ages_come_from_the_store(self, lake: Lake) -> None:
        """All files below the table's location, whether the metadata names them or not."""
        gone = lake.dropped()
        first = gone.iceberg.write_orphan("x.parquet")
        lake.touch(first, LONG_AGO - GRACE)

        listed = self.listed(lake)["gone"]

        assert listed.locations == (lake.uri("gone"),)
        assert listed.files is not None
        assert listed.files.files == len(lake.below("gone"))
        assert listed.files.bytes == sum(
            Path(f.removeprefix("file://")).stat().st_size for f in lake.below("gone")
        )
        assert listed.files.oldest == LONG_AGO - GRACE
        assert listed.files.newest == LONG_AGO
        assert listed.table.last_seen == lake.nessie.state.commits[lake.drop_of(gone)].time
        assert listed.why_kept == ""

    def test_it_says_why_a_table_stays(self, lake: Lake) -> None:
        """Too early, in use, or not to be found."""
        used = lake.dropped("used")
        lake.touch(used.iceberg.write_orphan("new.parquet"), RECENTLY)
        lost = lake.dropped("lost")
        Path(lost.states[-1].metadata_location.removeprefix("file://")).unlink()
        early = lake.table("early")
        early.append("b.parquet")
        lake.nessie.state.now = RECENTLY
        early.drop()

        listed = self.listed(lake)

        assert "was written there" in listed["used"].why_kept
        assert "can't be read" in listed["lost"].why_kept
        assert "not before" in listed["early"].why_kept
        assert listed["early"].not_before == listed["early"].table.last_seen + GRACE
        assert listed["early"].files.files == len(lake.below("early"))

    def test_collected_tables_have_no_files_left(self, lake: Lake) -> None:
        """They are on the list, and have none."""
        lake.dropped()
        lake.collect()
        assert self.listed(lake)["gone"].files == FolderSum()
