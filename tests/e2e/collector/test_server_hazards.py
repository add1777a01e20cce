"""Hazards of servers that a collector has to know, each in a test that a collector without the knowledge fails.

Numbers are those of the reference (lakefs.md, 6.6). What needs a real server to show itself is in tests/real/runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from lakesweep.catalogs.lakefs.values import ServerProfile
from lakesweep.collector.lakefs.collect import run_gc, run_mark
from lakesweep.collector.lakefs.request import Flow, MarkRequest, What, WhatIfRequest
from lakesweep.collector.lakefs.what_if.what_if import run_what_if
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.xid import new_xid
from lakesweep_testing.cut_lists import without_addresses
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import (
    MeddlingTransport,
    Send,
    as_a_real_server,
    edited_answer,
    route_of,
    with_resources,
)

MakeScene = Callable[..., Scene]
Meddle = Callable[[httpx.Request, Send], httpx.Response]
PREPARE = "POST gc/prepare_uncommited"
CLEAN = replace(AGED, flow=Flow.CLEAN)
UNCOMMITTED = "_lakefs/retention/gc/uncommitted/"


def collected(scene: Scene, transport: MeddlingTransport, request: MarkRequest = AGED) -> None:
    run_gc(scene.context(transport=transport), request, SweepRequest())


def test_6_6_1_staged_reupload_of_identical_content_is_kept(make_scene: MakeScene) -> None:
    """The embedded lake lists it; a server that leaves it out is asked what the branch reads."""
    scene = make_scene()
    again = scene.upload("main", "base", "base")
    assert again != scene.live["base"]
    scene.lake.clock.advance(timedelta(days=2))
    scene.user.set_rules(365)
    scene.gc()
    assert again in scene.present_keys()
    rows_left_out = 0

    def leave_out(request: httpx.Request, send: Send) -> httpx.Response:
        nonlocal rows_left_out
        response = send(request)
        if route_of(request) == PREPARE:
            rows_left_out += without_addresses(scene, response, {again})
        return response

    collected(scene, as_a_real_server(leave_out))
    assert rows_left_out
    assert again in scene.present_keys()
    assert scene.user.status("main", "base") == 200


def test_6_6_2_list_cut_short_by_the_server_is_noticed(scene: Scene) -> None:
    """A server that loses rows without a word: an entry that its branch reads came out as not live, so nothing goes."""

    def cut(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) == PREPARE:
            without_addresses(scene, response, {scene.live["staged"]})
        return response

    with pytest.raises(UnsafeToSweepError) as caught:
        collected(scene, as_a_real_server(cut))
    assert caught.value.kind == "dead-canary"
    with pytest.raises(UnsafeToSweepError) as caught:
        collected(scene, MeddlingTransport(cut))
    assert caught.value.kind == "uncommitted-rows-missing"
    assert scene.left() == set(scene.garbage)
    scene.assert_nothing_else_gone()


def test_6_6_3_branch_deleted_mid_scan_makes_the_list_be_taken_again(make_scene: MakeScene) -> None:
    """A server that meets one may report a page of rows as empty."""
    scene = make_scene()
    scene.user.branch("short-lived", "main")
    prepared = 0

    def drop(request: httpx.Request, send: Send) -> httpx.Response:
        nonlocal prepared
        if route_of(request) != PREPARE:
            return send(request)
        prepared += 1
        if prepared > 1:
            return send(request)
        scene.user.drop_branch("short-lived")
        response = send(request)
        folder = f"{UNCOMMITTED}{response.json()['run_id']}/uncommitted/"
        scene.store.delete_many([key for key in scene.present_keys() if key.startswith(folder)])
        return edited_answer(response, gc_uncommitted_location="")

    collected(scene, as_a_real_server(drop))
    assert prepared > 2, "once again for the mark, and once for the sweep"
    assert not scene.left()
    scene.assert_nothing_else_gone()


def test_a_kept_branch_that_gets_commits_all_the_time_stops_nobody(make_scene: MakeScene) -> None:
    """Whatever a named ref is at when it is asked for is among the commits that are read after it."""
    scene = make_scene()
    commits = 0

    def commit_first(request: httpx.Request, send: Send) -> httpx.Response:
        nonlocal commits
        if route_of(request) == "GET commits/main":
            scene.upload("main", "busy", f"{commits}")
            scene.user.commit("main")
            commits += 1
        return send(request)

    transport = MeddlingTransport(commit_first)
    collected(scene, transport, replace(AGED, keep_refs=("main",)))
    assert commits == 2, "for the mark, and for the sweep"
    asked = WhatIfRequest(
        min_age=AGED.min_age, allow_lower_min_age=True, keep_refs=("main",), save=False
    )
    run_what_if(scene.context(transport=MeddlingTransport(commit_first)), asked)
    assert commits == 3
    assert not scene.left()


def test_a_bare_repository_whose_refs_are_not_restored_yet_loses_nothing(
    make_scene: MakeScene,
) -> None:
    """All data has been copied to its new place, and nothing there says yet that it is live."""
    moved = make_scene(each=1)
    copied = moved.present_keys()
    moved.user._ask("DELETE", "")
    document = {"name": moved.name, "storage_namespace": f"mem://{moved.name}/ns"}
    moved.user._ask("POST", "", params={"bare": True}, json=document, root=True)
    for key in copied:  # the marker of the namespace, too
        moved.put(key, moved.container.objects[f"ns/{key}"].data)
    moved.lake.clock.advance(timedelta(days=2))
    for transport in (MeddlingTransport(), as_a_real_server()):
        with pytest.raises(UnsafeToSweepError) as caught:
            collected(moved, transport, replace(AGED, flow=Flow.CLEAN))
        assert caught.value.kind == "no-default-branch"
    with pytest.raises(UnsafeToSweepError, match="refs are not restored"):
        moved.explain(moved.live["base"])
    assert copied <= moved.present_keys()


@pytest.mark.parametrize("is_real", [True, False])
def test_branches_that_come_and_go_during_every_list_stop_nobody(
    make_scene: MakeScene, is_real: bool
) -> None:
    """CI makes a branch for every build and deletes it again."""
    scene = make_scene()
    names = [f"ci-{number}" for number in range(12)]
    for name in names:
        scene.user.branch(name, "main")

    def drop(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) == PREPARE:
            scene.user.drop_branch(names.pop())
        return send(request)

    collected(scene, as_a_real_server(drop) if is_real else MeddlingTransport(drop))
    assert not scene.left()
    scene.assert_nothing_else_gone()
    assert len(names) == 10, "one list for the mark, one for the sweep"


@pytest.mark.parametrize("rows", ["none", "one"])
def test_6_6_4_commits_that_the_servers_list_drops_are_retained(scene: Scene, rows: str) -> None:
    """A failing walk on the server gives a shorter list; ours is computed from the whole graph."""

    def shorten(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) == "GET gc/prepare_commits/status":
            for key in scene.present_keys():
                if key.endswith("commits.csv"):
                    lines = scene.store.read(key).splitlines(keepends=True)
                    scene.store.write(key, b"".join(lines[: 1 if rows == "none" else 2]))
        return response

    collected(scene, as_a_real_server(shorten))
    assert not scene.left()
    scene.assert_nothing_else_gone()


def test_commits_that_only_the_server_retains_are_kept_and_reported(make_scene: MakeScene) -> None:
    """The union of both lists is kept: a server may know why."""
    scene = make_scene()

    def add_all(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) == "GET gc/prepare_commits/status":
            commit = scene.lake.client.commit(scene.name, scene.expired_commit)
            for key in scene.present_keys():
                if key.endswith("commits.csv"):
                    row = f"{commit.id},false,{commit.meta_range_id}\n".encode()
                    scene.store.write(key, scene.store.read(key) + row)
        return response

    record = run_gc(scene.context(transport=MeddlingTransport(add_all)), AGED, SweepRequest())
    assert {name for name in scene.garbage if name.startswith("expired")} == scene.left()
    assert any("because the server retains them" in note for note in record.notes)


def test_server_that_does_not_tell_of_linked_objects_collects_committed_data_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real server on local files: what was linked there and not committed would look like garbage."""
    monkeypatch.setattr(ServerProfile, "lists_linked_objects", False)
    for what in (What.ALL, What.UNCOMMITTED):
        with pytest.raises(UnsafeToSweepError) as caught:
            run_gc(scene.context(), replace(AGED, what=what), SweepRequest())
        assert caught.value.kind == "local-store"
    assert scene.left() == set(scene.garbage)
    assert scene.gc(replace(AGED, what=What.COMMITTED)).objects["deleted"]
    scene.assert_nothing_else_gone()


def test_rules_that_are_removed_while_a_run_reads_expire_nothing(make_scene: MakeScene) -> None:
    """The rules were read, and the server that is then asked for its list has none any more."""
    scene = make_scene()

    def remove_first(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) == "POST gc/prepare_commits/async":
            scene.lake.client.delete_rules(scene.name)
        return send(request)

    record = run_mark(scene.context(transport=MeddlingTransport(remove_first)), AGED)
    assert record.objects["expired"] == 0
    assert any("removed during the run" in note for note in record.notes)


@pytest.mark.parametrize("answer", [(200, {"grace_period": 21600}), (404, {"message": "no"})])
def test_6_6_5_short_grace_period_of_an_old_server_does_not_lower_the_age(
    scene: Scene, answer: tuple[int, dict[str, object]]
) -> None:
    """Uploads may be linked for a day whatever the server says, so nothing younger goes."""
    young = scene.put(
        f"{scene.live['base'].rsplit('/', 1)[0]}/bc00000000000000000g", b"x", days_ago=0.9
    )

    def short(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) == "GET config/garbage-collection":
            return httpx.Response(answer[0], json=answer[1])
        return send(request)

    now = datetime.now(UTC)
    context = with_resources(
        scene.context(transport=MeddlingTransport(short), margins=SAFETY_FULL), clock=lambda: now
    )
    scene.container.clock = lambda: now
    try:
        record = run_mark(context, MarkRequest())
    finally:
        scene.container.clock = scene.lake.clock
    assert record.cutoff is not None
    assert now - record.cutoff >= timedelta(hours=24, minutes=10)
    assert young in scene.present_keys()


def test_6_6_6_upload_born_old_is_kept_while_it_is_pending(scene: Scene) -> None:
    """A multipart upload has the time at which it began; what is under way is live, however old it looks."""
    scene.gc()
    assert scene.live["pending"] in scene.present_keys()
    info = scene.store.stat(scene.live["pending"])
    assert info.last_modified is not None
    assert scene.lake.clock.now - info.last_modified > timedelta(days=2)


@pytest.mark.parametrize("ahead", [timedelta(minutes=11), -timedelta(minutes=11)])
def test_6_6_9_clocks_apart_are_refused(scene: Scene, ahead: timedelta) -> None:
    """Ages told by one clock and thresholds by another delete what is young; beyond ten minutes nothing is done."""
    now = datetime.now(UTC)
    scene.container.clock = lambda: now - ahead
    try:
        context = with_resources(scene.context(margins=SAFETY_FULL), clock=lambda: now)
        with pytest.raises(UnsafeToSweepError) as caught:
            run_gc(context, MarkRequest(), SweepRequest())
    finally:
        scene.container.clock = scene.lake.clock
    assert caught.value.kind == "clock-skew"
    assert scene.left() == set(scene.garbage)


def test_6_6_9_age_is_told_by_the_stores_clock(scene: Scene) -> None:
    """A driver whose clock runs ahead, within what is tolerated, makes nothing older."""
    just_young = scene.put(
        f"{scene.live['base'].rsplit('/', 1)[0]}/bc00000000000000000g",
        b"x",
        days_ago=(AGED.min_age or timedelta()).total_seconds() / 86400 - 0.002,
    )
    ahead = with_resources(
        scene.context(), clock=lambda: scene.lake.clock.now + timedelta(minutes=9)
    )
    run_gc(ahead, AGED, SweepRequest())
    assert just_young in scene.present_keys()
    assert not scene.left()


def test_6_6_10_marks_are_hints(make_scene: MakeScene) -> None:
    """What a tag keeps, what was copied and what was linked between mark and sweep all reads afterwards."""
    scene = make_scene()
    marked = scene.mark(replace(AGED, keep_tags=True))
    assert marked.objects["garbage"] == len(scene.garbage)
    scene.user.tag("keep", scene.expired_commit)
    scene.user.link("main", "pending", scene.pending_uri, 5)
    scene.user._ask(
        "POST",
        "/branches/main/objects/copy",
        params={"dest_path": "copied"},
        json={"src_path": "expired-0", "src_ref": scene.expired_commit},
    )
    swept = scene.sweep(marked.mark_id)
    assert swept.objects["revived"] == 3
    assert {scene.garbage[f"expired-{n}"] for n in range(3)} == set(swept.revived)
    assert scene.user.status("keep", "expired-1") == 200
    assert scene.user.status("main", "pending") == 200
    assert scene.user.status("main", "copied") == 200
    scene.assert_nothing_else_gone()


def test_copy_of_what_is_deleted_meanwhile_still_reads(make_scene: MakeScene) -> None:
    """A copy from an old commit is a full copy: the original goes, the copy stays."""
    scene = make_scene()
    marked = scene.mark()
    scene.user._ask(
        "POST",
        "/branches/main/objects/copy",
        params={"dest_path": "copied"},
        json={"src_path": "expired-0", "src_ref": scene.expired_commit},
    )
    scene.sweep(marked.mark_id)
    assert not scene.left()
    assert scene.user.status("main", "copied") == 200
    assert scene.user.status(scene.expired_commit, "expired-0") == 410


def test_what_committed_never_looks_at_what_is_unreferenced(scene: Scene) -> None:
    """`--what committed` lists nothing and deletes nothing but what commits held."""
    record = scene.gc(replace(AGED, what=What.COMMITTED))
    assert record.objects["listed"] == 0
    assert scene.left() == {name for name in scene.garbage if name.startswith("orphan")}
    scene.assert_nothing_else_gone()
    again = scene.gc(replace(AGED, what=What.COMMITTED))
    assert again.objects["garbage"] == 0, "what earlier runs deleted is not marked again"


def test_record_names_what_a_server_does_not_promise(scene: Scene) -> None:
    """No counts with the pages of a real server's list: the record says so."""
    record = run_mark(scene.context(transport=as_a_real_server()), AGED)
    assert any("no row counts" in note for note in record.notes)
    assert json.dumps(record.as_json())


SPELLINGS = (
    "mem://{name}/ns/{key}",
    "mem://{name}//ns/{key}",
    "mem://{name}/ns//{key}",
    "mem://{name}/ns/./{key}",
    "mem://{name}/ns/x/../{key}",
    "mem://{upper}/ns/{key}",
    "mem://{name}/ns/{quoted}",
)


def test_full_addresses_inside_the_namespace_are_live_in_every_spelling(
    make_scene: MakeScene,
) -> None:
    """A server reads an entry's full address as it likes; whatever object it may mean is kept."""
    scene = make_scene()
    folder = scene.live["base"].rsplit("/", 1)[0]
    at = scene.lake.clock.now - timedelta(days=20)
    entries = {"outside": Entry("mem://elsewhere/x", at, 5, "e", address_type=AddressType.FULL)}
    for number, spelling in enumerate(SPELLINGS):
        key = scene.put(f"{folder}/{new_xid(at)}", b"linked by its full address", days_ago=20)
        scene.live[spelling] = key
        address = spelling.format(
            name=scene.name, upper=scene.name.upper(), key=key, quoted=key.replace("a", "%61")
        )
        entries[f"full-{number}"] = Entry(address, at, 5, "e", address_type=AddressType.FULL)
    scene.commit_entries("full", entries)
    scene.keep_as_is()
    scene.gc()
    assert not scene.left()
    scene.assert_nothing_else_gone()
