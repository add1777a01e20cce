"""A lake for all tests of certificates: each makes repositories of its own and throws them away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesweep.lake.server import LakeServer
from lakesweep.lake.values import LakeSettings


@pytest.fixture(scope="package")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    folder = tmp_path_factory.mktemp("lake")
    settings = LakeSettings(folder, allow_namespaces=("mem://",))
    with LakeServer(folder, settings=settings) as server:
        yield server
