"""The mistakes of the original collector, each in a test that its way of doing it fails.

Numbers are those of the reference (lakefs.md, 6.5). 6.5-4 is test_failed_deletes.py, 6.5-6 test_edited_marks.py and
test_server_hazards.py. 6.5-11 and 6.5-15 are about speed, which benchmarks tell.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count

import httpx
import pyarrow as pa
import pytest

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.lakefs.collect import run_gc, run_mark
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Meet, Scatter
from lakesweep.errors import CatalogNotFoundError, UnsafeToSweepError
from lakesweep.formats.commits_csv import read_commits_csv
from lakesweep.formats.entries import AddressType, Entry
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.moments import OneMoment
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import (
    MeddlingTransport,
    Send,
    as_a_real_server,
    edited_answer,
    route_of,
)

MakeScene = Callable[..., Scene]
Meddle = Callable[[httpx.Request, Send], httpx.Response]
PREPARE = "POST gc/prepare_uncommited"
CLEAN = replace(AGED, flow=Flow.CLEAN)
UNCOMMITTED = "_lakefs/retention/gc/uncommitted/"


def collected(scene: Scene, transport: MeddlingTransport, request: MarkRequest = AGED) -> None:
    run_gc(scene.context(transport=transport), request, SweepRequest())


def test_6_5_1_without_rules_every_commit_counts(make_scene: MakeScene) -> None:
    """The original's fallback reads no commit at all and finds every old committed object deletable."""
    scene = make_scene()
    scene.user.clear_rules()
    record = scene.gc()
    assert {name for name in scene.garbage if name.startswith("expired")} == scene.left()
    assert record.objects["unreferenced"] == record.objects["deleted"] == 3
    assert scene.user.status(scene.expired_commit, "expired-0") == 200
    scene.assert_nothing_else_gone()


def test_6_5_1_rules_removed_while_a_run_reads_expire_nothing(make_scene: MakeScene) -> None:
    """Between reading the rules and the server's list they may go; then every commit counts, too."""
    scene = make_scene()

    def clear_first(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) == "POST gc/prepare_commits/async":
            scene.user.clear_rules()
        return send(request)

    collected(scene, MeddlingTransport(clear_first))
    assert {name for name in scene.garbage if name.startswith("expired")} == scene.left()
    scene.assert_nothing_else_gone()


def test_6_5_2_every_page_counts_though_the_last_names_no_location(scene: Scene) -> None:
    """The original reads the last page's location only, and deletes what the pages before it listed."""
    pages: list[dict[str, object]] = []

    def last_page_empty(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) != PREPARE:
            return send(request)
        if b"continuation_token" in request.content:
            body = {"run_id": pages[-1]["run_id"], "gc_uncommitted_location": ""}
            return httpx.Response(201, json=body, headers={"date": "Thu, 01 Jan 2026 00:00:00 GMT"})
        response = send(request)
        pages.append(response.json())
        return edited_answer(response, continuation_token="more", total_rows=None)

    collected(scene, as_a_real_server(last_page_empty))
    assert pages
    assert not scene.left()
    scene.assert_nothing_else_gone()


def test_6_5_3_location_that_does_not_exist_is_no_empty_list(scene: Scene) -> None:
    """The original takes it for "nothing is staged"."""

    def lose_files(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) == PREPARE:
            lost = [k for k in scene.container.objects if k.startswith(f"ns/{UNCOMMITTED}")]
            for key in lost:
                del scene.container.objects[key]
        return response

    with pytest.raises(UnsafeToSweepError) as caught:
        collected(scene, as_a_real_server(lose_files))
    assert caught.value.kind == "location-missing"
    assert scene.left() == set(scene.garbage)
    scene.assert_nothing_else_gone()


@pytest.mark.search
def test_6_5_5_what_moves_while_a_run_reads_is_kept(make_scene: MakeScene) -> None:
    """The original lists lazily, again and again. Here whatever moves, moves towards what is read later.

    Before every fifth request of a collection in turn: what is staged is committed, what is pending is linked, what is
    staged is renamed, and something new is written. All of it reads afterwards.
    """
    scene = make_scene()
    user = scene.user
    # Every moment of a mark alone and of a sweep alone is tried in test_mark_alone.py and test_sweep_alone.py.
    for moment in count(step=5):
        scene.put_back(scene.garbage.values())
        user.upload("main", f"to-commit-{moment}")
        user.upload("dev", f"to-rename-{moment}")
        user.upload("dev", f"to-copy-{moment}")
        scene.lake.clock.advance(timedelta(hours=30))
        address = user.issue_address("main", f"linked-{moment}")
        scene.put(scene.relative(address), b"12345", days_ago=2)

        def move(moment: int = moment, address: str = address) -> None:
            user.commit("main")
            user.link("main", f"linked-{moment}", address, 5)
            user.copy("dev", f"to-rename-{moment}", f"renamed-{moment}")
            user.delete("dev", f"to-rename-{moment}")
            user.copy("dev", f"to-copy-{moment}", f"copied-{moment}")
            user.upload("main", f"new-{moment}")

        transport = OneMoment(moment, move)
        collected(scene, transport, CLEAN)
        if transport.before is None:
            break
        for path in (f"to-commit-{moment}", f"linked-{moment}", f"new-{moment}"):
            assert user.status("main", path) == 200, f"{path}, at request {moment}"
        for path in (f"renamed-{moment}", f"to-copy-{moment}", f"copied-{moment}"):
            assert user.status("dev", path) == 200, f"{path}, at request {moment}"
    assert moment > 20
    for branch in ("main", "dev"):
        assert all(scene.user.status(branch, path) == 200 for path in scene.user.paths(branch))


def test_6_5_7_plain_file_under_data_is_named_by_its_own_key(scene: Scene) -> None:
    """The original lists `data/plain` as `data/plain/plain`. It is none of lakeFS's, so it is named and left alone."""
    record = scene.gc()
    assert record.protected["plain file directly under data/"] == ["data/plain"]
    scene.assert_nothing_else_gone()


def test_6_5_8_foreign_file_at_the_root_is_no_candidate(scene: Scene) -> None:
    """The original deletes any old file at the root of the namespace."""
    for key in ("model.pkl", "0" * 31, "0" * 32, "0" * 33, "F" * 32, "dummy", "_SUCCESS", "a,b"):
        scene.put(key, b"mine", days_ago=99)
    before = scene.present_keys()
    record = scene.gc()
    assert before - scene.present_keys() == set(scene.garbage.values())
    assert record.objects["protected"] >= 8


def test_6_5_8_old_objects_at_the_root_are_collected(make_scene: Callable[..., Scene]) -> None:
    """Repositories from before slices keep data at the root under 32 hex digits, and age counts there too."""
    scene = make_scene()
    own = Entry("1" * 32, scene.lake.clock.now, 3, "e", address_type=AddressType.RELATIVE)
    scene.put(own.address, b"own", days_ago=99)
    scene.commit_entries("before-slices", {"own": own})
    scene.put("0123456789abcdef0123456789abcdef", b"old", days_ago=99)
    scene.put("fedcba9876543210fedcba9876543210", b"young", days_ago=1)
    scene.gc()
    assert "0123456789abcdef0123456789abcdef" not in scene.present_keys()
    assert {"fedcba9876543210fedcba9876543210", own.address} <= scene.present_keys()


@pytest.mark.parametrize(
    "key",
    [
        "data/inner/_lakefs/dummy",
        "data/hr45dh069lbkm8intj0g/_lakefs/0" + "a" * 63,
        "data/dummy",
        "data/inner/deeper/dummy",
        "data/!ab/c/_lakefs/refs_manifest.json",
    ],
)
def test_repository_inside_data_is_refused(scene: Scene, key: str) -> None:
    """Its objects would look like our garbage."""
    scene.put(key, b"another repository", days_ago=99)
    scene.put("data/inner/data/hr45dh069lbkm8intj0g/bc0000000000000000000", b"theirs", days_ago=99)
    with pytest.raises(UnsafeToSweepError, match="nother repository") as caught:
        scene.gc()
    assert caught.value.kind == "foreign-repository"
    assert scene.left() == set(scene.garbage)


def test_sharded_levels_are_listed_and_collected(scene: Scene) -> None:
    """Extra levels before the slice belong to lakeFS, at whatever depth it puts them."""
    slice_name = scene.live["base"].split("/")[1]
    shallow = scene.put(f"data/!ab/{slice_name}/bc000000000000000000", b"x", days_ago=99)
    deep = scene.put(f"data/!ab/c/{slice_name}/bc00000000000000000g", b"x", days_ago=99)
    scene.gc()
    assert not {shallow, deep} & scene.present_keys()


def test_6_5_9_calls_to_the_server_do_not_grow_with_commits_or_ranges(
    make_scene: MakeScene,
) -> None:
    """The original makes two calls for each commit and one for each range."""
    scene = make_scene()
    few = MeddlingTransport()
    run_mark(scene.context(transport=few), AGED)
    for number in range(12):
        scene.upload("main", f"more-{number}")
        scene.user.commit("main")
    many = MeddlingTransport()
    run_mark(scene.context(transport=many), AGED)
    # Canaries are looked up one by one: as many as are staged, and a page for each different head.
    few_calls, many_calls = (
        sorted(r for r in transport.routes_without_polling if "/objects/" not in r)
        for transport in (few, many)
    )
    assert many_calls == few_calls


def test_6_5_14_no_secret_of_the_server_travels_to_executors(scene: Scene) -> None:
    """The original ships its whole configuration; a task here knows the store it works on and nothing else."""
    secret = scene.lake.server.secret_access_key
    shipped: list[bytes] = []

    class Looking(InProcessEngine):
        def collect(self, scatter: Scatter) -> pa.Table:
            shipped.append(pickle.dumps((scatter.items, scatter.work)))
            return super().collect(scatter)

        def meet(
            self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
        ) -> pa.Table:
            shipped.append(pickle.dumps(meet))
            return super().meet(left, right, meet, schema, partitions)

    run_gc(scene.context(engine=Looking()), AGED, SweepRequest())
    assert len(shipped) > 5
    assert not any(secret.encode() in blob for blob in shipped)


def test_6_5_10_ids_of_commits_stay_text() -> None:
    """The original lets Spark guess the types of a CSV of hex ids, some of which look like numbers."""
    ids = ["0" * 63 + "7", "1" * 64, "12e4" * 16]
    rows = "".join(f"{i},false,{i}\n" for i in ids)
    read = read_commits_csv(f"commit_id,expired,metarange_id\n{rows}".encode())
    assert [row.commit_id for row in read] == ids
    assert [row.meta_range_id for row in read] == ids


@pytest.mark.parametrize("bucket", ["my_bucket", "a.b_c", "Old-Bucket", "1bucket"])
def test_6_5_12_bucket_names_that_are_no_host_names_are_understood(bucket: str) -> None:
    """The original finds no bucket in them."""
    namespace = Location.parse(f"s3://{bucket}/ns")
    assert (namespace.container, namespace.key) == (bucket, "ns")
    address = f"s3://{bucket}/ns/data/x/y"
    assert AddressNormaliser(namespace).relative(address) == "data/x/y"


def test_6_5_13_what_is_not_there_is_not_asked_for_again(scene: Scene) -> None:
    """The original tries everything five times, a 404 too."""

    def gone(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) == "GET branches":
            return httpx.Response(404, json={"message": "not found"})
        return send(request)

    transport = MeddlingTransport(gone)
    with pytest.raises(CatalogNotFoundError):
        collected(scene, transport)
    assert transport.routes.count("GET branches") == 1
    assert scene.left() == set(scene.garbage)
