"""A process that runs collections and is killed at the moment it is told to: `python -m lakesweep_testing.dying`.

It reads one order a line from stdin (JSON) and forks a child for each; the child does what the order says and ends
itself, as `kill -9` would, right after its n-th change to the store. Where the order says so, its tasks run in processes
of their own, and one of those ends instead. The answer, a line on stdout, is the child's exit status and the number of
changes that were made. Imports are paid once.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn
from unittest.mock import patch

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector import sweep as sweep_module
from lakesweep.collector import target as target_module
from lakesweep.collector.lakefs.backup_restore import run_backup, run_restore
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.collector.lakefs.context import open_repository
from lakesweep.collector.lakefs.request import MarkRequest
from lakesweep.collector.nessie import places as places_module
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.errors import LakesweepError
from lakesweep.storage import ObjectStore, StorageOptions, open_store
from lakesweep.storage.backend import Backend
from lakesweep.storage.values import NO_TERMS, DeleteOutcome, DeleteTerms, ObjectInfo
from lakesweep_testing.forking import ForkingEngine
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.trouble import MeddlingBackend
from lakesweep_testing.warmup import warm_up

__all__ = ["Collected", "DyingCollector", "LastChange", "dying_store", "dying_stores"]

# Small, so that a few objects make several chunks.
ROWS_PER_CHUNK = 2
DONE, FAILED = 0, 3
_ONE_BY_ONE = threading.Lock()


@dataclass(frozen=True, slots=True)
class Collected:
    """How a child ended: by itself (0, or 3 with an error of ours) or killed; and how many changes it had made."""

    status: int
    changes: int

    @property
    def was_killed(self) -> bool:
        return self.status == -signal.SIGKILL


class DyingCollector:
    """`with DyingCollector() as collector: collector.run(order)`; the process starts with its first order."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> DyingCollector:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(self, order: Mapping[str, object], *, die_after: int | None = None) -> Collected:
        """Run an order: server (endpoint, key, secret), repository, namespace_root, what to do."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**order, "die_after": die_after}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Collected(answer["status"], answer["changes"])


@dataclass(frozen=True, slots=True)
class LastChange:
    """Counts changes in a file, which survives the process, and kills it after the last one it may make.

    Changes of the process `but_not` are not counted: then it is a task that dies, once.
    """

    counter: Path
    die_after: int | None
    but_not: int | None = None

    def changed(self) -> None:
        """One change more."""
        if os.getpid() == self.but_not:
            return
        with _ONE_BY_ONE:  # copies are made in threads
            changes = int(self.counter.read_text()) + 1
            self.counter.write_text(str(changes))
            if changes == self.die_after:
                os.kill(os.getpid(), signal.SIGKILL)


class DyingBackend(MeddlingBackend):
    """A backend whose process dies after its last change."""

    def __init__(self, inner: Backend, last: LastChange) -> None:
        super().__init__(inner)
        self._changed = last.changed

    def put(self, key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo:
        info = super().put(key, data, create=create, if_match=if_match)
        self._changed()
        return info

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> ObjectInfo:
        info = super().put_stream(key, chunks)
        self._changed()
        return info

    def copy_from(self, source: Backend, source_key: str, target_key: str) -> bool:
        is_copied = super().copy_from(source, source_key, target_key)
        self._changed()
        return is_copied

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> list[DeleteOutcome]:
        outcomes: list[DeleteOutcome] = []
        for key in keys:  # one by one, so that it can end in the middle of a batch
            outcomes += super().delete([key], terms)
            self._changed()
        return outcomes


def obey(order: Mapping[str, Any], counter: Path) -> None:
    """Do what an order says, in this process."""
    if limit := order.get("file_limit"):
        # What is longer can't be written, as on a disk that is full.
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    is_of_tasks = order.get("who") == "executor"
    last = LastChange(counter, order["die_after"], os.getpid() if is_of_tasks else None)
    with LakeFSClient(*order["server"]) as client, dying_stores(last):
        context = open_repository(
            client,
            order["repository"],
            StorageOptions(local_fsync=False),
            ForkingEngine() if is_of_tasks else InProcessEngine(),
            namespace_root=order["namespace_root"],
        )
        to = order.get("backup_to")
        outside = Location.parse(to) if to else None
        sweeping = SweepRequest(backup_to=outside, backup_storage=StorageOptions())
        match order["do"]:
            case "gc":
                run_gc(context, MarkRequest(), sweeping)
            case "mark":
                run_mark(context, MarkRequest())
            case "sweep":
                run_sweep(context, order["mark_id"], sweeping)
            case "resume":
                run_resume(context, order["mark_id"], sweeping)
            case "backup" | "restore" as copy:
                assert outside is not None
                copying = run_backup if copy == "backup" else run_restore
                copying(context, order["mark_id"], Target(outside, StorageOptions()))


def dying_store(store: ObjectStore, last: LastChange) -> ObjectStore:
    """A store that counts its changes."""
    return ObjectStore(
        store.root, DyingBackend(store.backend, last), store.options, store.congestion
    )


@contextmanager
def dying_stores(last: LastChange) -> Iterator[None]:
    """Every store that a collector opens counts its changes."""

    def opened(root: Location, options: StorageOptions | None = None) -> ObjectStore:
        return dying_store(open_store(root, options), last)

    with (
        patch.object(target_module, "open_store", opened),
        patch.object(places_module, "open_store", opened),
        patch.object(sweep_module, "_ROWS_PER_CHUNK", ROWS_PER_CHUNK),
    ):
        yield


def main() -> None:
    """Obey orders until there are no more."""
    warm_up()  # once, and not in every child
    with tempfile.TemporaryDirectory() as folder:
        counter = Path(folder) / "changes"
        for line in sys.stdin:
            counter.write_text("0")
            order = json.loads(line)
            child = os.fork()
            if not child:
                _end_after(order, counter)
            _, status = os.waitpid(child, 0)
            answer = {
                "status": os.waitstatus_to_exitcode(status),
                "changes": int(counter.read_text()),
            }
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _end_after(order: Mapping[str, Any], counter: Path) -> NoReturn:
    """Obey, and end without flushing or closing anything that is the parent's."""
    status, said = 1, ""
    try:
        obey(order, counter)
        status = DONE
    except LakesweepError as error:
        status, said = FAILED, f"{error}\n"
    finally:
        if status == 1:
            said = traceback.format_exc()
        # Where these words go may be a file, too.
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        with suppress(OSError):
            sys.stderr.write(said)
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
