"""Staged re-uploads that a server does not list, among many objects of the same size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from lakesweep.errors import CatalogError
from lakesweep.formats.tables import read_uncommitted, write_uncommitted
from lakesweep.runs import reuploads
from lakesweep.runs.collect import run_gc
from lakesweep.runs.request import Flow, SweepRequest
from lakesweep.testing.scene import AGED, Scene
from lakesweep.testing.trouble import Send, as_a_real_server, edited_answer, route_of

MakeScene = Callable[..., Scene]
CLEAN = replace(AGED, flow=Flow.CLEAN)
FILES = 120
REUPLOADED = (0, 57, 119)


class Forgetful:
    """A server that does not list some staged objects; it counts what it is asked."""

    def __init__(self, scene: Scene, forgotten: set[str]) -> None:
        self._scene = scene
        self._forgotten = forgotten
        self.asked: Counter[str] = Counter()

    def __call__(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        route = route_of(request)
        self.asked[route.rsplit("/", 1)[-1]] += 1
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
    orphans = {scene.upload("main", f"orphan-{number}", "orphans!!") for number in range(5)}
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
    monkeypatch.setattr("lakesweep.runs.canaries._CANARIES", 1)
    server = Forgetful(scene, again)
    run_gc(scene.context(transport=as_a_real_server(server)), CLEAN, SweepRequest())
    present = scene.present_keys()
    assert again <= present
    assert not orphans & present
    assert server.asked["stat"] + server.asked["ls"] < FILES // 4


def test_when_requests_would_be_too_many_all_of_the_size_are_kept(
    crowd: tuple[Scene, set[str], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be looked at stays."""
    scene, orphans, again = crowd
    monkeypatch.setattr("lakesweep.runs.canaries._CANARIES", 1)
    monkeypatch.setattr(reuploads, "MOST_REQUESTS", 0)
    run_gc(
        scene.context(transport=as_a_real_server(Forgetful(scene, again))), CLEAN, SweepRequest()
    )
    assert again | orphans <= scene.present_keys()


def _names_no_text(paths: list[str]) -> list[str]:
    """As a server writes paths whose bytes are no text: they sort by other bytes than those it shows."""
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
    monkeypatch.setattr("lakesweep.runs.canaries._CANARIES", 1)
    server = Forgetful(scene, again)

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        response = server(request, send)
        if not request.url.params.get("after", "").startswith("zz/same-"):
            return response
        results = response.json()["results"]
        paths = spoil([entry["path"] for entry in results])
        spoilt = [{**entry, "path": path} for entry, path in zip(results, paths, strict=True)]
        return edited_answer(response, results=spoilt)

    run_gc(scene.context(transport=as_a_real_server(meddle)), CLEAN, SweepRequest())
    assert again | orphans <= scene.present_keys()


def test_listing_that_is_not_there_though_its_branch_is_deletes_nothing(
    crowd: tuple[Scene, set[str], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a branch that went away reads nothing any more."""
    scene, orphans, again = crowd
    monkeypatch.setattr("lakesweep.runs.canaries._CANARIES", 1)
    server = Forgetful(scene, again)

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        if request.url.params.get("after", "").startswith("zz/same-"):
            return httpx.Response(404, json={"message": "not found"})
        return server(request, send)

    with pytest.raises(CatalogError):
        run_gc(scene.context(transport=as_a_real_server(meddle)), CLEAN, SweepRequest())
    assert again | orphans <= scene.present_keys()
