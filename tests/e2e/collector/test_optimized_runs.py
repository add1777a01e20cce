"""Optimised runs find what clean runs would find, and each repair of the design that makes it so (DESIGN D6)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.collector.lakefs import search
from lakesweep.collector.lakefs.between_runs.saved import (
    CLEAN_EVERY,
    SavedRun,
    load_expired_ranges,
    load_last_run,
)
from lakesweep.collector.lakefs.candidates import ExpiredRange
from lakesweep.collector.lakefs.collect import run_gc, run_sweep
from lakesweep.collector.lakefs.request import Flow, What
from lakesweep.collector.record import RunRecord
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.commits import RangeId
from lakesweep.errors import PartlySweptError, StorageError
from lakesweep.formats.tables import UNCOMMITTED_SCHEMA, write_uncommitted
from lakesweep.formats.xid import new_xid
from lakesweep_testing.embedded import EmbeddedLake
from lakesweep_testing.faults import FaultPlan, FaultyStore
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import MeddlingTransport, Send, route_of
from lakesweep_testing.user import RefusedError

MakeScene = Callable[..., Scene]
CLEAN = replace(AGED, flow=Flow.CLEAN)
LAST_RUN = "_lakefs/retention/gc/lakesweep/last-run.json"


class RandomUser:
    """Does what users do, from a seed; what the lake refuses is passed over."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene = scene
        self.chance = random.Random(seed)
        self.issued: list[tuple[str, str, str]] = []
        self.commits = [scene.expired_commit, scene.retained_commit]
        self.number = 0

    def act(self, times: int) -> None:
        verbs = [
            *[self.upload] * 6,
            *[self.delete] * 2,
            *[self.commit] * 3,
            *[self.copy] * 2,
            *[self.issue, self.link, self.branch, self.drop_branch, self.reset],
            *[self.merge, self.revert, self.set_rules, self.wait, self.wait],
        ]
        for verb in self.chance.choices(verbs, k=times):
            self.number += 1
            try:
                verb()
            except RefusedError:
                continue

    @property
    def branch_name(self) -> str:
        return self.chance.choice(self.scene.user.branches())

    @property
    def path(self) -> str:
        return f"path-{self.chance.randrange(6)}"

    def upload(self) -> None:
        self.scene.user.upload(self.branch_name, self.path, f"content {self.chance.randrange(9)}")

    def delete(self) -> None:
        self.scene.user.delete(self.branch_name, self.path)

    def commit(self) -> None:
        # Some commits are back-dated, so that what is young can be expired.
        days = self.chance.choice([0, 0, 0, 3, 20])
        made = self.scene.user.commit(self.branch_name, days=days, message=f"c{self.number}")
        self.commits.append(made)

    def copy(self) -> None:
        branch, source = self.branch_name, self.path
        self.scene.user.copy(branch, source, self.path)
        if self.chance.random() < 0.5:
            self.scene.user.delete(branch, source)

    def issue(self) -> None:
        branch, path = self.branch_name, self.path
        address = self.scene.user.issue_address(branch, path)
        self.scene.put(self.scene.relative(address), b"12345")
        self.issued.append((branch, path, address))

    def link(self) -> None:
        if self.issued:
            branch, path, address = self.issued.pop(self.chance.randrange(len(self.issued)))
            self.scene.user.link(branch, path, address, 5)

    def branch(self) -> None:
        self.scene.user.branch(f"b{self.number}", self.chance.choice([*self.commits, "main"]))

    def drop_branch(self) -> None:
        self.scene.user.drop_branch(self.branch_name)

    def reset(self) -> None:
        self.scene.user.reset(self.branch_name)

    def merge(self) -> None:
        self.scene.user.merge(self.branch_name, self.branch_name)

    def revert(self) -> None:
        self.scene.user.revert(self.branch_name, self.chance.choice(self.commits))

    def set_rules(self) -> None:
        self.scene.user.set_rules(self.chance.randrange(1, 9))

    def wait(self) -> None:
        self.scene.lake.clock.advance(timedelta(hours=self.chance.choice([1, 7, 25, 60])))


@pytest.mark.parametrize(
    ("seed", "what"),
    [
        pytest.param(0, [What.ALL], marks=pytest.mark.search),
        pytest.param(2, [What.UNCOMMITTED], marks=pytest.mark.search),
        (4, [What.ALL, What.UNCOMMITTED]),
    ],
)
def test_optimized_run_marks_what_a_clean_run_marks(
    make_scene: MakeScene, seed: int, what: list[What]
) -> None:
    """At every moment of a random history, with sweeps that fail half of their keys, and marks that are not swept."""
    scene = make_scene()
    user = RandomUser(scene, seed)
    optimized = 0
    for _ in range(5):
        user.act(14)
        request = replace(AGED, what=user.chance.choice(what))
        found = scene.mark(request)
        optimized += found.flow == Flow.OPTIMIZED
        proof = scene.mark(replace(request, flow=Flow.CLEAN))
        assert scene.marked(found.mark_id) == scene.marked(proof.mark_id), found.notes
        live = {address for address in scene.live.values() if address in scene.present_keys()}
        how = user.chance.random()
        if how < 0.3:
            plan = FaultPlan(failed_deletes=0.5)
            context = scene.context(wrap=lambda store, plan=plan: FaultyStore(store, seed, plan))
            try:
                run_sweep(context, found.mark_id, SweepRequest())
            except (PartlySweptError, StorageError):
                pass  # some keys failed, or all of them
        elif how < 0.85:
            scene.sweep(found.mark_id)
        assert scene.live["base"] in live
        assert scene.live["base"] in scene.present_keys()
    assert optimized, "a history without an optimised run proves nothing"


# -- the repairs, one by one


def settled(scene: Scene) -> RunRecord:
    """A first run, swept to its end, after which the slices of the history are not listed again."""
    record = scene.gc()
    assert record.flow == Flow.CLEAN
    assert not scene.left()
    return record


def in_an_old_slice(scene: Scene) -> str:
    """A new address in a slice that is settled long since."""
    return f"{scene.live['base'].rsplit('/', 1)[0]}/{new_xid(scene.lake.clock.now)}"


def test_what_was_staged_and_committed_at_once_is_not_deleted_after_a_reset(
    make_scene: MakeScene,
) -> None:
    """The address is in the earlier list, in no new commit, and not staged: the design as written deletes it."""
    scene = make_scene()

    def stage_base_too(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) == "POST gc/prepare_uncommited":
            # A copy that raced a commit: the list has an address that is committed already.
            row = {"physical_address": scene.live["base"], "creation_date": 1}
            table = pa.Table.from_pylist([row], schema=UNCOMMITTED_SCHEMA)
            folder = f"_lakefs/retention/gc/uncommitted/{response.json()['run_id']}/uncommitted/"
            scene.put(f"{folder}raced", write_uncommitted(table))
            values = response.json()
            values["rows_written"] += 1
            values["total_rows"] += 1
            return httpx.Response(201, json=values)
        return response

    transport = MeddlingTransport(stage_base_too)
    run_gc(scene.context(transport=transport), AGED, SweepRequest())
    scene.keep_as_is()
    scene.lake.clock.advance(timedelta(days=2))
    again = scene.gc()
    assert again.flow == Flow.OPTIMIZED, again.notes
    assert scene.live["base"] in scene.present_keys()
    assert scene.user.status("main", "base") == 200


def test_what_was_staged_and_then_reset_is_found_without_a_listing(make_scene: MakeScene) -> None:
    """Step 1 of the design: the earlier list minus what is live now."""
    scene = make_scene()
    settled(scene)
    scene.user.reset("main")
    scene.lake.clock.advance(timedelta(days=2))
    again = scene.gc()
    assert again.flow == Flow.OPTIMIZED, again.notes
    assert scene.live["staged"] not in scene.present_keys()
    assert scene.live["staged on dev"] in scene.present_keys()


def test_candidates_of_a_saved_list_keep_to_the_age_rule_and_are_carried_on(
    make_scene: MakeScene,
) -> None:
    """Young at one run and in a slice that is not listed again, it is deleted by the first run that finds it old."""
    scene = make_scene()
    late = scene.put(in_an_old_slice(scene), b"written late")
    settled(scene)
    assert late in scene.present_keys()
    for _ in range(2):
        scene.lake.clock.advance(timedelta(hours=6))
        again = scene.gc()
        assert again.flow == Flow.OPTIMIZED, again.notes
        assert late in scene.present_keys(), "still young"
    scene.lake.clock.advance(timedelta(days=1))
    assert scene.gc().flow == Flow.OPTIMIZED
    assert late not in scene.present_keys()


def test_what_the_earlier_run_saw_young_is_asked_about_when_it_may_be_old(
    make_scene: MakeScene,
) -> None:
    """Its age can only have gone down since. What was staged and is not any more has no age, and is asked about."""
    scene = make_scene()
    scene.put(in_an_old_slice(scene), b"written late")
    settled(scene)
    asked = []
    for _ in range(3):
        scene.lake.clock.advance(timedelta(hours=10))
        again = scene.gc()
        assert again.flow == Flow.OPTIMIZED, again.notes
        asked += [phase.items for phase in again.phases if phase.name == "ages"]
    assert asked == [1]


def test_what_was_written_again_since_is_as_young_as_that(make_scene: MakeScene) -> None:
    """Old by the time that an earlier run knew it with, and young in the store."""
    scene = make_scene()
    late = scene.put(in_an_old_slice(scene), b"written late")
    settled(scene)
    scene.lake.clock.advance(timedelta(days=2))
    scene.put(late, b"written again")
    assert scene.gc().flow == Flow.OPTIMIZED
    assert late in scene.present_keys()
    scene.lake.clock.advance(timedelta(days=2))
    assert scene.gc().flow == Flow.OPTIMIZED
    assert late not in scene.present_keys()


def test_slice_counts_as_read_only_when_nothing_in_it_can_be_linked_or_young(
    make_scene: MakeScene,
) -> None:
    """An object that appears in a new slice after a run listed it is found by the next run all the same."""
    scene = make_scene()
    newest = scene.live["young"].rsplit("/", 1)[0]
    settled(scene)
    after = scene.put(f"{newest}/{new_xid(scene.lake.clock.now)}", b"uploaded, never linked")
    scene.lake.clock.advance(timedelta(days=3))
    again = scene.gc()
    assert again.flow == Flow.OPTIMIZED, again.notes
    assert after not in scene.present_keys()
    assert scene.live["young"] not in scene.present_keys()


def test_settled_slices_are_not_listed_again(make_scene: MakeScene) -> None:
    """That is what an optimised run saves."""
    scene = make_scene()
    first = settled(scene)
    hidden = scene.put(in_an_old_slice(scene), b"x", days_ago=9)
    scene.lake.clock.advance(timedelta(days=3))
    again = scene.gc()
    assert again.flow == Flow.OPTIMIZED, again.notes
    assert again.objects["listed"] < first.objects["listed"]
    assert hidden in scene.present_keys(), "nobody told the collector, and a clean run will find it"
    scene.gc(CLEAN)
    assert hidden not in scene.present_keys()


def test_newly_expired_objects_in_old_slices_are_found(make_scene: MakeScene) -> None:
    """They come from the committed formula, which needs no listing."""
    scene = make_scene()
    settled(scene)
    scene.lake.clock.advance(timedelta(days=6))
    again = scene.gc()
    assert again.flow == Flow.OPTIMIZED, again.notes
    assert scene.live["retained"] not in scene.present_keys()
    assert again.objects["expired"] >= 1
    assert scene.live["base"] in scene.present_keys()


def test_expired_ranges_that_the_run_before_has_judged_are_not_read_again(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a run over all data has judged them; one over uncommitted data alone counts them as live."""
    read: list[str] = []

    def watched(range_id: RangeId, count: int) -> ExpiredRange:
        read.append(range_id)
        return ExpiredRange(range_id, count)

    monkeypatch.setattr(search, "ExpiredRange", watched)

    def read_by_a_run(what: What) -> int:
        scene.lake.clock.advance(timedelta(days=2))
        read.clear()
        assert scene.gc(replace(AGED, what=what)).flow == Flow.OPTIMIZED
        return len(read)

    scene = make_scene()
    settled(scene)
    scene.user.set_rules(30)
    assert read_by_a_run(What.ALL) == 0
    scene.user.set_rules(1)
    newly = read_by_a_run(What.ALL)
    assert newly > 0
    assert read_by_a_run(What.ALL) == 0
    assert read_by_a_run(What.UNCOMMITTED) == 0
    assert read_by_a_run(What.ALL) == newly


def test_lost_list_of_judged_ranges_costs_judging_them_again(make_scene: MakeScene) -> None:
    """They are candidates again, and nothing else changes."""
    scene = make_scene()
    settled(scene)
    saved = load_last_run(scene.store)
    assert isinstance(saved, SavedRun)
    assert load_expired_ranges(scene.store, saved)
    for damage in (b"", scene.store.read(saved.expired_ranges)[:-9]):
        scene.store.write(saved.expired_ranges, damage)
        assert load_expired_ranges(scene.store, saved) == frozenset()
    scene.store.delete_many([saved.expired_ranges])
    assert load_expired_ranges(scene.store, saved) == frozenset()
    scene.lake.clock.advance(timedelta(days=6))
    again = scene.gc()
    assert again.flow == Flow.OPTIMIZED, again.notes
    assert again.objects["expired"] >= 1


# -- when there is no run to build on


def why_clean(record: RunRecord) -> str:
    assert record.flow == Flow.CLEAN
    return next(note for note in record.notes if "(a clean run), because" in note)


def test_mark_that_was_not_swept_is_nothing_to_build_on(scene: Scene) -> None:
    """A clean run, and it says why."""
    scene.mark()
    again = scene.mark(replace(AGED, flow=Flow.OPTIMIZED))
    assert "no earlier run was swept to its end" in why_clean(again)


def test_run_of_another_repository_is_nothing_to_build_on(
    scene: Scene, make_scene: MakeScene
) -> None:
    """Its files copied here do not make it ours."""
    other = make_scene()
    other.gc()
    scene.store.write(LAST_RUN, other.store.read(LAST_RUN))
    assert f"the earlier run was one on {other.name}" in why_clean(scene.mark())


def test_run_whose_files_are_gone_is_nothing_to_build_on(scene: Scene) -> None:
    """Whoever cleaned up there made the next run a clean one."""
    scene.gc()
    for key in [k for k in scene.present_keys() if "/uncommitted/" in k]:
        scene.store.delete_many([key])
    assert "missing" in why_clean(scene.mark())


def test_saved_list_with_damaged_ages_is_nothing_to_build_on(make_scene: MakeScene) -> None:
    """Its addresses can be read, and every run that went on by them would end when it needs an age."""
    scene = make_scene()
    scene.put(in_an_old_slice(scene), b"written late")
    settled(scene)
    saved = load_last_run(scene.store)
    assert isinstance(saved, SavedRun)
    columns = {key: _columns(scene.store.read(key)) for key in saved.files}
    young = next(key for key, of_file in columns.items() if "last_modified" in of_file)
    ages = columns[young]["last_modified"]
    first = ages.dictionary_page_offset or ages.data_page_offset
    data = bytearray(scene.store.read(young))
    for at in range(first, first + ages.total_compressed_size):
        data[at] ^= 0xFF
    scene.store.write(young, bytes(data))
    assert "can't be read" in why_clean(scene.mark())


def _columns(parquet: bytes) -> dict[str, Any]:
    """Where each column lies in the first group of rows."""
    group = pq.ParquetFile(pa.BufferReader(parquet)).metadata.row_group(0)
    columns = map(group.column, range(group.num_columns))
    return {column.path_in_schema: column for column in columns}


def test_saved_run_that_was_edited_is_nothing_to_build_on(scene: Scene) -> None:
    """A changed slice would make the run pass over data without a word."""
    scene.gc()
    saved = scene.store.read(LAST_RUN)
    scene.store.write(LAST_RUN, saved.replace(b'"last_slice": "', b'"last_slice": "0'))
    assert "changed after it was written" in why_clean(scene.mark())


def test_run_that_settled_no_slice_is_nothing_to_build_on(lake: EmbeddedLake) -> None:
    """In a new repository every slice is read again anyway."""
    user = lake.new_user("new-repository")
    lake.date_file(user.upload("main", "staged"))
    lake.gc("new-repository")
    assert "could still be added to every folder" in why_clean(lake.mark("new-repository", AGED))


def test_every_tenth_run_is_a_clean_one(scene: Scene) -> None:
    """Whatever an optimised run could miss, a clean one finds."""
    flows = [scene.gc().flow for _ in range(CLEAN_EVERY + 2)]
    assert flows == [Flow.CLEAN, *[Flow.OPTIMIZED] * (CLEAN_EVERY - 1), Flow.CLEAN, Flow.OPTIMIZED]
