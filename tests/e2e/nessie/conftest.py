"""A fake Nessie server, tables on local files, and the collector in this process.

The loopback S3 server of the benchmarks serves tests too: it takes keys that real servers refuse.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakesweep_testing.nessie_scene import NessieScene

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[NessieScene]:
    with NessieScene(tmp_path) as made:
        yield made
