"""A sweep asks the catalog that was marked: another one knows nothing of what became live."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lakesweep.collector.nessie.deferred import delete_deferred
from lakesweep.collector.nessie.expire import expire
from lakesweep.collector.nessie.identify import Marked
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.record import RunRecord
from lakesweep.errors import ConfigError, UnsafeToSweepError
from lakesweep_testing.fake_nessie import FakeNessie
from lakesweep_testing.nessie_scene import NessieScene

Ask = Callable[[FakeNessie, bool], RunRecord]


def _immediate(scene: NessieScene, marked: Marked) -> Ask:
    def ask(nessie: FakeNessie, is_moved: bool) -> RunRecord:
        request = ExpireRequest(marked.live_set_id, is_catalog_moved=is_moved)
        with nessie.client() as client:
            return expire(scene.context(), request, client)

    return ask


def _from_a_list(scene: NessieScene, marked: Marked) -> Ask:
    scene.defer(marked)

    def ask(nessie: FakeNessie, is_moved: bool) -> RunRecord:
        request = ExpireRequest(marked.live_set_id, is_catalog_moved=is_moved)
        with nessie.client() as client:
            return delete_deferred(scene.context(), request, client)

    return ask


@pytest.fixture(params=[_immediate, _from_a_list], ids=["expire", "deferred-deletes"])
def way(request: pytest.FixtureRequest) -> Callable[[NessieScene, Marked], Ask]:
    made: Callable[[NessieScene, Marked], Ask] = request.param
    return made


@pytest.fixture
def elsewhere() -> Iterator[FakeNessie]:
    """A server at another address."""
    with FakeNessie() as nessie:
        yield nessie


def _orphan(scene: NessieScene) -> str:
    orders = scene.table("orders")
    orders.append("a.parquet")
    return orders.iceberg.write_orphan("x.parquet")


def test_another_address_needs_the_users_word(
    scene: NessieScene, elsewhere: FakeNessie, way: Callable[[NessieScene, Marked], Ask]
) -> None:
    """A copy of a catalog, for tests, say, has all of its commits."""
    orphan = _orphan(scene)
    marked = scene.mark()
    ask = way(scene, marked)
    status = scene.live_sets.get(marked.live_set_id).status
    elsewhere.state = scene.nessie.state
    with pytest.raises(ConfigError, match="--catalog-moved") as refused:
        ask(elsewhere, False)
    assert refused.value.kind == "other-catalog"
    assert scene.live_sets.get(marked.live_set_id).status is status
    assert orphan in scene.files()


def test_a_catalog_that_moved_has_the_marked_commits(
    scene: NessieScene, elsewhere: FakeNessie, way: Callable[[NessieScene, Marked], Ask]
) -> None:
    """The user's word and the commits together; a reference that is gone since left its commits behind."""
    orphan = _orphan(scene)
    scene.nessie.create_branch("work")
    scene.nessie.commit("work", deletes=[("orders",)])
    ask = way(scene, scene.mark())
    scene.nessie.delete_reference("work")
    elsewhere.state = scene.nessie.state
    record = ask(elsewhere, True)
    assert orphan not in scene.files()
    assert any(elsewhere.uri in note for note in record.notes)


def test_whatever_the_user_says_a_catalog_without_the_commits_is_another(
    scene: NessieScene, elsewhere: FakeNessie, way: Callable[[NessieScene, Marked], Ask]
) -> None:
    """An empty server, or an older copy."""
    orphan = _orphan(scene)
    ask = way(scene, scene.mark())
    with pytest.raises(UnsafeToSweepError, match="does not know the commit") as refused:
        ask(elsewhere, True)
    assert refused.value.kind == "other-catalog"
    assert orphan in scene.files()


def test_a_set_of_nessie_gc_names_its_commits(
    scene: NessieScene,
    elsewhere: FakeNessie,
    way: Callable[[NessieScene, Marked], Ask],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does not say where its catalog is, and that is told by them."""
    orphan = _orphan(scene)
    ask = way(scene, scene.mark())
    monkeypatch.setattr(scene.live_sets, "facts", lambda live_set_id: None)
    with pytest.raises(UnsafeToSweepError, match="does not know the commit"):
        ask(elsewhere, False)
    assert orphan in scene.files()
    ask(scene.nessie, False)
    assert orphan not in scene.files()


def test_the_catalog_of_the_mark_is_not_asked_for_commits(scene: NessieScene) -> None:
    """At the same address it is the same."""
    _orphan(scene)
    marked = scene.mark()
    asked = len(scene.nessie.requests)
    scene.expire(marked, ask_nessie=True)
    assert not any("history" in path for _, path, _ in scene.nessie.requests[asked:])
