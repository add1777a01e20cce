"""Staged re-uploads that a server does not list, among many objects of the same size."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import httpx
import pytest

from lakesweep.collector.lakefs.checks import content_sums, reuploads
from lakesweep.collector.lakefs.checks.reupload_lookups import NEAR
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_sweep
from lakesweep.collector.lakefs.request import Flow, What
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import CatalogError
from lakesweep.formats.tables import read_uncommitted, write_uncommitted
from lakesweep.report.text import run_text
from lakesweep_testing.scene import AGED, Scene, assert_adds_up
from lakesweep_testing.trouble import Send, as_a_real_server, edited_answer, route_of

MakeScene = Callable[..., Scene]
CLEAN = replace(AGED, flow=Flow.CLEAN)
UNCOMMITTED = replace(CLEAN, what=What.UNCOMMITTED)
FILES = 120
REUPLOADED = (0, 57, 119)


class Forgetful:
    """A server that does not list some staged objects; it counts what it is asked."""

    def __init__(self, scene: Scene, forgotten: set[str]) -> None:
        self._scene = scene
        self._forgotten = forgotten
        self.asked: Counter[str] = Counter()
        self.looked_up: set[str] = set()
        self.longest_page = 0  # entries in one answer of a listing

    def __call__(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        route = route_of(request)
        self.asked[route.rsplit("/", 1)[-1]] += 1
        if route.endswith("/ls"):
            self.longest_page = max(self.longest_page, len(response.json()["results"]))
        if route.endswith("/stat"):
            self.looked_up.add(request.url.params["path"])
        if route == "POST gc/prepare_uncommited":
            folder = f"_lakefs/retention/gc/uncommitted/{response.json()['run_id']}/uncommitted/"
            for key in [key for key in self._scene.present_keys() if key.startswith(folder)]:
                rows = read_uncommitted(self._scene.store.read(key))
                stay = [
                    address not in self._forgotten
                    for address in rows.column("physical_address").to_pylist()
                ]
                self._scene.store.write(key, write_uncommitted(rows.filter(stay)))
        return response


@pytest.fixture
def crowd(make_scene: MakeScene) -> tuple[Scene, set[str], set[str]]:
    """Files of one size, some of them uploaded again with the same content, and orphans of that size."""
    scene = make_scene()
    # After all canaries in path order: it is not they who should find the forgotten.
    paths = [f"zz/same-{number:04d}" for number in range(FILES)]
    for path in paths:
        scene.upload("main", path, "same size")
    scene.user.commit("main")
    orphans = {scene.upload("main", f"orphan-{number}", "same size") for number in range(5)}
    for number in range(5):
        scene.user.delete("main", f"orphan-{number}")
    again = {scene.upload("main", paths[number], "same size") for number in REUPLOADED}
    scene.user.set_rules(365)
    scene.lake.clock.advance(timedelta(days=2))
    return scene, orphans, again


def test_orphans_go_and_reuploads_stay_though_all_have_one_size(
    crowd: tuple[Scene, set[str], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where paths lie close together, pages of the branch's listing answer instead of a request for each."""
    scene, orphans, again = crowd
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    server = Forgetful(scene, again)
    run_gc(scene.context(transport=as_a_real_server(server)), CLEAN, SweepRequest())
    present = scene.present_keys()
    assert again <= present
    assert not orphans & present
    assert server.asked["stat"] + server.asked["ls"] < FILES // 4


def test_a_listing_without_what_a_look_up_finds_is_not_believed(
    crowd: tuple[Scene, set[str], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an empty one nor one that begins too late: what it might have told of is kept."""
    scene, _, again = crowd
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    server = Forgetful(scene, again)

    def without_pages(request: httpx.Request, send: Send) -> httpx.Response:
        response = server(request, send)
        if not route_of(request).endswith("/objects/ls"):
            return response
        left = [e for e in response.json()["results"] if not e["path"].startswith("zz/")]
        pagination = {
            "has_more": False,
            "next_offset": "",
            "results": len(left),
            "max_per_page": 1000,
        }
        return httpx.Response(200, json={"pagination": pagination, "results": left})

    run_gc(scene.context(transport=as_a_real_server(without_pages)), CLEAN, SweepRequest())
    assert again <= scene.present_keys()


def linked(scene: Scene, path: str, content: str, e_tag: str) -> str:
    """A user's own bytes at an issued address, with an e_tag of the user's making."""
    address = scene.user.issue_address("main", path)
    key = scene.put(scene.relative(address), content.encode())
    scene.user.link("main", path, address, len(content), e_tag)
    return key


def test_orphans_with_other_bytes_than_any_entry_cost_no_request(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their sums say that no branch reads them under a committed path."""
    scene = make_scene()
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    for number in range(FILES):
        scene.upload("main", f"zz/{number:04d}", f"text {number:04d}")
    scene.user.commit("main")
    orphans = {scene.upload("main", f"orphan-{n}", f"orphan {n:02d}") for n in range(5)}
    scene.user.reset("main")
    scene.user.set_rules(365)
    scene.lake.clock.advance(timedelta(days=2))
    server = Forgetful(scene, set())
    run_gc(scene.context(transport=as_a_real_server(server)), UNCOMMITTED, SweepRequest())
    assert not orphans & scene.present_keys()
    # A staged canary is looked up too, whichever this run has taken.
    committed = {f"zz/{number:04d}" for number in range(FILES)}
    assert not server.looked_up & committed
    assert server.longest_page < FILES
    monkeypatch.setattr(content_sums, "_LARGEST", -1)
    scene.upload("main", "orphan", "orphan !!")
    scene.user.reset("main")
    scene.lake.clock.advance(timedelta(days=2))
    server = Forgetful(scene, set())
    run_gc(scene.context(transport=as_a_real_server(server)), UNCOMMITTED, SweepRequest())
    assert server.longest_page >= FILES


def test_a_short_stretch_of_paths_is_asked_for_in_a_short_page(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two neighbours are looked up on every branch that has their range, so a whole page each time would be dear."""
    scene = make_scene()
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    for number in range(3 * FILES):
        scene.upload("main", f"zz/{number:04d}", f"text {number:04d}")
    scene.user.commit("main")
    again = {scene.upload("main", f"zz/{n:04d}", f"text {n:04d}") for n in (10, 12)}
    scene.user.set_rules(365)
    scene.lake.clock.advance(timedelta(days=2))
    server = Forgetful(scene, again)
    run_gc(scene.context(transport=as_a_real_server(server)), CLEAN, SweepRequest())
    assert again <= scene.present_keys()
    assert 0 < server.longest_page <= FILES


@pytest.mark.parametrize("e_tag", ["5" * 32, "mine-2"])
def test_a_reupload_with_an_e_tag_of_its_users_making_is_kept(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch, e_tag: str
) -> None:
    """It may look like an MD5 and be none: entries are tried before one is ruled out by its sum."""
    scene = make_scene()
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    for number in range(40):
        linked(scene, f"zz/{number:04d}", f"text {number:04d}", e_tag)
    scene.user.commit("main")
    again = linked(scene, "zz/0017", "text 0017", e_tag)
    orphan = linked(scene, "orphan", "text none", e_tag)
    scene.user.delete("main", "orphan")
    scene.user.set_rules(365)
    scene.lake.clock.advance(timedelta(days=2))
    server = as_a_real_server(Forgetful(scene, {again}))
    run_gc(scene.context(transport=server), UNCOMMITTED, SweepRequest())
    assert again in scene.present_keys()
    assert orphan not in scene.present_keys()


def test_a_reupload_in_one_part_among_many_whole_ones_is_kept(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server keeps the e_tag of a multipart upload as if it were an MD5; that entry need not be among those tried."""
    scene = make_scene()
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    monkeypatch.setattr(reuploads, "_MOST_TRIED", 2)
    monkeypatch.setattr(content_sums.random, "sample", lambda places, most: places[:most])
    for number in range(40):
        scene.upload("main", f"zz/{number:04d}", f"text {number:04d}")
    whole = hashlib.md5(b"text part", usedforsecurity=False).digest()
    e_tag = hashlib.md5(whole, usedforsecurity=False).hexdigest()
    linked(scene, "zz/in-one-part", "text part", e_tag)
    scene.user.commit("main")
    again = linked(scene, "zz/in-one-part", "text part", e_tag)
    orphan = scene.upload("main", "orphan", "text none")
    scene.user.delete("main", "orphan")
    scene.user.set_rules(365)
    scene.lake.clock.advance(timedelta(days=2))
    server = Forgetful(scene, {again})
    run_gc(scene.context(transport=as_a_real_server(server)), UNCOMMITTED, SweepRequest())
    assert again in scene.present_keys()
    assert orphan not in scene.present_keys()


def test_when_requests_would_be_too_many_all_of_the_size_are_undecided(
    crowd: tuple[Scene, set[str], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be looked at stays, and is counted as neither live nor garbage."""
    scene, orphans, again = crowd
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    monkeypatch.setattr(reuploads, "MOST_REQUESTS", 0)
    server = as_a_real_server(Forgetful(scene, again))
    assert run_gc(scene.context(transport=server), CLEAN, SweepRequest()).status is RunStatus.SWEPT
    assert again | orphans <= scene.present_keys()
    record = run_mark(scene.context(transport=server), CLEAN)
    assert record.objects["undecided"] == len(again | orphans)
    assert any("undecided" in note and "9 bytes" in note for note in record.notes)
    listed = ("live", "young", "protected", "undecided", "garbage")
    assert record.objects["listed"] == sum(record.objects[name] for name in listed)
    assert record.status is RunStatus.UNDECIDED
    assert "kept: 8 undecided" in run_text(record)


def test_garbage_that_a_sweep_cannot_look_up_is_kept_and_counted(
    crowd: tuple[Scene, set[str], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark that could look decides nothing for a sweep that can't; the next run has the rows again."""
    scene, orphans, again = crowd
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    marked = run_mark(
        scene.context(transport=as_a_real_server(Forgetful(scene, again))), UNCOMMITTED
    )
    assert orphans <= scene.marked(marked.mark_id)
    monkeypatch.setattr(reuploads, "MOST_REQUESTS", 0)
    server = as_a_real_server(Forgetful(scene, again))
    swept = run_sweep(scene.context(transport=server), marked.mark_id, SweepRequest())
    assert again | orphans <= scene.present_keys()
    assert swept.objects["kept_undecided"] == len(orphans)
    assert_adds_up(swept)
    assert not swept.revived
    assert "kept: 5 undecided" in run_text(swept)
    monkeypatch.setattr(reuploads, "MOST_REQUESTS", 1000)
    later = run_gc(
        scene.context(transport=as_a_real_server(Forgetful(scene, again))), AGED, SweepRequest()
    )
    assert later.flow == Flow.OPTIMIZED
    assert again <= scene.present_keys()
    assert not orphans & scene.present_keys()


BRANCHES = 7


@dataclass(frozen=True)
class Crowded:
    """Branches with empty files far from each other, and orphans: empty ones, and some with content."""

    scene: Scene
    again: str  # one of a rare size, uploaded again on one branch
    empty: set[str]
    full: set[str]

    def collect(self) -> RunRecord:
        server = as_a_real_server(Forgetful(self.scene, {self.again}))
        return run_gc(self.scene.context(transport=server), UNCOMMITTED, SweepRequest())


@pytest.fixture
def crowded(make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch) -> Crowded:
    scene = make_scene()
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    for number in range(200):
        scene.upload("main", f"zz/{number:04d}", "" if number % 60 == 0 else "something")
    scene.upload("main", "zz/rare", "r" * 78)
    scene.user.commit("main")
    for number in range(BRANCHES - 2):  # beside main and dev, which has none of it
        scene.user.branch(f"ci-{number}", "main")
    again = scene.upload("ci-2", "zz/rare", "r" * 78)
    contents = {f"orphan-{n}": "" for n in range(3)} | {"gone": "g" * 78, "other": "o" * 79}
    orphans = {path: scene.upload("main", path, text) for path, text in contents.items()}
    for path in contents:
        scene.user.delete("main", path)
    scene.user.set_rules(365)
    scene.lake.clock.advance(timedelta(days=2))
    full = {orphans.pop("gone"), orphans.pop("other")}
    return Crowded(scene, again, set(orphans.values()), full)


def test_a_crowded_size_does_not_keep_the_other_garbage(
    crowded: Crowded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty files of many branches can't be looked up in time: only what is empty is kept for it."""
    monkeypatch.setattr(reuploads, "MOST_REQUESTS", BRANCHES)
    monkeypatch.setattr(reuploads, "FAR", NEAR)  # no page holds two of the empty ones
    record = crowded.collect()
    present = crowded.scene.present_keys()
    assert crowded.empty | {crowded.again} <= present
    assert not crowded.full & present
    assert record.status is RunStatus.SWEPT
    assert record.objects["undecided"] == len(crowded.empty)
    assert "paths of 0 bytes" in " ".join(record.notes)
    assert "swept to the end; kept: 3 undecided" in run_text(record)
    assert_adds_up(record)


def test_entries_less_than_a_page_apart_are_listed_before_a_size_is_given_up(
    crowded: Crowded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One page of each branch answers for all its empty files."""
    monkeypatch.setattr(reuploads, "MOST_REQUESTS", 2 * BRANCHES)
    record = crowded.collect()
    present = crowded.scene.present_keys()
    assert crowded.again in present
    assert not (crowded.full | crowded.empty) & present
    assert record.objects["undecided"] == 0
    assert not any("undecided" in note for note in record.notes)


def _names_no_text(paths: list[str]) -> list[str]:
    """As a server writes paths whose bytes are not text: they sort by other bytes than those it shows."""
    return [f"zz/\ufffd{number}" if number < 3 else path for number, path in enumerate(paths)]


def _backwards(paths: list[str]) -> list[str]:
    return paths[::-1]


@pytest.mark.parametrize("spoil", [_names_no_text, _backwards])
def test_listing_out_of_order_keeps_all_of_the_size(
    crowd: tuple[Scene, set[str], set[str]],
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[list[str]], list[str]],
) -> None:
    """A page read as if it were ordered would end too soon, and what comes after it would not be seen."""
    scene, orphans, again = crowd
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    server = Forgetful(scene, again)

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        response = server(request, send)
        if not request.url.params.get("after", "").startswith("zz/same-"):
            return response
        results = response.json()["results"]
        paths = spoil([entry["path"] for entry in results])
        spoilt = [{**entry, "path": path} for entry, path in zip(results, paths, strict=True)]
        return edited_answer(response, results=spoilt)

    record = run_gc(scene.context(transport=as_a_real_server(meddle)), CLEAN, SweepRequest())
    assert again | orphans <= scene.present_keys()
    assert not {name for name in scene.left() if name.startswith("orphan")}  # of other sizes
    assert any("out of order" in note for note in record.notes)


def test_listing_that_is_not_there_though_its_branch_is_deletes_nothing(
    crowd: tuple[Scene, set[str], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a branch that went away reads nothing any more."""
    scene, orphans, again = crowd
    monkeypatch.setattr("lakesweep.collector.lakefs.checks.canaries._CANARIES", 1)
    server = Forgetful(scene, again)

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        if request.url.params.get("after", "").startswith("zz/same-"):
            return httpx.Response(404, json={"message": "not found"})
        return server(request, send)

    with pytest.raises(CatalogError):
        run_gc(scene.context(transport=as_a_real_server(meddle)), CLEAN, SweepRequest())
    assert again | orphans <= scene.present_keys()
