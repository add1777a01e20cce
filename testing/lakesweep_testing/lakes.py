"""Lakes in memory for tests: a clock that is set, short verbs for one repository, a ref store that dies on cue."""

from __future__ import annotations

import functools
import itertools
import tempfile
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from lakesweep.formats.metaranges import read_metarange
from lakesweep.formats.ranges import read_range_addresses
from lakesweep.formats.tables import read_uncommitted
from lakesweep.lake.context import LakeContext
from lakesweep.lake.kv.interface import PAGE_ROWS, Change, Held, KeyValueStore, Note, Row
from lakesweep.lake.lake import Lake
from lakesweep.lake.users.sealing import create_key_file
from lakesweep.lake.values import LakeSettings, Repository
from lakesweep.storage import ObjectStore
from lakesweep_testing.memory_kv import MemoryKeyValueStore

T = TypeVar("T")

_numbers = itertools.count()

ANYWHERE = ("mem://", "s3://", "gs://", "https://account.blob.core.windows.net/container")
"""What a lake of a test may reach, unless the test is about that."""


@functools.cache
def _key_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="lake-key-")


def make_key_file() -> Path:
    """The key file of all lakes in this process whose data folder does not exist."""
    path = Path(_key_folder().name, "secrets.key")
    if not path.exists():
        create_key_file(path)
    return path


class SetClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **how_far: float) -> None:
        """Move on by a `timedelta`'s arguments."""
        self.now += timedelta(**how_far)


class LakeRepo:
    """One repository of a lake, with the verbs that tests use most. A second `Lake` on its ref store is a second server."""

    def __init__(
        self,
        *,
        kv: KeyValueStore | None = None,
        clock: SetClock | None = None,
        namespace: str | None = None,
        repository_id: str = "repo",
        **settings: Any,
    ) -> None:
        self.kv: KeyValueStore = kv or MemoryKeyValueStore()
        self.clock = clock or SetClock()
        self.settings = LakeSettings(
            **{
                "data_dir": Path("/nonexistent/lake"),
                "key_file": make_key_file(),
                "allow_namespaces": ANYWHERE,
                "allow_imports": ANYWHERE,
                **settings,
            },
        )
        self.id = repository_id
        self.namespace = namespace or f"mem://lake-{next(_numbers)}/ns"
        self.lake = self.server()

    def server(self, kv: KeyValueStore | None = None) -> Lake:
        """Another server process's view of the same ref store."""
        return Lake(kv or self.kv, self.settings, self.clock)

    def create(self) -> LakeRepo:
        """Create the repository."""
        self.lake.repositories.create(self.id, self.namespace)
        return self

    @property
    def record(self) -> Repository:
        """The repository, as the lake's parts want it."""
        return self.lake.repositories.get(self.id)

    @property
    def store(self) -> ObjectStore:
        """The object store at the namespace."""
        context = LakeContext(self.kv, self.settings, self.clock)
        return context.open(context.locate(self.namespace))

    def put(self, path: str, content: bytes = b"data", branch: str = "main", **how: Any) -> str:
        """Upload; the address relative to the namespace."""
        stats = self.lake.objects.upload(
            self.lake.writable(self.id), branch, path, [content], **how
        )
        return self.relative(stats.physical_address)

    def read(self, path: str, ref: str = "main") -> bytes:
        """The object's bytes."""
        return b"".join(self.lake.objects.open(self.record, ref, path).chunks)

    def address(self, path: str, ref: str = "main") -> str:
        """The entry's address relative to the namespace."""
        return self.relative(self.lake.objects.stat(self.record, ref, path).physical_address)

    def relative(self, physical_address: str) -> str:
        """An address as the collector sees it."""
        return physical_address.removeprefix(self.namespace + "/")

    def commit(self, branch: str = "main", **how: Any) -> str:
        """Commit; the commit's id."""
        return self.lake.committing.commit(
            self.lake.writable(self.id), branch, how.pop("message", "m"), committer="me", **how
        ).id

    def contents(self, ref: str = "main") -> dict[str, bytes]:
        """Every path and its bytes."""
        return {path: self.read(path, ref) for path in self.paths(ref)}

    def paths(self, ref: str = "main", prefix: str = "") -> list[str]:
        """Every path, in order."""
        found: list[str] = []
        after = ""
        while True:
            page = self.lake.objects.list_page(
                self.record, ref, prefix=prefix, after=after, amount=1000
            )
            found.extend(entry.path for entry in page.results)
            if not page.has_more:
                return found
            after = page.next_offset

    def branches(self) -> list[str]:
        """Branch ids in order."""
        page = self.lake.branches.page(self.record, amount=1000, show_hidden=True)
        return [branch.id for branch in page.results]

    def uncommitted(self, between_pages: Callable[[], None] = lambda: None) -> list[str]:
        """Run prepare-uncommitted to its end; every address in its files, after checking the rows it promised."""
        page = self.lake.uncommitted_list.prepare(self.record)
        promised = page.rows_written
        while page.continuation_token is not None:
            between_pages()
            page = self.lake.uncommitted_list.prepare(self.record, page.continuation_token)
            promised += page.rows_written
        folder = f"_lakefs/retention/gc/uncommitted/{page.run_id}/uncommitted/"
        found: list[str] = []
        for batch in self.store.list(folder):
            for key in batch.column("key").to_pylist():
                found += read_uncommitted(self.store.read(key))["physical_address"].to_pylist()
        assert len(found) == promised == page.total_rows
        return found

    def committed(self) -> set[str]:
        """Every relative address in any commit, read from the store as a collector would."""
        addresses: set[str] = set()
        for metarange_id in {c.meta_range_id for c in self._all_commits() if c.meta_range_id}:
            for info in read_metarange(self.store.read(f"_lakefs/{metarange_id}")):
                data = self.store.read(f"_lakefs/{info.id}")
                batch = read_range_addresses(data, expected_count=info.count)
                addresses |= set(batch.column("address").to_pylist())
        return addresses

    def _all_commits(self) -> Iterable[Any]:
        parts = self.lake
        return list(parts.commits.all(parts.repositories.get(self.id)))


class ProcessDiedError(BaseException):
    """The process is gone. No handler of the product may catch it."""


class DyingKeyValueStore:
    """A process's connection to a ref store. The process dies at its n-th write: just before it, or just after."""

    is_remote = False

    def __init__(self, inner: KeyValueStore, dies_at: int, *, is_written: bool) -> None:
        self._inner = inner
        self._dies_at = dies_at
        self._is_written = is_written
        self.writes = 0
        self.is_dead = False

    def get(self, partition: str, key: bytes) -> bytes | None:
        self._assert_alive()
        return self._inner.get(partition, key)

    def page(
        self,
        partition: str,
        *,
        prefix: bytes = b"",
        after: bytes | None = None,
        limit: int = PAGE_ROWS,
    ) -> list[Row]:
        self._assert_alive()
        return self._inner.page(partition, prefix=prefix, after=after, limit=limit)

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        self._write(lambda: self._inner.set(partition, key, value))

    def set_if(
        self,
        partition: str,
        key: bytes,
        value: bytes,
        expected: bytes | None,
        held: Held | None = None,
    ) -> bool:
        return self._write(lambda: self._inner.set_if(partition, key, value, expected, held))

    def set_many(self, partition: str, rows: Iterable[Row]) -> None:
        complete = list(rows)
        self._write(lambda: self._inner.set_many(partition, complete))

    def change_all(
        self, changes: Sequence[Change], held: Sequence[Held] = (), *, is_durable: bool = True
    ) -> bool:
        return self._write(lambda: self._inner.change_all(changes, held, is_durable=is_durable))

    def write_over(
        self,
        partition: str,
        rows: Sequence[tuple[bytes, bytes | None]],
        note: Note,
        held: Sequence[Held] = (),
    ) -> bool:
        return self._write(lambda: self._inner.write_over(partition, rows, note, held))

    def delete(self, partition: str, key: bytes) -> None:
        self._write(lambda: self._inner.delete(partition, key))

    def delete_if(self, partition: str, key: bytes, expected: bytes) -> bool:
        return self._write(lambda: self._inner.delete_if(partition, key, expected))

    def delete_partition(self, partition: str) -> None:
        self._write(lambda: self._inner.delete_partition(partition))

    def close(self) -> None:
        """The inner store lives on: others use it."""

    def _write(self, write: Callable[[], T]) -> T:
        self._assert_alive()
        self.writes += 1
        if self.writes != self._dies_at:
            return write()
        if self._is_written:
            write()
        self.is_dead = True
        raise ProcessDiedError

    def _assert_alive(self) -> None:
        if self.is_dead:
            raise ProcessDiedError
