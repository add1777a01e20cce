"""A fake Nessie server, tables on local files, and the collector in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakesweep.testing.nessie_scene import NessieScene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[NessieScene]:
    with NessieScene(tmp_path) as made:
        yield made
