"""What goes wrong at one operation of a run: each access to an object store, a server or a database is counted, and one is spoiled."""

from __future__ import annotations

import errno
import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import StrEnum
from typing import TypeVar
from unittest.mock import patch

import httpx
import pyarrow as pa

from lakesweep.collector import sweep as sweep_module
from lakesweep.collector import target as target_module
from lakesweep.collector.ledger import deadline as deadline_module
from lakesweep.collector.ledger.deadline import Moment
from lakesweep.collector.nessie import places as places_module
from lakesweep.domain.location import Location
from lakesweep.errors import StorageError, ThrottledError
from lakesweep.storage import ObjectStore, StorageOptions, open_store
from lakesweep.storage.backend import Backend
from lakesweep.storage.memory import MemoryBackend, MemoryContainer
from lakesweep.storage.translate import TRANSIENT, os_errors_translated
from lakesweep.storage.values import (
    NO_TERMS,
    DeleteOutcome,
    DeleteStatus,
    DeleteTerms,
    Folder,
    ObjectInfo,
)
from lakesweep_testing.embedded import MovableClock
from lakesweep_testing.meddled_database import (
    COMMIT,
    QUERY,
    STATEMENT,
    DatabaseCall,
    through_database,
)
from lakesweep_testing.trouble import MeddlingBackend, Send

__all__ = ["QUICK", "Clocks", "Fault", "Operation", "Troubles", "faults_of"]

Result = TypeVar("Result")

OFF_BY = timedelta(hours=3)
QUICK = StorageOptions(
    max_requests_in_flight=1,  # so that operations come in nearly the same order every time
    first_pause_seconds=0.0001,
    throttle_patience_seconds=0.01,
    transient_retries=2,
)
ROWS_PER_CHUNK = 2  # so that a few objects make several chunks
SLOW_BY = timedelta(minutes=25)  # longer than any authority to delete, and than a lease


class Fault(StrEnum):
    """What can go wrong at one operation."""

    ERROR = "error"  # for good, not carried out; of a database, the connection is lost
    PASSING_ERROR = "passing error"  # once, not carried out
    TIME_OUT = "time-out"  # carried out, but no answer comes, however often it is tried
    THROTTLE = "throttle"  # "slow down", however often it is tried
    LOCKED = "lock time-out"  # of a database, however often it is tried
    TRUNCATED = "truncated page"
    BROKEN = "broken answer"  # half of the bytes of an HTTP answer
    REPEATED = "repeated page"
    EMPTY = "empty page"
    STALE = "stale read"  # as it was before the last changes
    PARTIAL_DELETE = "partial bulk delete"
    SLOW = "slow"
    DUPLICATE = "duplicate delivery"  # carried out twice
    DISK_FULL = "disk full"  # from here on
    STORE_AHEAD = "store's clock ahead"  # all clocks: from here on
    STORE_BEHIND = "store's clock behind"
    SERVER_AHEAD = "server's clock ahead"
    SERVER_BEHIND = "server's clock behind"
    DRIVER_AHEAD = "driver's clock ahead"
    DRIVER_BEHIND = "driver's clock behind"
    EXECUTOR_AHEAD = "executor's clock ahead"
    EXECUTOR_BEHIND = "executor's clock behind"


_CLOCKS = tuple(fault for fault in Fault if "clock" in fault)
_ALWAYS = (Fault.ERROR, Fault.PASSING_ERROR, Fault.TIME_OUT, Fault.SLOW, *_CLOCKS)
_REQUEST = (*_ALWAYS, Fault.THROTTLE)
_PAGES = (Fault.TRUNCATED, Fault.REPEATED, Fault.EMPTY, Fault.STALE)
_STICKY = (Fault.TIME_OUT, Fault.THROTTLE, Fault.LOCKED)
_WRITES = ("write", "copy", STATEMENT, COMMIT)
_FAULTS: Mapping[str, tuple[Fault, ...]] = {
    "list": (*_REQUEST, *_PAGES),
    "folder": (*_REQUEST, *_PAGES),
    "first-key": (*_REQUEST, Fault.EMPTY, Fault.STALE),
    "read": (*_REQUEST, *_PAGES),
    "stat": (*_REQUEST, Fault.STALE),
    "write": (*_REQUEST, Fault.DUPLICATE, Fault.DISK_FULL),
    "copy": (*_REQUEST, Fault.DUPLICATE, Fault.DISK_FULL),
    "delete": (*_REQUEST, Fault.DUPLICATE, Fault.PARTIAL_DELETE),
    "http": (*_REQUEST, *_PAGES, Fault.BROKEN, Fault.DUPLICATE),
    QUERY: (*_ALWAYS, Fault.LOCKED, Fault.TRUNCATED, Fault.EMPTY),
    STATEMENT: (*_ALWAYS, Fault.LOCKED, Fault.DISK_FULL),
    COMMIT: (*_ALWAYS, Fault.LOCKED, Fault.DISK_FULL),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One access: its kind (`list`, `read`, `http`, `query`, …), and the key, the request or the statement."""

    kind: str
    name: str


def faults_of(operation: Operation) -> tuple[Fault, ...]:
    """All that can go wrong at such an operation."""
    return _FAULTS[operation.kind]


class Clocks:
    """The clocks of a store, a server, a driver and its executors, all by one that a stage moves, until one is set wrong."""

    def __init__(self, server: MovableClock) -> None:
        self._server = server
        self._off: dict[str, timedelta] = {}
        self._server_off = timedelta(0)

    def of(self, whose: str) -> Callable[[], datetime]:
        """`store`, `server`, `driver` or `executor`."""
        if whose == "server":
            return self._server
        return lambda: self.true_time + self._off.get(whose, timedelta(0))

    @property
    def true_time(self) -> datetime:
        """What a right clock says."""
        return self._server() - self._server_off

    def moment(self) -> Moment:
        """The moment by an executor's clocks; the one that only counts is never wrong."""
        return Moment(self.of("executor")(), self.true_time.timestamp())

    def set_wrong(self, fault: Fault) -> None:
        """Set one clock hours ahead or behind."""
        whose, by = fault.split("'")[0], OFF_BY if "ahead" in fault else -OFF_BY
        if whose == "server":
            self._server.now += by
            self._server_off = by
        else:
            self._off[whose] = by

    def set_right(self) -> None:
        """All tell the true time again."""
        self._server.now -= self._server_off
        self._server_off = timedelta(0)
        self._off.clear()

    def pass_by(self, time: timedelta) -> None:
        """Let time pass, for all of them."""
        self._server.now += time


@dataclass
class Troubles:
    """One run's operations in the order they happen, with a fault at one of them."""

    clocks: Clocks
    fault: Fault | None = None
    at: int = (
        -1
    )  # strikes at the operation of this number, from 0, or the next at which the fault can happen
    at_write: str = ""  # strikes at the first write with this in its name
    stale: Mapping[str, MemoryContainer] = field(default_factory=dict)  # by name: as it was before
    stale_answers: Mapping[str, httpx.Response] = field(default_factory=dict)  # by request
    operations: list[Operation] = field(default_factory=list)
    answers: dict[str, httpx.Response] = field(
        default_factory=dict
    )  # by request, the first of each
    struck: Operation | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def strike(self, kind: str, name: str) -> Fault | None:
        """Count an operation; what is to happen to it, if anything."""
        operation = Operation(kind, name)
        with self._lock:
            number = len(self.operations)
            self.operations.append(operation)
            is_named = self.at_write and self.at_write in name and kind in _WRITES
            is_due = number >= self.at >= 0 or is_named
            if self.struck is not None or not is_due or self.fault not in faults_of(operation):
                is_same = self.fault in _STICKY and operation == self.struck
                is_full = (
                    self.fault is Fault.DISK_FULL and self.struck is not None and kind in _WRITES
                )
                return self.fault if is_same or is_full else None
            self.struck = operation
        if self.fault in _CLOCKS:
            self.clocks.set_wrong(self.fault)
            return None
        if self.fault is Fault.SLOW:
            self.clocks.pass_by(SLOW_BY)
            return None
        return self.fault

    @contextmanager
    def around(self) -> Iterator[None]:
        """Every store that a collector opens, its database, and every executor's clock meet the trouble."""

        def opened(root: Location, options: StorageOptions | None = None) -> ObjectStore:
            store = open_store(root, options)
            backend = _TroubledBackend(store.backend, root.container, self)
            return ObjectStore(root, backend, store.options, store.congestion)

        with (
            patch.object(target_module, "open_store", opened),
            patch.object(places_module, "open_store", opened),
            patch.object(deadline_module, "this_moment", self.clocks.moment),
            patch.object(sweep_module, "_ROWS_PER_CHUNK", ROWS_PER_CHUNK),
            through_database(self.carry_out),
        ):
            try:
                yield
            finally:
                self.clocks.set_right()

    def carry_out(self, call: DatabaseCall) -> None:
        """Do what a statement or a commit asks for, or what the trouble makes of it."""
        match self.strike(call.kind, call.name):
            case None:
                call.carry_out()
            case Fault.ERROR:
                _lose_connection(call)
            case Fault.TIME_OUT:
                call.carry_out()
                _lose_connection(call)
            case Fault.PASSING_ERROR:
                raise sqlite3.OperationalError("deadlock detected (injected)")
            case Fault.LOCKED:
                raise sqlite3.OperationalError("database is locked (injected)")
            case Fault.DISK_FULL:
                raise sqlite3.OperationalError("database or disk is full (injected)")
            case Fault.TRUNCATED:
                call.change_rows(lambda rows: rows[: len(rows) // 2])
            case Fault.EMPTY:
                call.change_rows(lambda rows: [])

    def answer(self, request: httpx.Request, send: Send) -> httpx.Response:
        """What comes back for a request."""
        url = request.url
        name = f"{request.method} {url.path}?{url.query.decode()}"
        fault = self.strike("http", name)
        response = self._answer(fault, name, request, send)
        for known_as in (name, name.partition("?")[0]):
            self.answers.setdefault(known_as, response)
        response.headers["date"] = format_datetime(
            self.clocks.of("server")().astimezone(UTC), usegmt=True
        )
        return response

    def _answer(
        self, fault: Fault | None, name: str, request: httpx.Request, send: Send
    ) -> httpx.Response:
        match fault:
            case Fault.ERROR:
                return httpx.Response(500, json={"message": "injected"})
            case Fault.THROTTLE:
                return httpx.Response(429, json={"message": "injected"})
            case Fault.PASSING_ERROR:
                raise httpx.ReadError("connection reset (injected)", request=request)
            case Fault.TIME_OUT:
                send(request)
                raise httpx.ReadTimeout("no answer (injected)", request=request)
            case Fault.STALE:
                path = name.partition("?")[0]
                kept = self.stale_answers.get(name) or self.stale_answers.get(path)
                if kept is not None:
                    return httpx.Response(kept.status_code, content=kept.content)
            case Fault.DUPLICATE:
                send(request)
        response = send(request)
        match fault:
            case Fault.BROKEN:
                half = response.content[: len(response.content) // 2]
                return httpx.Response(response.status_code, content=half)
            case Fault.TRUNCATED:
                return _with_lists(response, lambda items: items[: len(items) // 2])
            case Fault.REPEATED:
                return _with_lists(response, lambda items: items * 2)
            case Fault.EMPTY:
                return _with_lists(response, lambda items: [])
        return response


def _lose_connection(call: DatabaseCall) -> None:
    call.lose_connection()
    # By these words SQLAlchemy knows a connection that is gone.
    raise sqlite3.ProgrammingError("Cannot operate on a closed database. (injected)")


def _with_lists(
    response: httpx.Response, change: Callable[[list[object]], list[object]]
) -> httpx.Response:
    """An answer with its lists changed, and the counts beside them left as they are."""
    try:
        values = response.json()
    except ValueError:
        return response
    if isinstance(values, dict):
        values = {k: change(v) if isinstance(v, list) else v for k, v in values.items()}
    return httpx.Response(response.status_code, content=json.dumps(values).encode())


class _TroubledBackend(MeddlingBackend):
    """A backend whose every call is an operation of `troubles`."""

    def __init__(self, inner: Backend, container: str, troubles: Troubles) -> None:
        super().__init__(inner)
        self._troubles = troubles
        assert isinstance(inner, MemoryBackend)
        before = troubles.stale.get(container) or MemoryContainer()
        self._before_changes = MemoryBackend(before, inner._base.rstrip("/"))

    def scan(self, prefix: str, start_after: str | None) -> Iterator[pa.RecordBatch]:
        def lie(fault: Fault) -> Iterator[pa.RecordBatch]:
            if fault is Fault.STALE:
                return self._before_changes.scan(prefix, start_after)
            pages = list(self.inner.scan(prefix, start_after))
            match fault:
                case Fault.TRUNCATED:
                    return iter([page.slice(0, page.num_rows // 2) for page in pages])
                case Fault.REPEATED:
                    return iter(pages * 2)
            return iter([])

        # A generator, as those of real stores are: the request is made when the first page is asked for.
        yield from self._do("list", prefix, lambda: self.inner.scan(prefix, start_after), lie)

    def folder(self, prefix: str) -> Folder:
        def lie(fault: Fault) -> Folder:
            if fault is Fault.STALE:
                return self._before_changes.folder(prefix)
            whole = self.inner.folder(prefix)
            folders, objects = whole.folders, whole.objects
            match fault:
                case Fault.TRUNCATED:
                    half = objects.slice(0, objects.num_rows // 2)
                    return Folder(folders[: len(folders) // 2], half)
                case Fault.REPEATED:
                    return Folder(folders * 2, objects)
            return Folder((), objects.slice(0, 0))

        return self._do("folder", prefix, lambda: self.inner.folder(prefix), lie)

    def first_key(self, prefix: str, start_after: str | None) -> str | None:
        def lie(fault: Fault) -> str | None:
            if fault is Fault.STALE:
                return self._before_changes.first_key(prefix, start_after)
            return None

        return self._do("first-key", prefix, lambda: self.inner.first_key(prefix, start_after), lie)

    def get(self, key: str) -> bytes:
        return self._read(key, lambda backend: backend.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._read(key, lambda backend: backend.get_range(key, start, length))

    def stream(self, key: str) -> Iterator[bytes]:
        yield self._read(key, lambda backend: b"".join(backend.stream(key)))

    def _read(self, key: str, read: Callable[[Backend], bytes]) -> bytes:
        def lie(fault: Fault) -> bytes:
            if fault is Fault.STALE:
                return read(self._before_changes)
            data = read(self.inner)
            match fault:
                case Fault.TRUNCATED:
                    return data[: len(data) // 2]
                case Fault.REPEATED:
                    return data * 2
            return b""

        return self._do("read", key, lambda: read(self.inner), lie)

    def head(self, key: str) -> ObjectInfo:
        return self._do(
            "stat", key, lambda: self.inner.head(key), lambda _: self._before_changes.head(key)
        )

    def put(self, key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo:
        return self._do(
            "write", key, lambda: self.inner.put(key, data, create=create, if_match=if_match)
        )

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> ObjectInfo:
        data = b"".join(chunks)
        return self._do("write", key, lambda: self.inner.put_stream(key, [data]))

    def copy_from(self, source: Backend, source_key: str, target_key: str) -> bool:
        plain = source.inner if isinstance(source, MeddlingBackend) else source
        return self._do(
            "copy", target_key, lambda: self.inner.copy_from(plain, source_key, target_key)
        )

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> Sequence[DeleteOutcome]:
        def partly(fault: Fault) -> Sequence[DeleteOutcome]:
            half = len(keys) // 2
            done = self.inner.delete(keys[:half], terms) if half else []
            return [
                *done,
                *(DeleteOutcome(k, DeleteStatus.FAILED, "injected") for k in keys[half:]),
            ]

        return self._do("delete", keys[0], lambda: self.inner.delete(keys, terms), partly)

    def _do(
        self,
        kind: str,
        key: str,
        action: Callable[[], Result],
        lie: Callable[[Fault], Result] | None = None,
    ) -> Result:
        fault = self._troubles.strike(kind, key)
        match fault:
            case None:
                return action()
            case Fault.ERROR:
                raise StorageError(f"{kind} of {key!r} failed (injected).")
            case Fault.PASSING_ERROR:
                raise StorageError(f"{kind} of {key!r} broke (injected).", kind=TRANSIENT)
            case Fault.TIME_OUT:
                action()
                raise StorageError(f"{kind} of {key!r} timed out (injected).", kind=TRANSIENT)
            case Fault.THROTTLE:
                raise ThrottledError(f"{kind} of {key!r} was throttled (injected).")
            case Fault.DISK_FULL:
                with os_errors_translated(f"writing {key!r}"):
                    raise OSError(errno.ENOSPC, "No space left on device (injected)")
            case Fault.DUPLICATE:
                action()
                return action()
        assert lie is not None, f"{fault} of {kind}"
        return lie(fault)
