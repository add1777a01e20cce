"""Inventories of random lakes: the same garbage as by a listing, in every format, and none that changed since."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakesweep.collector.lakefs.request import Flow
from lakesweep_testing.embedded import EmbeddedLake
from lakesweep_testing.inventories import FORMATS, by, taken
from lakesweep_testing.scene import Scene, old_lake
from lakesweep_testing.user import RefusedError

_NUMBERS = itertools.count()
COUNTS = ("listed", "live", "young", "protected", "expired", "unreferenced", "garbage")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLake]:
    with old_lake(tmp_path_factory.mktemp("lake")) as lake:
        yield lake


class RandomLake(Scene):
    """A repository with something of every kind, to which chance adds more."""

    def __init__(self, lake: EmbeddedLake, chance: Random) -> None:
        super().__init__(lake, f"inventory-{next(_NUMBERS)}", each=1)
        self.chance = chance

    def act(self, times: int) -> None:
        """So many verbs of users, and of those who write past the server."""
        verbs: tuple[Callable[[], object], ...] = (
            *(self._upload,) * 5,
            *(self._commit,) * 3,
            *(self._delete, self._reset, self._branch, self._wait, self._wait, self._litter),
        )
        for _ in range(times):
            with suppress(RefusedError):
                self.chance.choice(verbs)()

    def change(self, garbage: set[str]) -> set[str]:
        """Overwrite some garbage, delete some; the addresses that a plan by an older inventory must not name."""
        touched = set()
        for address in sorted(garbage):
            what = self.chance.choice(("keep", "rewrite", "delete"))
            if what == "rewrite":
                self.put(
                    address, b"x" * self.chance.randrange(40), days_ago=self.chance.choice((2, 50))
                )
            if what == "delete":
                del self.container.objects[f"ns/{address}"]
            touched |= {address} if what != "keep" else set()
        return touched

    def _branch_name(self) -> str:
        return self.chance.choice(self.user.branches())

    def _upload(self) -> None:
        self.upload(
            self._branch_name(), self.chance.choice("abcdef"), "x" * self.chance.randrange(9)
        )

    def _commit(self) -> None:
        self.user.commit(self._branch_name())

    def _delete(self) -> None:
        self.user.delete(self._branch_name(), self.chance.choice("abcdef"))

    def _reset(self) -> None:
        self.user.reset(self._branch_name())

    def _branch(self) -> None:
        self.user.branch(f"branch-{next(_NUMBERS)}", self._branch_name())

    def _wait(self) -> None:
        self.lake.clock.advance(timedelta(hours=self.chance.choice((1, 13, 26, 60))))

    def _litter(self) -> None:
        name = self.chance.choice(("data/plain", "README", "other/x y", "data/odd//name", "d+e%"))
        self.put(f"{name}{self.chance.randrange(9)}", b"litter", days_ago=9)


@pytest.mark.slow
@pytest.mark.timeout(3600)  # examples of a nightly run take their time
@settings(
    max_examples=max(2, settings().max_examples // 25), suppress_health_check=list(HealthCheck)
)
@given(seed=st.integers(0, 2**32), files=st.integers(1, 4))
def test_an_inventory_is_a_listing(lake: EmbeddedLake, seed: int, files: int) -> None:
    """The same garbage and the same counts; and after changes, only what is there unchanged, and no live object."""
    lake.clock.advance(timedelta(days=2))
    scene = RandomLake(lake, Random(seed))
    scene.act(30)
    listed = scene.mark(by(None, flow=Flow.CLEAN))
    garbage = scene.marked(listed.mark_id)
    for kind in FORMATS:
        found = scene.mark(by(taken(scene, kind, files=files)))
        assert scene.marked(found.mark_id) == garbage, kind
        assert [found.objects[n] for n in COUNTS] == [listed.objects[n] for n in COUNTS], kind
        assert [found.bytes[n] for n in COUNTS] == [listed.bytes[n] for n in COUNTS], kind

    inventory = taken(scene, scene.chance.choice(sorted(FORMATS)), files=files)
    changed = scene.change(garbage)
    record = scene.mark(by(inventory))
    assert scene.marked(record.mark_id) == garbage - changed
    assert record.objects["rewritten"] + record.objects["vanished"] == len(changed)
    scene.close()
