"""Two repositories in one namespace: whichever is collected, the other's data looks like garbage, so neither is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from lakesweep.collector.lakefs.checks.ownership import NOTE, refuse_shared_namespace
from lakesweep.collector.lakefs.collect import run_mark, run_sweep
from lakesweep.collector.lakefs.doctor.doctor import CheckResult, examine
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import CatalogDeniedError, LakesweepError, UnsafeToSweepError
from lakesweep_testing.scene import AGED, Scene, old_lake
from lakesweep_testing.trouble import MeddlingTransport, Send, edited_answer, route_of

MakeScene = Callable[..., Scene]
# As a neighbour of mem://NAME/ns may lie.
WHERE = {
    "equal": "mem://{}/ns",
    "inside": "mem://{}/ns/data/inner",
    "around": "mem://{}",
    "equal, with two slashes": "mem://{}//ns/",
    "equal, percent-encoded": "mem://{}/n%73",
    "inside, over dots": "mem://{}/other/../ns/data/inner",
    "around, with two slashes": "mem://{}//",
}


def with_repositories(change: Callable[[list[dict[str, object]]], None]) -> MeddlingTransport:
    """A server whose list of repositories is another one."""

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) != "GET repositories":
            return response
        answer = response.json()
        change(answer["results"])
        pagination = {**answer["pagination"], "results": len(answer["results"])}
        return edited_answer(response, results=answer["results"], pagination=pagination)

    return MeddlingTransport(meddle)


def with_neighbour(scene: Scene, where: str) -> MeddlingTransport:
    def add(results: list[dict[str, object]]) -> None:
        namespace = WHERE[where].format(scene.name)
        results.append({**results[0], "id": "neighbour", "storage_namespace": namespace})

    return with_repositories(add)


def refused(scene: Scene, action: Callable[[], object], kind: str) -> LakesweepError:
    with pytest.raises(UnsafeToSweepError) as caught:
        action()
    assert caught.value.kind == kind
    assert "Nothing was deleted." in caught.value.message
    assert scene.left() == set(scene.garbage)
    scene.assert_nothing_else_gone()
    return caught.value


@pytest.mark.parametrize("where", list(WHERE))
def test_neighbour_that_the_server_knows_ends_a_mark_and_a_sweep(scene: Scene, where: str) -> None:
    """The neighbour may have come between the mark and its sweep, so the sweep asks by itself."""
    marked = scene.mark()
    context = scene.context(transport=with_neighbour(scene, where))
    error = refused(scene, lambda: run_mark(context, AGED), "shared-namespace")
    assert "neighbour at mem://" in error.message
    context = scene.context(transport=with_neighbour(scene, where))
    refused(scene, lambda: run_sweep(context, marked.mark_id, SweepRequest()), "shared-namespace")


def test_neighbour_elsewhere_stops_nobody(scene: Scene) -> None:
    """A name that only begins alike is another place, and so is one that we can't name."""

    def add(results: list[dict[str, object]]) -> None:
        for place in (f"mem://{scene.name}/ns-2", "ftp://x"):
            results.append({**results[0], "id": place, "storage_namespace": place})

    run_mark(scene.context(transport=with_repositories(add)), AGED)


def test_list_without_the_repository_itself_is_not_believed(scene: Scene) -> None:
    """What leaves us out may leave out others."""
    context = scene.context(transport=with_repositories(lambda results: results.clear()))
    refused(scene, lambda: run_mark(context, AGED), "repository-not-listed")


def test_without_the_right_to_ask_nothing_is_done(scene: Scene) -> None:
    """The error names the right."""

    def deny(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) == "GET repositories":
            return httpx.Response(401, json={"message": "insufficient permissions"})
        return send(request)

    with pytest.raises(CatalogDeniedError, match="fs:ListRepositories"):
        run_mark(scene.context(transport=MeddlingTransport(deny)), AGED)
    assert scene.left() == set(scene.garbage)


def made_later(scene: Scene, seconds: int = 1) -> MeddlingTransport:
    """Another server with a repository of the same name in the same place, made at another time."""

    def change(results: list[dict[str, object]]) -> None:
        for result in results:
            if result["id"] == scene.name:
                result["creation_date"] = int(str(result["creation_date"])) + seconds

    return with_repositories(change)


def test_second_installation_is_refused_by_the_note_of_the_first(scene: Scene) -> None:
    """Also one whose repository has the same name, at a mark and at a sweep; the error says what to do."""
    marked = scene.mark()
    noted = json.loads(scene.store.read(NOTE))
    assert noted["repository"] == scene.name
    assert noted["server"].startswith("http")
    context = scene.context(transport=made_later(scene))
    error = refused(scene, lambda: run_mark(context, AGED), "other-owner")
    assert "deleted and made again" in error.message
    assert f"delete {NOTE}" in error.message
    context = scene.context(transport=made_later(scene))
    refused(scene, lambda: run_sweep(context, marked.mark_id, SweepRequest()), "other-owner")
    scene.store.delete_many([NOTE])
    run_sweep(scene.context(transport=made_later(scene)), marked.mark_id, SweepRequest())
    assert not scene.left()


def test_second_server_on_the_namespace_of_the_first(tmp_path: Path, scene: Scene) -> None:
    """A whole other lake: its repository has nothing in common with the first but the place."""
    scene.mark()
    with old_lake(tmp_path) as other:
        markers = {k: v for k, v in scene.container.objects.items() if k.startswith("ns/_lakefs/d")}
        for key in markers:
            del scene.container.objects[key]
        other.api.post(
            "/repositories",
            json={"name": "second", "storage_namespace": f"mem://{scene.name}/ns", "bare": True},
        ).raise_for_status()
        scene.container.objects.update(markers)
        context = scene.context()
        details = other.client.repository("second")
        repository = replace(context.repository, client=other.client, details=details)
        context = replace(context, repository=repository)
        refused(scene, lambda: run_mark(context, AGED), "other-owner")


@pytest.mark.parametrize("note", [b"", b"[]", b'{"schema": "lakesweep.owner/9"}'])
def test_note_that_can_not_be_read_is_doubt(scene: Scene, note: bytes) -> None:
    """Whoever wrote it meant to say whose the namespace is."""
    scene.store.write(NOTE, note)
    refused(scene, lambda: scene.mark(), "other-owner")


def look_for_others(scene: Scene) -> None:
    context = scene.context()
    skew = timedelta(minutes=10)
    refuse_shared_namespace(context.repository, context.resources.target, skew, claim=False)


@pytest.mark.parametrize("marker", ["_lakefs/dummy", "dummy"])
def test_marker_from_before_the_repository_is_somebody_elses(scene: Scene, marker: str) -> None:
    """A bare repository was made where one was: until somebody says that the other is gone, nothing is collected."""
    scene.store.delete_many(["_lakefs/dummy"])  # servers of long ago made the other one alone
    made = scene.lake.client.repository(scene.name).creation_date
    age = scene.lake.clock.now - made
    scene.put(marker, b"marker", days_ago=(age + timedelta(minutes=9)) / timedelta(days=1))
    look_for_others(scene)
    scene.put(marker, b"marker", days_ago=(age + timedelta(minutes=11)) / timedelta(days=1))
    with pytest.raises(UnsafeToSweepError, match=f"write {marker} again") as caught:
        look_for_others(scene)
    assert caught.value.kind == "older-marker"


@pytest.mark.parametrize("trouble", ["neighbour", "owner"])
def test_doctor_says_so_too(scene: Scene, trouble: str) -> None:
    """And leaves no note of its own."""
    if trouble == "neighbour":
        transport = with_neighbour(scene, "inside")
    else:
        scene.mark()
        transport = made_later(scene)
    context = scene.context(transport=transport)
    checks = {c.name: c for c in examine(context.repository, context.resources)}
    assert checks["other repositories"].verdict is CheckResult.WRONG
    assert (NOTE in scene.present_keys()) is (trouble == "owner")
