"""A lake in memory with a repository that has something of every kind, put back to its first state for each test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from lakesweep.catalogs.lakefs.values import ServerProfile
from lakesweep_testing.embedded import EmbeddedLake
from lakesweep_testing.scene import Scene, old_lake

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLake]:
    with old_lake(tmp_path_factory.mktemp("lake")) as lake:
        yield lake


@pytest.fixture
def without_fences(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake as a real server is: it does not refuse to revive what a sweep is deleting."""
    monkeypatch.setattr(ServerProfile, "fences_sweeps", False)


@pytest.fixture(scope="module")
def make_scene(lake: EmbeddedLake) -> Iterator[Callable[..., Scene]]:
    """`make_scene()`: a repository of the test's own, for tests that change refs."""
    latest = lake.clock.now
    scenes: list[Scene] = []

    def make(*, each: int = 3) -> Scene:
        nonlocal latest
        # Another test may have set the clock back, and the lake's slices are as new as the lake ever was.
        latest = lake.clock.now = max(latest, lake.clock.now) + timedelta(days=30)
        scene = Scene(lake, f"scene-{next(_NUMBERS)}", each=each)
        latest = lake.clock.now
        scenes.append(scene)
        return scene

    yield make
    for scene in scenes:
        scene.close()


@pytest.fixture(scope="module")
def _shared_scene(make_scene: Callable[..., Scene]) -> Scene:
    return make_scene()


@pytest.fixture
def scene(_shared_scene: Scene) -> Scene:
    """The module's repository, all its objects as they were at first. For tests that leave refs alone."""
    _shared_scene.rewind()
    return _shared_scene
