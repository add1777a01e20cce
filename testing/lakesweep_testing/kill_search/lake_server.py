"""A lake server on SQLite and local files, killed after each write of a day in a repository's life."""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from lakesweep.domain.location import Location
from lakesweep.lake import context as context_module
from lakesweep.lake.kv.sqlite import SqliteKeyValueStore
from lakesweep.storage import ObjectStore, StorageOptions, open_store
from lakesweep_testing.dying import LastChange, dying_store
from lakesweep_testing.kill_search.kills import Kills
from lakesweep_testing.lake_day import Contents, Death, a_day, check_after_death
from lakesweep_testing.lakes import DyingKeyValueStore, LakeRepo

__all__ = ["kill_lake_servers"]

Result = TypeVar("Result")


class _KillingKeyValueStore(DyingKeyValueStore):
    """Counts its writes beside those of the object store, and ends its process after the last it may make."""

    def __init__(self, inner: SqliteKeyValueStore, counter: Path, die_after: int | None) -> None:
        super().__init__(inner, -1, is_written=False)
        self._counter = counter
        self._die_after = die_after

    def _write(self, write: Callable[[], Result]) -> Result:
        result = write()
        writes = int(self._counter.read_text()) + 1
        self._counter.write_text(str(writes))
        if writes == self._die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class _Server:
    """One lake's files, and what a client of its dead server remembers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counter = folder / "writes"
        self._memory = folder / "memory"

    def open(self) -> LakeRepo:
        """The repository, in a new process's view of the ref store."""
        return LakeRepo(
            kv=SqliteKeyValueStore(self.folder / "refs.db"),
            namespace="local://ns",
            data_dir=self.folder / "data",
        )

    def create(self) -> None:
        repo = self.open().create()
        repo.lake.close()

    def live_through_a_day(self, die_after: int | None) -> bool:
        """Whether a process was killed before the day's end."""
        self.counter.write_text("0")
        self._memory.write_bytes(pickle.dumps((0, {})))
        child = os.fork()
        if not child:
            self._live(die_after)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, -signal.SIGKILL), f"the server ended with {code}"
        return code != 0

    def _live(self, die_after: int | None) -> None:
        def opened(root: Location, options: StorageOptions | None = None) -> ObjectStore:
            return dying_store(open_store(root, options), LastChange(self.counter, die_after))

        with patch.object(context_module, "open_store", opened):
            repo = self.open()
            kv = repo.kv
            assert isinstance(kv, SqliteKeyValueStore)
            repo.lake = repo.server(_KillingKeyValueStore(kv, self.counter, die_after))
            memory: dict[str, Any] = {}
            for number, step in enumerate(a_day().steps, start=1):
                step.call(repo, memory)
                self._memory.write_bytes(pickle.dumps((number, memory)))

    def check(self) -> None:
        """A new server goes on where the dead one was cut short."""
        answered, memory = pickle.loads(self._memory.read_bytes())
        before: Contents = {"main": {}}
        steps = iter(a_day().steps)
        for _ in range(answered):
            before = next(steps).change(before)
        step = next(steps)
        repo = self.open()
        check_after_death(repo, memory, Death(step, before, step.change(before), steps))
        repo.lake.close()


def kill_lake_servers(share: float, seed: int) -> Kills:
    """Kill a server after each write of its ref store and of its object store."""
    kills = Kills("lake server", "a day", share, seed)
    with tempfile.TemporaryDirectory() as folder:
        whole = _new_server(Path(folder) / "whole")
        assert not whole.live_through_a_day(None)
        # After the last write the day is over, or nearly.
        for number in kills.moments(int(whole.counter.read_text()) - 1):
            with kills.after(number):
                server = _new_server(Path(folder) / str(number))
                assert server.live_through_a_day(number), "it was not killed"
                server.check()
    return kills


def _new_server(folder: Path) -> _Server:
    folder.mkdir()
    server = _Server(folder)
    server.create()
    return server
