"""A lake on local files whose collectors are killed: its state before any trouble is kept, to go back to."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pyarrow.parquet as pq

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.lake.server import LakeServer
from lakesweep.storage import StorageOptions
from lakesweep.storage.local_walk import TEMPORARY_PREFIX
from lakesweep_testing.dying import DyingCollector
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.user import User

__all__ = ["EACH", "REPOSITORY", "KilledLake"]

REPOSITORY = "killed"
EACH = 2


class KilledLake:
    """A lake on local files, on the machine's clock; the state before any trouble is kept, to go back to.

    Its refs are in SQLite, unless `db_url` names another database.
    """

    def __init__(self, folder: Path, stack: ExitStack, db_url: str | None = None) -> None:
        self.root = folder / "lake"
        self.namespace = self.root / REPOSITORY
        self.backup = folder / "backup"
        server = stack.enter_context(LakeServer(self.root, db_url=db_url))
        self.server = (server.endpoint, server.access_key_id, server.secret_access_key)
        api = stack.enter_context(
            httpx.Client(base_url=server.endpoint, auth=self.server[1:], timeout=60)
        )
        self.client = stack.enter_context(
            LakeFSClient(*self.server, sleep=lambda s: time.sleep(min(s, 0.1)))
        )
        self.collector = stack.enter_context(DyingCollector())
        self.user = User.create(api, REPOSITORY, f"local://{REPOSITORY}")
        self.live: set[Path] = set()
        self.garbage: set[Path] = set()
        self._write_history()
        self._kept = folder / "kept"
        self.keep_as_is()

    def _write_history(self) -> None:
        self.user.set_rules(5)
        self.live.add(self.upload("base"))
        expired = [self.upload(f"expired-{n}") for n in range(EACH)]
        self.user.commit("main", days=40)
        for number in range(EACH):
            self.user.delete("main", f"expired-{number}")
        self.user.commit("main", days=30)
        orphans = [self.upload(f"orphan-{n}") for n in range(EACH)]
        self.user.reset("main")
        self.live.add(self.upload("staged"))
        self.garbage |= {*expired, *orphans}

    def upload(self, path: str) -> Path:
        address = self.user.upload("main", path)
        file = self.root / address.removeprefix("local://")
        at = (datetime.now(UTC) - timedelta(days=3)).timestamp()
        os.utime(file, (at, at))
        return file

    def keep_as_is(self) -> None:
        shutil.rmtree(self._kept, ignore_errors=True)
        # Hard links keep each file what it is, its times and its place on the disk included.
        shutil.copytree(self.namespace, self._kept, copy_function=os.link)
        self._kept_copies = self.copies()

    def rewind(self) -> None:
        shutil.rmtree(self.namespace)
        shutil.copytree(self._kept, self.namespace, copy_function=os.link)
        shutil.rmtree(self.backup, ignore_errors=True)
        for address, data in self._kept_copies.items():
            (self.backup / address).parent.mkdir(parents=True, exist_ok=True)
            (self.backup / address).write_bytes(data)

    def context(self) -> RunContext:
        return open_repository(
            self.client,
            REPOSITORY,
            StorageOptions(local_fsync=False),
            InProcessEngine(),
            namespace_root=str(self.root),
        )

    def order(self, do: str, **more: str) -> dict[str, object]:
        return {
            "do": do,
            "server": self.server,
            "repository": REPOSITORY,
            "namespace_root": str(self.root),
            **more,
        }

    def left(self) -> int:
        return sum(file.exists() for file in self.garbage)

    def there(self) -> dict[str, bytes]:
        """The garbage that is left, by its address."""
        return {
            str(file.relative_to(self.namespace)): file.read_bytes()
            for file in self.garbage
            if file.exists()
        }

    def copies(self) -> dict[str, bytes]:
        """What a backup holds, by its address; a task that is killed while it copies leaves a file of which no store tells."""
        every = (file for file in self.backup.rglob("*") if file.is_file())
        files = (file for file in every if not file.name.startswith(TEMPORARY_PREFIX))
        return {str(file.relative_to(self.backup)): file.read_bytes() for file in files}

    def assert_live(self) -> None:
        assert all(file.exists() for file in self.live)

    def recorded_deletions(self) -> list[str]:
        """Every address that the events name as deleted, with repetitions."""
        folder = self.namespace / "_lakefs/retention/gc/lakesweep/events"
        files = folder.glob("*-gone-*/*.parquet")
        return [a for file in files for a in pq.read_table(file).column("address").to_pylist()]
