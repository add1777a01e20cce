"""One collector at a time for a repository.

A lease is a numbered file made with create-if-absent; the highest number holds. Taking over a stale lease is making
the next number, which only one taker can. The owner alone rewrites its own file (to renew and to release it), so no
store needs more than create-if-absent.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.domain.durations import format_time
from lakesweep.engine.process_tree import is_process_left
from lakesweep.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    UnsafeToSweepError,
    UnsupportedStoreError,
)
from lakesweep.json_text import parse_json
from lakesweep.storage import ObjectInfo, ObjectStore

logger = logging.getLogger(__name__)

LEASES = "lease/"  # below a run's own folder
_RENEW_EVERY = timedelta(minutes=3)
# An unreadable lease may be one of the longest.
_LONGEST_LIFE = SAFETY_FULL.lease_life_for(SAFETY_FULL.longest_not_after)
# A JVM whose driver was killed takes a moment to notice, and its workers one more.
_TASKS_END_WITHIN_SECONDS = 10.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Held:
    number: int
    owner: str
    host: str
    pid: int
    purpose: str
    released: bool
    renewed_at: datetime | None
    life: timedelta = _LONGEST_LIFE
    process_tree: str = ""


class Lease:
    """Keeps other collectors off the repository while a run works. `store_time` is the store's clock when it was taken.

    `process_tree` gives the mark of the processes that the run's tasks are in (`Engine.process_tree`): whoever finds the
    run dead takes the lease over at once only where none of them is left. Else it waits out the lease's life, which is
    longer than what was authorised under it.
    """

    def __init__(
        self,
        store: ObjectStore,
        repository: str,
        purpose: str,
        *,
        folder: str = "",
        life: timedelta = SAFETY_FULL.lease_life,
        process_tree: Callable[[], str] = lambda: "",
    ) -> None:
        self._life = life
        self._process_tree = process_tree
        self._store = store
        self._clock_folder = f"{folder}clock/"
        self._folder = f"{folder}{LEASES}"
        self._repository = repository
        self._purpose = purpose
        self._owner = uuid.uuid4().hex
        self._number = 0
        self._is_left_to_run_out = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.store_time: datetime | None = None

    def __enter__(self) -> Lease:
        self._take()
        self._thread = threading.Thread(target=self._renew, name="lakesweep-lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._release()

    def renew(self, life: timedelta = timedelta(0)) -> datetime:
        """Let the lease last anew, and tell the store's time of that; refused when another collector has taken over.

        `life` makes it last longer from now on: what is about to be authorised must end before it does.
        """
        self.assert_held()
        self._life = max(self._life, life)
        renewed_at = self._time_of(self._write(released=False))
        self.assert_held()
        return renewed_at

    def assert_held(self) -> None:
        """Refuse to go on when another collector has taken over."""
        held = self._highest()
        if held.owner != self._owner:
            raise UnsafeToSweepError(
                f"The lease on {self._repository} was lost to another collector ({held.purpose} on {held.host}, process "
                f"{held.pid}). No further object was deleted. Let that run end, then `lakesweep runs resume`.",
                kind="lease-lost",
            )

    def leave_to_run_out(self) -> None:
        """Do not give the lease back at the end of its block: tasks that nobody can watch may still work under it."""
        self._is_left_to_run_out = True

    def told_holder(self, now: datetime) -> str:
        """Who holds the lease, in words, for people who wonder whether something runs; empty when nobody seems to."""
        held = self._highest()
        if held.released or held.renewed_at is None or held.renewed_at + held.life < now:
            return ""
        host = held.host.partition(" ")[0]
        at = format_time(held.renewed_at.replace(microsecond=0))
        return f"{held.purpose} on {host}, process {held.pid}, last heard of at {at}"

    def _release(self) -> None:
        if self._is_left_to_run_out:
            said = "repo#%s the lease stays until it runs out: tasks that were deleting may not have ended"
            logger.warning(said, self._repository)
            return
        try:
            if self._highest().owner == self._owner:
                self._write(released=True)
        except StorageError as failure:
            logger.warning("repo#%s the lease could not be released: %s", self._repository, failure)

    def _take(self) -> None:
        with self._clock_file() as info:
            if not self._store.can_create_if_absent(info.key):
                raise UnsupportedStoreError(
                    f"The store of {self._repository} can't create a file only if it is absent, so two collectors could run "
                    "at once. Nothing was deleted. Make sure that no other collector runs, then give --no-lease with the "
                    "repository's name.",
                    kind="no-lease",
                )
            probe = self._time_of(info)
        held = self._highest()
        if held.number and not held.released and not self._is_stale(held, probe):
            until = held.renewed_at + held.life if held.renewed_at else None
            raise UnsafeToSweepError(
                f"Another collector works on {self._repository}: {held.purpose} on {held.host}, process {held.pid}. "
                f"Nothing was deleted. Wait for it, or, if it died and its tasks may live, until its lease runs out"
                f"{f' at {format_time(until)}' if until else ''}.",
                kind="lease-held",
            )
        self._number = held.number + 1
        try:
            info = self._store.write(self._key(self._number), self._content(False), create=True)
        except ObjectExistsError as error:
            # A store that said "slow down" may have made the file all the same, and was asked again.
            if self._highest().owner != self._owner:
                raise UnsafeToSweepError(
                    f"Another collector took the lease on {self._repository} at this moment. Nothing was deleted. Run again later.",
                    kind="lease-held",
                ) from error
            info = self._store.stat(self._key(self._number))
        except StorageError:
            # The answer may be all that was lost: a lease that nobody holds must not keep the next run out.
            self._release()
            raise
        try:
            self.store_time = self._time_of(info)
            self._give_way_if_renewed(held)
            self._give_way_if_overtaken()
            self._remove_older()
        except (StorageError, UnsafeToSweepError):
            self._release()
            raise

    def _remove_older(self) -> None:
        own = self._key(self._number)
        listed = self._store.list_folder(self._folder).objects.select(["key", "last_modified"])
        older = []
        for row in listed.to_pylist():
            if row["key"] == own:
                self._refuse_other_times(row["last_modified"])
            elif row["key"] < own:
                older.append(row["key"])
        if older:
            self._store.delete_many(older)

    def _refuse_other_times(self, listed: datetime | None) -> None:
        """Refuse a store whose listings, which tell the age of what may go, have another time than its look-ups."""
        taken = self.store_time
        if listed is None or taken is None or abs(listed - taken) <= SAFETY_FULL.clock_skew:
            return
        raise UnsafeToSweepError(
            f"The store of {self._repository} gives one object the time {format_time(listed)} in a listing, and "
            f"{format_time(taken)} where it is looked up: ages can't be told by it. Nothing was deleted. Have the store "
            "tell all times in UTC.",
            kind="clock-skew",
        )

    def _give_way_if_renewed(self, held: _Held) -> None:
        """Give the lease back when its owner, taken for dead, renewed it between our look and our file.

        The owner writes and then looks who holds; we make our file and then look whether it wrote. One of us sees.
        """
        if not held.number or held.released:
            return
        found = self._store.find(self._key(held.number))
        if found is not None and found.last_modified != held.renewed_at:
            self._store.delete_many([self._key(self._number)])
            raise UnsafeToSweepError(
                f"Another collector, which seemed dead, goes on with {self._repository}: {held.purpose} on {held.host}, "
                f"process {held.pid}. Nothing was deleted. Wait for it.",
                kind="lease-held",
            )

    def _give_way_if_overtaken(self) -> None:
        """Give the lease back when a higher number is there: ours was taken, given back and removed while we asked for it.

        Whoever removes a number has made a higher one before, so this look finds it.
        """
        highest = self._highest()
        if highest.number > self._number:
            self._store.delete_many([self._key(self._number)])
            raise UnsafeToSweepError(
                f"Another collector took the lease on {self._repository} at this moment: {highest.purpose} on {highest.host}, "
                f"process {highest.pid}. Nothing was deleted. Run again later.",
                kind="lease-held",
            )

    def _renew(self) -> None:
        every = min(self._life / 5, _RENEW_EVERY).total_seconds()
        while not self._stop.wait(every):
            try:
                if self._highest().owner != self._owner:
                    return  # lost; assert_held tells the run
                self._write(released=False)
            except StorageError as failure:
                logger.warning(
                    "repo#%s the lease could not be renewed: %s", self._repository, failure
                )

    def _is_stale(self, held: _Held, now: datetime) -> bool:
        if held.renewed_at is not None and held.renewed_at + held.life < now:
            return True
        if held.host != _process_space() or _is_alive(held.pid) or not held.process_tree:
            return False
        give_up_at = time.monotonic() + _TASKS_END_WITHIN_SECONDS
        while is_process_left(held.process_tree):
            if time.monotonic() >= give_up_at:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _highest(self) -> _Held:
        keys = list(self._store.keys(self._folder))
        stems = {key: key.removeprefix(self._folder).removesuffix(".json") for key in keys}
        key = max((key for key, stem in stems.items() if stem.isdigit()), default=None)
        if key is None:
            return _Held(0, "", "", 0, "", True, None)
        number = int(stems[key])
        try:
            info = self._store.stat(key)
            values = parse_json(self._store.read(key))
            return _Held(
                number,
                str(values["owner"]),
                str(values["host"]),
                int(values["pid"]),
                str(values["purpose"]),
                bool(values["released"]),
                info.last_modified,
                timedelta(seconds=float(values.get("life_seconds", _LONGEST_LIFE.total_seconds()))),
                str(values.get("process_tree", "")),
            )
        except ObjectNotFoundError:
            # Its owner's successor removed it between listing and reading; look again.
            return self._highest()
        except (ValueError, KeyError, TypeError):
            # Being written, or damaged: treat as held until it runs out.
            renewed_at = self._store.stat(key).last_modified
            return _Held(number, "?", "?", 0, "an unreadable lease", False, renewed_at)

    def store_now(self) -> datetime:
        """The store's clock: the time it gives to an object written now."""
        with self._clock_file() as info:
            return self._time_of(info)

    @contextmanager
    def _clock_file(self) -> Iterator[ObjectInfo]:
        """An object written now, and removed at the end of the block."""
        key = f"{self._clock_folder}{self._owner}.json"
        info = self._store.write(key, b"{}")
        try:
            yield info
        finally:
            self._store.delete_many([key])

    def _time_of(self, info: ObjectInfo) -> datetime:
        time = info.last_modified or self._store.stat(info.key).last_modified
        if time is None:
            raise UnsafeToSweepError(
                f"The store of {self._repository} gives no time of modification, so the age of objects is not known. "
                "Nothing was deleted.",
                kind="no-times",
            )
        return time

    def _write(self, *, released: bool) -> ObjectInfo:
        return self._store.write(self._key(self._number), self._content(released))

    def _content(self, released: bool) -> bytes:
        values = {
            "owner": self._owner,
            "host": _process_space(),
            "pid": os.getpid(),
            "purpose": self._purpose,
            "process_tree": self._process_tree(),
            "released": released,
            "life_seconds": self._life.total_seconds(),
        }
        return json.dumps(values).encode()

    def _key(self, number: int) -> str:
        return f"{self._folder}{number:012d}.json"


class NoLease(Lease):
    """Stands in for a lease where the user vouches that no other collector runs; only the store's clock is read."""

    def __enter__(self) -> Lease:
        self.store_time = self.store_now()
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def renew(self, life: timedelta = timedelta(0)) -> datetime:
        """The store's clock now; there is no lease to renew."""
        return self.store_now()

    def assert_held(self) -> None:
        """Nothing to check: the user's word stands for the lease."""


def _process_space() -> str:
    """This host, and within it the boot, the process namespace and the user by which processes can be told.

    One user can't see the environment of another's processes, and so not whether tasks of a dead run are left.
    """
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
        parts.append(f"uid:{os.getuid()}")
    except OSError:
        # Not Linux: a host name alone can't tell containers apart, so no process is ever told to be dead.
        parts.append(uuid.uuid4().hex)
    return " ".join(parts)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
