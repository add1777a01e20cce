"""A folder of objects for the third catalog, with a user's verbs."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.collector.phases import Phases
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.parquet_catalog import ParquetCatalog

OPTIONS = StorageOptions(local_fsync=False)
DAY = timedelta(days=1)


class Folder:
    """Objects, lists of live ones, and the catalog of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.target = Target(Location.parse(f"file://{root}"), OPTIONS)

    def put(self, *names: str, days_ago: float = 3) -> None:
        for name in names:
            path = self.root / "objects" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())
            then = (datetime.now(UTC) - timedelta(days=days_ago)).timestamp()
            os.utime(path, (then, then))

    def refer(self, label: str, *names: str) -> None:
        path = self.root / "live" / f"{label}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"address": [f"objects/{name}" for name in names]}), path)

    @property
    def names(self) -> set[str]:
        return {path.name for path in (self.root / "objects").iterdir()}

    @property
    def catalog(self) -> ParquetCatalog:
        engine = InProcessEngine()
        return ParquetCatalog(Resources(self.target, engine, Phases("folder"), utc_now), DAY)
