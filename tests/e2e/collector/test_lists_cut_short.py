"""A server that loses rows of its uncommitted list without a word, where no count of rows would tell.

The lake is larger than the sample of canaries, and what is lost lies behind as many paths as it holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from random import Random

import httpx
import pyarrow as pa
import pytest

from lakesweep.collector.lakefs.checks import canaries
from lakesweep.collector.lakefs.checks.canaries import Canary, take_canaries
from lakesweep.collector.lakefs.collect import run_mark, run_sweep
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.paths import mark_folder
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.run_files import MarkId
from lakesweep.domain.commits import BranchId
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.tables import (
    MARK_SCHEMA,
    read_uncommitted,
    write_mark,
    write_uncommitted,
)
from lakesweep_testing.scene import AGED, Scene, old_lake
from lakesweep_testing.trouble import (
    MeddlingTransport,
    Send,
    as_a_real_server,
    route_of,
    with_resources,
)

STAGED = 150
SAMPLE = 100


class BigScene(Scene):
    """A hundred and fifty staged entries on main, and three on each of four other branches."""

    def _write_history(self, each: int) -> None:
        super()._write_history(each)
        self.staged = [self.upload("main", f"staged/{n:05d}", "s") for n in range(STAGED)]
        self.on_branch: dict[str, list[str]] = {}
        for branch in ("b1", "b2", "b3", "b4"):
            self.user.branch(branch, "main")
            self.on_branch[branch] = [self.upload(branch, f"x/{n}", "b") for n in range(3)]
        self.lake.clock.advance(timedelta(days=3))


def _taken(context: RunContext) -> list[Canary]:
    return take_canaries(context.repository, context.resources.clock())


@pytest.fixture(scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BigScene]:
    with old_lake(tmp_path_factory.mktemp("lake")) as lake:
        scene = BigScene(lake, "cut-short")
        scene.keep_as_is()
        yield scene
        scene.close()


@pytest.fixture
def big(_shared: BigScene, monkeypatch: pytest.MonkeyPatch) -> BigScene:
    """The repository with a sample that is smaller than what is staged in it, in pages of forty."""
    monkeypatch.setattr(canaries, "_STAGED", SAMPLE)
    monkeypatch.setattr("lakesweep.catalogs.lakefs.client._PAGE", 40)
    _shared.rewind()
    return _shared


def losing(scene: Scene, addresses: Collection[str]) -> MeddlingTransport:
    """A real server whose list leaves out these addresses."""

    def cut(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) == "POST gc/prepare_uncommited":
            folder = f"_lakefs/retention/gc/uncommitted/{response.json()['run_id']}/"
            for key in [k for k in scene.present_keys() if k.startswith(folder)]:
                rows = read_uncommitted(scene.store.read(key))
                named = rows.column("physical_address").to_pylist()
                stay = pa.array([address not in addresses for address in named])
                scene.store.write(key, write_uncommitted(rows.filter(stay)))
        return response

    return as_a_real_server(cut)


def lost(scene: BigScene, which: str) -> set[str]:
    return set(
        {
            "all behind the sample's size": scene.staged[SAMPLE:],
            "one in ten": scene.staged[9::10],
            "one whole branch": scene.on_branch["b3"],
        }[which]
    )


CUTS = ["all behind the sample's size", "one in ten", "one whole branch"]


@pytest.mark.parametrize("which", CUTS)
def test_a_mark_notices_a_list_that_was_cut_short(big: BigScene, which: str) -> None:
    """What is staged comes out as garbage, and a canary of it says no."""
    with pytest.raises(UnsafeToSweepError) as caught:
        run_mark(big.context(transport=losing(big, lost(big, which))), AGED)
    assert caught.value.kind == "dead-canary"
    assert "nothing was deleted" in caught.value.message


@pytest.mark.parametrize("which", CUTS)
def test_a_sweep_notices_a_list_that_was_cut_short(big: BigScene, which: str) -> None:
    """Where a mark names what is staged, only the sweep's own look can tell."""
    marked = big.mark()
    gone = lost(big, which)
    name_in_mark(big, marked.mark_id, gone)
    context = big.context(transport=losing(big, gone))
    with pytest.raises(UnsafeToSweepError) as caught:
        run_sweep(context, marked.mark_id, SweepRequest())
    assert caught.value.kind == "dead-canary"
    assert big.left() == set(big.garbage)
    big.assert_nothing_else_gone()


def name_in_mark(scene: Scene, mark_id: str, addresses: Collection[str]) -> None:
    rows = [
        {
            "address": address,
            "size_bytes": 1,
            "last_modified": scene.lake.clock.now - timedelta(days=3),
            "reason": "unreferenced",
        }
        for address in addresses
    ]
    data = write_mark(pa.Table.from_pylist(rows, schema=MARK_SCHEMA))
    scene.store.write(f"{mark_folder(MarkId(mark_id))}more.parquet", data)


def test_a_whole_list_is_collected(big: BigScene) -> None:
    """Canaries of a list that lost nothing stop nobody."""
    marked = run_mark(big.context(transport=losing(big, ())), AGED)
    run_sweep(big.context(transport=losing(big, ())), marked.mark_id, SweepRequest())
    assert not big.left()
    assert {*big.staged, *itertools.chain(*big.on_branch.values())} <= big.present_keys()


def test_staged_and_committed_canaries_come_from_every_branch_and_from_anywhere(
    big: BigScene,
) -> None:
    """As many as the sample holds of what is staged, and other ones the next time."""
    taken = _taken(big.context())
    staged = [c for c in taken if not c.ref.endswith("@")]
    assert len(staged) == SAMPLE
    assert {c.ref for c in staged} == set(big.user.branches())
    assert {c.ref for c in taken if c.ref.endswith("@")}, "committed ones too"
    assert any(c.path > "staged/00100" for c in staged)
    big.lake.clock.advance(timedelta(seconds=1))
    assert {c.path for c in _taken(big.context())} != {c.path for c in taken}


def test_committed_canaries_come_from_every_head(scene: Scene) -> None:
    """Also where there are many, and not the first path of each alone."""
    for number in range(45):
        scene.user.branch(f"b{number:02d}", "main")
        for path in ("a", "m", "z"):
            scene.user.upload(f"b{number:02d}", path)
        scene.user.commit(f"b{number:02d}")
    taken = [c for c in _taken(scene.context()) if c.ref.startswith("b")]
    assert len({c.ref for c in taken}) == 45
    assert {"m", "z"} <= {c.path for c in taken}


def test_what_lies_behind_all_pages_is_looked_at_in_random_places(
    big: BigScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A branch with more staged entries than pages are read of it."""
    monkeypatch.setattr(canaries, "_MORE_PAGES", 0)
    monkeypatch.setattr(canaries, "_STAGED", 2 * STAGED)
    # Places follow from the time, so that this test says the same each time.
    context = with_resources(big.context(), clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    seen = {c.path for c in _taken(context) if c.ref == "main"}
    assert any(path > "staged/00040" for path in seen)  # a page holds forty


def test_sample_notices_one_lost_row_in_two_hundred() -> None:
    """With 99 %: of a hundred samples, hardly any misses all that a list of twenty thousand rows lost."""
    assert (1 - 1 / 200) ** canaries._STAGED < 0.01
    paths = [f"{n:05d}" for n in range(20_000)]
    gone = set(paths[-100:])
    misses = 0
    for seed in range(100):
        picked = canaries._pick({BranchId("main"): paths}, canaries._STAGED, Random(seed))
        misses += gone.isdisjoint(path for _, path in picked)
    assert misses <= 4


@pytest.mark.parametrize("at", ["diff", "objects/stat", "objects/ls"])
def test_a_branch_that_goes_away_while_canaries_are_taken_is_passed_over(
    make_scene: Callable[..., Scene], at: str
) -> None:
    """It reads nothing any more, so it has nothing to say."""
    scene = make_scene()
    scene.user.branch("short-lived", "main")
    scene.upload("short-lived", "x")
    scene.user.commit("short-lived")
    scene.upload("short-lived", "y")

    def drop(request: httpx.Request, send: Send) -> httpx.Response:
        route = route_of(request)
        if "short-lived" in route and route.endswith(at):
            scene.user.drop_branch("short-lived")
        return send(request)

    taken = _taken(scene.context(transport=MeddlingTransport(drop)))
    assert {c.ref for c in taken} >= {"main", "dev"}
    assert "short-lived" not in scene.user.branches()
