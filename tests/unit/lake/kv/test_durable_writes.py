"""What the ref store acknowledged survives a power cut. Other tests do without, so this one loads the store afresh."""

from __future__ import annotations

import importlib.util
from contextlib import closing
from pathlib import Path

FULL = 2  # SQLite's number


def test_a_write_is_on_the_disk_before_it_is_acknowledged(tmp_path: Path) -> None:
    """Every connection, the writer's above all, has SQLite wait for the disk."""
    spec = importlib.util.find_spec("lakesweep.lake.kv.sqlite")
    assert spec is not None
    assert spec.loader is not None
    afresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(afresh)
    with closing(afresh.SqliteKeyValueStore(tmp_path / "refs.db")) as store:
        assert store._writer.execute("PRAGMA synchronous").fetchone() == (FULL,)
