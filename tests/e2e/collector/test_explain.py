"""What `explain` says of every kind of object, on the embedded lake and on a server that tells no more than lakeFS does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakesweep.collector.lakefs.backup_restore import run_backup, run_restore
from lakesweep.collector.lakefs.collect import run_sweep
from lakesweep.collector.lakefs.explain import explain as explaining
from lakesweep.collector.lakefs.explain import staged_search
from lakesweep.collector.lakefs.explain.explain import ExplainRequest
from lakesweep.collector.lakefs.request import Flow
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.target import Target
from lakesweep.domain.explained_why import on_the_day
from lakesweep.domain.explanations import Explanation, HolderKind, Said
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError, UnsafeToSweepError
from lakesweep.report.explanations import explanations_text
from lakesweep.storage import StorageOptions
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import as_a_real_server

MakeScene = Callable[..., Scene]


def one(scene: Scene, name: str, **more: object) -> Explanation:
    (found,) = scene.explain(name, **more).objects  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("is_real", [False, True], ids=["embedded", "as a real server"])
def test_every_kind_of_object_is_what_a_mark_says(scene: Scene, is_real: bool) -> None:
    """Live, garbage and foreign objects are called so, and nothing is written to find out."""
    there = dict(scene.container.objects)
    # A real server does not tell of uploads under way, and an object as old as this one was then never linked.
    live = {n: a for n, a in scene.live.items() if n != "pending" or not is_real}
    addresses = [*live.values(), *scene.garbage.values(), *scene.foreign.values()]
    transport = as_a_real_server() if is_real else None
    found = {e.address: e for e in scene.explain(*addresses, transport=transport).objects}
    assert scene.container.objects == there
    young = scene.live["young"]
    assert {found[a].said for a in live.values() if a != young} == {Said.LIVE}
    assert found[young].said is Said.YOUNG
    assert {found[a].said for a in scene.foreign.values()} == {Said.PROTECTED}
    expired = {a for name, a in scene.garbage.items() if name.startswith("expired")}
    doubtful = {a for a, e in found.items() if e.said is Said.UNKNOWN}
    # A commit that no branch reaches may hold what all others have let go, and a real server does not tell of it.
    assert doubtful == (expired if is_real else set())
    assert {a for a, e in found.items() if e.unread} == doubtful
    marked = scene.marked(scene.mark().mark_id)
    assert {a for a, e in found.items() if e.said is Said.GARBAGE} == marked - doubtful


def test_the_commits_the_rule_and_the_day_are_named(make_scene: MakeScene) -> None:
    """An object of a retained commit goes when the days of its branch after its deletion are over, not a moment sooner."""
    scene = make_scene(each=1)
    found = one(scene, scene.live["retained"])
    assert {line.branch for line in found.commits} == {"main", "dev"}
    main = next(line for line in found.commits if line.branch == "main")
    assert (main.commits, main.retained) == (1, 1)
    assert main.first == main.last
    assert (main.last.id, main.last.path) == (scene.retained_commit, "retained")
    assert found.goes_at is not None
    assert f"keeps for 5 days, until {on_the_day(found.goes_at)}" in found.why
    assert "1 retained commit on branch" in found.why
    assert "so do commits on 1 more branch" in found.why
    scene.lake.clock.now = found.goes_at - timedelta(microseconds=1)
    assert found.address not in scene.marked(scene.mark().mark_id)
    scene.lake.clock.now = found.goes_at
    assert found.address in scene.marked(scene.mark().mark_id)


def test_a_young_object_is_collectable_when_the_minimum_age_has_passed(
    make_scene: MakeScene,
) -> None:
    """The age rule is strict: an object that is exactly as old as the minimum age is young still."""
    scene = make_scene(each=1)
    found = one(scene, scene.live["young"])
    assert found.said is Said.YOUNG
    assert found.goes_at is not None
    assert "collectable from" in found.why
    scene.lake.clock.now = found.goes_at - timedelta(microseconds=1)
    assert found.address not in scene.marked(scene.mark().mark_id)
    scene.lake.clock.now = found.goes_at
    assert found.address in scene.marked(scene.mark().mark_id)


def test_heads_and_staged_objects_have_no_day(scene: Scene) -> None:
    """What a branch reads stays for as long as nothing changes."""
    base, staged = scene.explain(scene.live["base"], scene.live["staged on dev"]).objects
    assert base.stays
    assert base.goes_at is None
    assert "head of branch" in base.why
    assert staged.stays
    (holder,) = staged.outside
    assert (holder.kind, holder.branch, holder.path) == (HolderKind.STAGED, "dev", "staged-on-dev")


def test_copies_and_uploads_are_told_with_their_end(scene: Scene) -> None:
    """The embedded lake knows until when a copy is tracked, and until when an upload may be linked."""
    copied, pending = scene.explain(scene.live["renamed"], scene.live["pending"]).objects
    assert {h.kind for h in copied.outside} == {HolderKind.COPY, HolderKind.STAGED}
    (upload,) = pending.outside
    assert (upload.kind, upload.branch, upload.path) == (HolderKind.UPLOAD, "main", "pending")
    assert pending.goes_at == upload.until
    assert upload.until is not None
    assert upload.until > scene.lake.clock.now


def test_paths_refs_and_uris_are_understood(scene: Scene) -> None:
    """A path without a ref is one of the default branch; what is not there is asked for."""
    base, retained = scene.live["base"], scene.live["retained"]
    asked = {
        "base": base,
        "base@dev": base,
        f"retained@{scene.retained_commit}": retained,
        f"lakefs://{scene.name}/main/base": base,
        f"mem://{scene.name}/ns/{base}": base,
    }
    found = scene.explain(*asked).objects
    assert [e.address for e in found] == list(asked.values())
    missing = one(scene, "retained")
    assert missing.said is Said.UNKNOWN
    assert "retained@REF" in missing.why
    assert "no branch, tag or commit mian" in one(scene, "base@mian").why
    for wrong in ("lakefs://other/main/base", f"lakefs://{scene.name}/main", ""):
        with pytest.raises(ConfigError, match="Nothing was touched"):
            scene.explain(wrong)
    with pytest.raises(ConfigError, match="Which object"):
        scene.explain()


def test_a_path_may_hold_an_at_sign(make_scene: MakeScene) -> None:
    """What stands behind the last `@` is a ref only where there is one of that name."""
    scene = make_scene(each=1)
    address = scene.upload("main", "mail@home")
    assert one(scene, "mail@home").address == address


def test_a_deleted_object_names_its_run_and_its_copies(
    make_scene: MakeScene, tmp_path: Path
) -> None:
    """Which run deleted it, when, what it was, and where a backup of the same mark lies."""
    scene = make_scene(each=1)
    mark_id = scene.mark().mark_id
    to = Location.parse(f"file://{tmp_path}/backup")
    run_backup(scene.context(), mark_id, Target(to, StorageOptions()))
    record = run_sweep(scene.context(), mark_id, SweepRequest())
    expired = one(scene, scene.garbage["expired-0"])
    assert expired.said is Said.DELETED
    assert expired.deletion is not None
    assert expired.deletion.run_id == record.run_id
    assert expired.deletion.copies == (to.uri,)
    assert "It was expired-0 in commit" in expired.why
    # Small files of deletions are written together one day, and the names of their runs are lost.
    for key in [k for k in scene.container.objects if f"-gone-{record.run_id}/" in k]:
        moved = key.replace(f"-gone-{record.run_id}/", "-gone-compacted-x/")
        scene.container.objects[moved] = scene.container.objects.pop(key)
    compacted = one(scene, expired.address)
    assert compacted.said is Said.DELETED
    assert "an earlier run deleted it" in compacted.why
    never = one(scene, "data/g0000000000000000000/c0000000000000000000")
    assert never.said is Said.UNKNOWN
    assert "not in the store" in never.why


def test_an_object_that_a_sweep_found_gone_is_not_said_to_be_deleted_by_it(
    make_scene: MakeScene,
) -> None:
    """Who looks for what happened to an object is led to the run that deleted it, or to nobody."""
    scene = make_scene(each=2)
    first, second = scene.mark(), scene.mark()
    lost = scene.garbage["orphan-1"]
    del scene.container.objects[f"ns/{lost}"]
    record = run_sweep(scene.context(), first.mark_id, SweepRequest())
    assert record.objects["already_gone"] == 1
    scene.lake.clock.advance(timedelta(hours=1))
    run_sweep(scene.context(), second.mark_id, SweepRequest())
    ours = one(scene, scene.garbage["orphan-0"])
    assert ours.deletion is not None
    assert ours.deletion.run_id == first.run_id
    others = one(scene, lost)
    assert others.deletion is None
    assert others.said is Said.UNKNOWN
    assert "no run of ours is known to have deleted it" in others.why
    (note,) = others.notes
    assert f"run {second.run_id} found it gone" in note
    assert not ours.notes


def test_a_restored_object_is_as_young_as_its_restoration(
    make_scene: MakeScene, tmp_path: Path
) -> None:
    """What a restore brought back may go again once the minimum age has passed since then, and not before."""
    scene = make_scene(each=1)
    mark_id = scene.mark().mark_id
    backup = Target(Location.parse(f"file://{tmp_path}/backup"), StorageOptions())
    run_backup(scene.context(), mark_id, backup)
    scene.sweep(mark_id)
    run_restore(scene.context(), mark_id, backup)
    address = scene.garbage["orphan-0"]
    # Some stores keep the time of what is copied: the promise of the restore holds all the same.
    scene.put(address, b"orphan-0", days_ago=30)
    found = one(scene, address)
    assert found.said is Said.YOUNG
    assert found.goes_at is not None
    scene.lake.clock.now = found.goes_at - timedelta(milliseconds=1)
    assert address not in scene.marked(scene.mark(replace(AGED, flow=Flow.CLEAN)).mark_id)
    scene.lake.clock.now = found.goes_at
    assert address in scene.marked(scene.mark(replace(AGED, flow=Flow.CLEAN)).mark_id)


def test_objects_of_a_mark_by_prefix_and_limit(scene: Scene) -> None:
    """The prefix is that of an address, or of the path in some commit."""
    mark_id = scene.mark().mark_id
    by_path = scene.explain(request=ExplainRequest(mark_id=mark_id, prefix="expired-"))
    expired = {a for name, a in scene.garbage.items() if name.startswith("expired")}
    assert {e.address for e in by_path.objects} == expired
    assert all(e.marked == f"{mark_id} (expired)" for e in by_path.objects)
    few = scene.explain(request=ExplainRequest(mark_id=mark_id, prefix="data/", limit=2))
    assert len(few.objects) == 2
    assert "--limit" in few.notes[0]
    none = scene.explain(request=ExplainRequest(mark_id=mark_id, prefix="nonsense"))
    assert none.objects == ()


def test_many_objects_are_looked_for_on_the_engine(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine gives the same answers."""
    here = scene.explain(*scene.live.values(), *scene.garbage.values())
    monkeypatch.setattr(explaining, "FEW", 1)
    there = scene.explain(*scene.live.values(), *scene.garbage.values())
    assert there == here


def test_a_deleted_branch_is_named_where_the_server_knows_it(make_scene: MakeScene) -> None:
    """The embedded lake tells which branch let the object go; a real server has forgotten, and so nothing is called garbage."""
    scene = make_scene(each=1)
    scene.user.branch("gone", "main")
    address = scene.upload("gone", "only-here")
    scene.user.commit("gone")
    scene.user.drop_branch("gone")
    dropped_at = scene.lake.clock.now
    scene.lake.clock.advance(timedelta(days=2))
    kept = one(scene, address)
    assert kept.said is Said.LIVE
    assert kept.goes_at is not None
    assert timedelta(days=5) <= kept.goes_at - dropped_at < timedelta(days=5, seconds=1)
    (line,) = kept.commits
    assert (line.branch, line.is_deleted) == ("gone", True)
    scene.lake.clock.advance(timedelta(days=9))
    gone = one(scene, address)
    assert gone.said is Said.GARBAGE
    assert "branch gone, which was deleted" in gone.why
    real = one(scene, address, transport=as_a_real_server())
    assert real.said is Said.UNKNOWN
    assert any("no branch or tag reaches" in unread for unread in real.unread)


def test_a_staged_copy_of_committed_content_is_found_where_the_server_hides_it(
    make_scene: MakeScene,
) -> None:
    """A path that is uploaded again with the same content is no change to a server, and its new object is live."""
    scene = make_scene(each=1)
    again = scene.upload("main", "base", "base")
    scene.lake.clock.advance(timedelta(days=3))
    found = one(scene, again, transport=as_a_real_server())
    assert found.said is Said.LIVE
    assert [(h.branch, h.path) for h in found.outside] == [("main", "base")]


def test_too_many_staged_paths_leave_the_answer_open(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not looked up may hold the object: nothing is called garbage, and the answer says what was not read."""
    scene = make_scene(each=1)
    monkeypatch.setattr(staged_search, "MOST_PATHS", 1)
    orphan = scene.garbage["orphan-0"]
    assert one(scene, orphan).said is Said.GARBAGE
    found = one(scene, orphan, transport=as_a_real_server())
    assert found.said is Said.UNKNOWN
    assert "more than 1 paths are staged" in found.unread[0]


def test_a_missing_range_says_nothing(make_scene: MakeScene) -> None:
    """What is live can't be told, so no object is called anything."""
    scene = make_scene(each=1)
    ranges = [k for k in scene.present_keys() if k.startswith("_lakefs/") and len(k) == 72]
    for key in ranges:
        scene.container.objects.pop(f"ns/{key}")
    with pytest.raises(UnsafeToSweepError, match="missing"):
        scene.explain(scene.garbage["orphan-0"])


def test_keep_tags_keeps(make_scene: MakeScene) -> None:
    """The options of a mark that keep more are asked for here as well."""
    scene = make_scene(each=1)
    scene.user.tag("v1", scene.expired_commit)
    expired = scene.garbage["expired-0"]
    garbage = one(scene, expired)
    assert garbage.said is Said.GARBAGE
    assert garbage.notes == ("tagged v1; a tag keeps nothing, unless a mark is given --keep-tags",)
    kept = one(scene, expired, request=ExplainRequest(keep_tags=True))
    assert kept.said is Said.LIVE
    assert kept.stays
    assert not kept.notes
    by_ref = one(scene, expired, request=ExplainRequest(keep_refs=("v1",)))
    assert by_ref.said is Said.LIVE
    scene.user.branch("short", scene.expired_commit)
    lone = scene.upload("short", "lone")
    commit = scene.user.commit("short")
    scene.user.drop_branch("short")
    scene.lake.clock.advance(timedelta(days=20))
    for transport in (None, as_a_real_server()):
        named = ExplainRequest(keep_refs=(commit,))
        found = one(scene, lone, request=named, transport=transport)
        assert found.said is Said.LIVE, "a commit that no branch reaches was named"
    with pytest.raises(ConfigError, match="no such branch"):
        scene.explain(expired, request=ExplainRequest(keep_refs=("nonsense",)))


def test_text_and_json_say_the_same(scene: Scene) -> None:
    """One value, two renderings; the JSON has a schema name."""
    found = scene.explain(scene.live["retained"], scene.garbage["orphan-0"], "README.txt@main")
    document = json.loads(json.dumps(found.to_json()))
    assert document["schema"] == "lakesweep.explain/1"
    assert [o["said"] for o in document["objects"]] == ["live", "garbage", "unknown"]
    assert document["objects"][0]["commits"][0]["last"]["path"] == "retained"
    text = explanations_text(found)
    assert f"{scene.live['retained']}: LIVE" in text
    assert "goes on" in text
    assert AGED.min_age is not None
    assert "objects younger than 1d10m" in text
