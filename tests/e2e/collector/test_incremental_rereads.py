"""Later rounds of a sweep judge what is still to be deleted by what changed since the round before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from lakesweep.collector import sweep as sweep_module
from lakesweep.collector.judge.suspects import Suspects
from lakesweep.collector.lakefs import references
from lakesweep.collector.lakefs import sweep as lakefs_sweep
from lakesweep.collector.lakefs.between_runs.range_cache import HashedRange
from lakesweep.collector.lakefs.checks.reuploads import SearchedRanges, find_reuploads
from lakesweep.collector.lakefs.collect import run_sweep
from lakesweep.collector.lakefs.live import Roots, read_live
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.lakefs.request import MarkRequest, What
from lakesweep.collector.lakefs.verification import Reverified
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.resources import Resources
from lakesweep.errors import PartlySweptError
from lakesweep.formats.entries import Entry
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.tables import read_mark, write_mark
from lakesweep_testing.changing_server import ChangingServer
from lakesweep_testing.few_of_many import few_of
from lakesweep_testing.rounds import OneChunkARound
from lakesweep_testing.scene import AGED, Scene, assert_adds_up
from lakesweep_testing.trouble import (
    MeddlingTransport,
    Send,
    as_a_real_server,
    route_of,
)

MakeScene = Callable[..., Scene]
# An embedded lake refuses while a round deletes what these stories do then (test_fenced_sweeps.py).
pytestmark = pytest.mark.usefixtures("without_fences")


@pytest.fixture(autouse=True)
def _one_row_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_module, "_ROWS_PER_CHUNK", 1)


def sweep_in_rounds(
    scene: Scene,
    between: Callable[[int], None] = lambda number: None,
    *,
    request: MarkRequest = AGED,
    transport: MeddlingTransport | None = None,
) -> tuple[RunRecord, OneChunkARound]:
    """Mark, then sweep one object a round, and look at the numbers."""
    marked = scene.mark(request)
    engine = OneChunkARound(scene, between)
    context = scene.context(engine=engine, transport=transport)
    swept = run_sweep(context, marked.mark_id, SweepRequest())
    assert swept.status is RunStatus.SWEPT
    assert_adds_up(swept)
    return swept, engine


def test_later_rounds_join_no_range_again_and_only_what_is_left(make_scene: MakeScene) -> None:
    """Somebody commits after the second round: that range is joined, and none of the others once more."""
    scene = make_scene()

    def commit(number: int) -> None:
        if number == 2:
            scene.upload("main", "new")
            scene.user.commit("main")

    _, engine = sweep_in_rounds(scene, commit)
    left = len(scene.garbage)
    assert engine.rounds == left
    assert len(engine.ranges[0]) > 1
    assert [len(ranges) for ranges in engine.ranges[1:4]] == [0, 1, 0]
    assert not engine.ranges[0] & engine.ranges[2]
    # What the round before deleted is counted once more, as done.
    assert engine.candidates == [left, *range(left, 1, -1)]
    scene.assert_everything_reads()


def test_later_rounds_remember_what_expired_and_what_no_commit_held(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expired ranges are not joined again either; only what no commit held is looked for among staged re-uploads."""
    scene = make_scene()
    reasons: set[tuple[str, str]] = set()
    plain = lakefs_sweep.verify_plan

    def verify(
        repository: LakeFSRepository, resources: Resources, *args: Any, **options: Any
    ) -> Reverified:
        found = plain(repository, resources, *args, **options)
        for part in found.parts:
            for row in read_mark(resources.store.read(part.key)).to_pylist():
                reasons.add((row["address"], row["reason"]))
        return found

    monkeypatch.setattr(lakefs_sweep, "verify_plan", verify)
    sweep_in_rounds(scene)
    assert reasons == {
        (address, "expired" if name.startswith("expired") else "unreferenced")
        for name, address in scene.garbage.items()
    }


# -- what comes back to life between two rounds


def _commit_after(scene: Scene) -> str:
    """The commit that deleted what the expired one holds."""
    for commit in scene.lake.client.log(scene.name, "main"):
        if scene.expired_commit in commit.parents:
            return commit.id
    raise AssertionError


def revert(scene: Scene) -> None:
    scene.user.branch("clean", "main")
    scene.user.revert("clean", _commit_after(scene))


def branch(scene: Scene) -> None:
    scene.user.branch("back", scene.expired_commit)


def commit(scene: Scene) -> None:
    """The branch alone was never seen: what is new in the round after is one commit."""
    scene.user.branch("back", scene.expired_commit)
    scene.upload("back", "zzz")
    scene.user.commit("back")


def hard_reset(scene: Scene) -> None:
    scene.user.hard_reset("dev", scene.expired_commit)


def cherry_pick(scene: Scene) -> None:
    scene.user.branch("clean", "main")
    scene.user.cherry_pick("clean", scene.expired_commit)


def merge(scene: Scene) -> None:
    """What is merged comes from a branch that is gone again before the next round."""
    scene.user.branch("target", "main")
    revert(scene)
    scene.user.merge("clean", "target")
    scene.user.drop_branch("clean")


def tag(scene: Scene) -> None:
    scene.user.tag("kept", scene.expired_commit)


def longer_rules(scene: Scene) -> None:
    scene.user.set_rules(365)


def no_rules(scene: Scene) -> None:
    scene.user.clear_rules()


@pytest.mark.parametrize("what", [What.ALL, What.COMMITTED])
@pytest.mark.parametrize(
    "verb",
    few_of(
        [revert, branch, commit, hard_reset, cherry_pick, merge, tag, longer_rules, no_rules],
        3,
    ),
)
def test_what_comes_back_between_two_rounds_is_kept(
    make_scene: MakeScene, verb: Callable[[Scene], None], what: What
) -> None:
    """Nothing of it was live in the round before, which had read all that was."""
    scene = make_scene()
    expired = {a for name, a in scene.garbage.items() if name.startswith("expired")}
    there: set[str] = set()

    def bring_back(number: int) -> None:
        if number == 1:
            there.update(expired & scene.present_keys())
            verb(scene)

    swept, engine = sweep_in_rounds(
        scene, bring_back, request=replace(AGED, what=what, keep_tags=verb is tag)
    )
    assert len(there) >= 2
    assert there <= scene.present_keys()
    assert engine.ranges[1]
    assert set(swept.revived) == there
    assert swept.objects["revived"] == len(there)
    orphans = set(scene.garbage.values()) - expired
    assert not orphans & scene.present_keys() or what is What.COMMITTED


@pytest.mark.parametrize("what", [What.ALL, What.UNCOMMITTED])
def test_what_is_staged_between_two_rounds_is_kept(make_scene: MakeScene, what: What) -> None:
    """A real server stages any address that it is given."""
    scene = make_scene()
    server = ChangingServer(scene)

    def stage(number: int) -> None:
        if number == 1:
            server.staged = set(scene.garbage.values()) & scene.present_keys()

    swept, _ = sweep_in_rounds(
        scene, stage, request=replace(AGED, what=what), transport=server.transport
    )
    assert len(server.staged) > 2
    assert server.staged <= scene.present_keys()
    assert set(scene.marked(swept.mark_id)) & server.staged == set(swept.revived)


@pytest.mark.parametrize("is_new", few_of([True, False], 2))
def test_reupload_between_two_rounds_is_kept(make_scene: MakeScene, is_new: bool) -> None:
    """A real server does not list it, and no range holds it: only the branch itself tells that it reads the object."""
    scene = make_scene()
    orphans = [scene.upload("main", f"same-{n}", "base") for n in range(4)]
    scene.user.reset("main")
    scene.lake.clock.advance(timedelta(days=2))
    server = ChangingServer(scene)
    path = "new" if is_new else "base"

    def upload(number: int) -> None:
        if number == 1:
            if is_new:
                scene.upload("main", path, "base")
                scene.user.commit("main")
            server.read_at = {path: next(a for a in orphans if a in scene.present_keys())}

    swept, engine = sweep_in_rounds(scene, upload, transport=server.transport)
    assert engine.rounds > 3
    assert list(swept.revived) == list(server.read_at.values())
    assert scene.present_keys() & set(orphans) == set(server.read_at.values())
    # Each range is searched once, for the sizes of all that was to be deleted then.
    assert [len(ranges) for ranges in engine.searched] == ([1, 1] if is_new else [1])


def test_ranges_are_searched_again_for_sizes_that_were_not_asked_for(
    make_scene: MakeScene,
) -> None:
    """What was found for some sizes says nothing of others."""
    scene = make_scene()
    orphan = scene.upload("main", "same", "base")
    scene.user.reset("main")
    context = scene.context(transport=ChangingServer(scene).transport)
    live = read_live(context.repository, context.resources, Roots(), context.resources.clock())
    searched = SearchedRanges()
    engine = OneChunkARound(scene)
    resources = replace(context.resources, engine=engine)
    hashes = hash_addresses(pa.array([orphan]))
    for sizes in ([4, 99], [99], [4], [98]):
        suspects = Suspects.of(hashes, pa.array(sizes, pa.int64()))
        find_reuploads(context.repository, resources, live, suspects, [], searched)
    # What was found for 4 and 99 serves each of them alone; 98 was not asked for.
    assert [len(ranges) for ranges in engine.searched] == [1, 1]


# -- guards of later rounds


def sweep_until_refused(
    scene: Scene, between: Callable[[int], None], transport: MeddlingTransport
) -> PartlySweptError:
    """The error of a sweep whose second round was refused; the first one deleted one object."""
    before = len(scene.present_keys() & set(scene.garbage.values()))
    with pytest.raises(PartlySweptError) as caught:
        sweep_in_rounds(scene, between, transport=transport)
    assert len(scene.present_keys() & set(scene.garbage.values())) == before - 1
    return caught.value


@pytest.mark.parametrize("path", ["staged", "base"])
def test_list_cut_short_in_a_later_round_ends_the_sweep(make_scene: MakeScene, path: str) -> None:
    """What is staged is a canary in every round, also where the path is committed in a range that was judged."""
    scene = make_scene()
    server = ChangingServer(scene)

    def cut(number: int) -> None:
        if number == 1:
            server.left_out = {scene.upload("main", path, f"other {path}")}

    assert sweep_until_refused(scene, cut, server.transport).kind == "dead-canary"


@pytest.mark.parametrize(
    ("verb", "stale"),
    [
        (branch, ("branches_meta_range_id",)),
        (branch, ("branches_meta_range_id", "commits_meta_range_id")),
        (commit, ("branches_meta_range_id", "commits_meta_range_id")),
    ],
)
def test_refs_dump_cut_short_in_a_later_round_ends_the_sweep(
    make_scene: MakeScene, verb: Callable[[Scene], None], stale: tuple[str, ...]
) -> None:
    """No canary may stand for a branch that brings back what expired; every head is compared."""
    scene = make_scene()
    server = ChangingServer(scene)

    def cut(number: int) -> None:
        if number == 1:
            verb(scene)
            server.stale = (*stale, "result")

    assert sweep_until_refused(scene, cut, server.transport).kind == "unread-head"


def test_part_that_lost_rows_between_two_rounds_ends_the_sweep(make_scene: MakeScene) -> None:
    """Else they would be neither deleted nor kept, and nobody would know."""
    scene = make_scene()

    def cut(number: int) -> None:
        key = max(k for k in scene.present_keys() if "/verdicts/garbage-" in k)
        scene.store.write(key, write_mark(read_mark(scene.store.read(key)).slice(1)))

    assert sweep_until_refused(scene, cut, as_a_real_server()).kind == "not-conserved"


def test_new_ranges_that_are_misread_end_the_sweep(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Canaries of a new head must come out as live, like those of all heads in the first round."""
    scene = make_scene()
    plain = references.hash_range

    def misread(*args: Any) -> HashedRange:
        read = plain(*args)
        return replace(read, hashes=read.hashes + np.uint64(1))

    def go_blind(number: int) -> None:
        if number == 1:
            commit(scene)
            monkeypatch.setattr(references, "hash_range", misread)

    assert sweep_until_refused(scene, go_blind, as_a_real_server()).kind == "dead-canary"


def test_branch_that_goes_or_moves_while_it_is_read_ends_no_sweep(make_scene: MakeScene) -> None:
    """It was there before the refs were read, and what it read then needs not be live any more."""
    scene = make_scene()
    moved = False

    def read(request: httpx.Request, send: Send) -> httpx.Response:
        nonlocal moved
        if route_of(request) == "PUT refs/dump" and "back" in scene.user.branches() and not moved:
            scene.user.drop_branch("back")
            scene.user.hard_reset("moving", "main")
            scene.lake.clock.advance(timedelta(days=10))
            moved = True
        return send(request)

    def bring_back(number: int) -> None:
        if number == 1:
            for name in ("back", "moving"):
                scene.user.branch(name, scene.expired_commit)

    sweep_in_rounds(scene, bring_back, transport=as_a_real_server(read))
    assert moved
    assert not scene.left()


def test_new_commit_of_known_ranges_is_explained_without_joining_them(
    make_scene: MakeScene,
) -> None:
    """Its canaries lie in a range that the first round judged."""
    scene = make_scene()

    def commit_twice(number: int) -> None:
        if number == 1:
            scene.user.branch("clean", "main")
            scene.upload("clean", "for a while")
            scene.user.commit("clean")
            scene.user.delete("clean", "for a while")
            scene.user.commit("clean")

    _, engine = sweep_in_rounds(scene, commit_twice)
    assert engine.canaries[1] > engine.canaries[2]
    assert len(engine.ranges[1]) == 1
    assert not scene.left()


def test_staged_canary_that_was_committed_since_is_explained(make_scene: MakeScene) -> None:
    """It was staged when it was taken, and by then the list had it no more; the range that has it was judged."""
    scene = make_scene()
    server = ChangingServer(scene)

    def commit_base(number: int) -> None:
        server.diffs = {"base"}

    sweep_in_rounds(scene, commit_base, transport=server.transport)
    assert not scene.left()


def test_names_at_the_root_stay_the_repositorys_own_in_later_rounds(make_scene: MakeScene) -> None:
    """The ranges that tell it are not read again."""
    scene = make_scene()
    live, *orphans = (f"{n:032x}" for n in range(4))
    for address in (live, *orphans):
        scene.put(address, b"abc", days_ago=30)
    at = scene.lake.clock.now - timedelta(days=20)
    scene.commit_entries("old", {"live": Entry(live, at, 3, "e")})
    swept, engine = sweep_in_rounds(scene)
    assert engine.rounds == len(scene.garbage) + len(orphans)
    assert swept.objects["deleted"] == engine.rounds
    assert not scene.present_keys() & set(orphans)
    assert live in scene.present_keys()
