"""Deleted objects that can be brought back for a while: their bytes under another key, at which no collector looks.

An address is never used twice. What is brought back gets a new one, so that a delete of the old one that comes late, from
a process that was thought dead, hits nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from lakesweep.errors import ObjectNotFoundError
from lakesweep.lake.addresses.slices import Slices
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.errors import MissingError
from lakesweep.lake.hard_delete.queue import Dropped, dropped_fields, read_dropped
from lakesweep.lake.kv.interface import Change
from lakesweep.lake.names import path_key
from lakesweep.lake.records import decode_record, encode_record, from_micros, to_micros
from lakesweep.lake.staging.staged_values import decode_staged, encode_staged, stats_of
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.values import ObjectStats, Repository
from lakesweep.storage import DeleteStatus

_PREFIX = b"hard-delete/tombs/"
_FOLDER = "_lakefs/hard-deleted/"
_MOST_REMOVED = 1_000
ABSENT = frozenset({DeleteStatus.GONE, DeleteStatus.ALREADY_ABSENT})
"""Of a key that was to be deleted: that it is not there any more."""


@dataclass(frozen=True, slots=True)
class Tomb:
    """An object that was deleted, and until when it can be brought back."""

    dropped: Dropped
    until: datetime


@dataclass(eq=False, repr=False)
class Tombs:
    """The tombs of all repositories, each kept for the undo window that held when its object went."""

    _context: LakeContext
    _staging: Staging
    _slices: Slices

    def bury(self, repository: Repository, dropped: Dropped, now: datetime) -> Change | None:
        """Copy the bytes aside; the record to be made before they are deleted. None when there is nothing to copy."""
        if not dropped.value:
            return None
        try:
            self._context.store(repository).copy(dropped.address, _tomb_key(dropped.address))
        except ObjectNotFoundError:
            return None
        until = now + self._context.settings.undo_window
        fields = encode_record(dropped_fields(dropped))
        return Change(partition_of(repository), _key(until, dropped.address), fields)

    def all(self, repository: Repository) -> Iterator[Tomb]:
        """Every object that can be brought back, those whose time ends first before."""
        now = self._context.now()
        for key, raw in self._context.rows(repository, _PREFIX):
            tomb = _decode(key, raw)
            if now < tomb.until:
                yield tomb

    def bring_back(
        self, repository: Repository, address: str, branch_id: str = "", path: str = ""
    ) -> ObjectStats:
        """Stage the object again with the same bytes at a new address; where it was, unless said otherwise."""
        tomb = next((t for t in self.all(repository) if t.dropped.address == address), None)
        if tomb is None:
            raise MissingError(
                f"repository {repository.id} keeps no deleted object {address!r}: it was not deleted here, or its time"
                " to be brought back is over. Nothing was staged.",
                kind="tomb-not-found",
            )
        path = path or tomb.dropped.path
        key = path_key(path)
        new_address = self._slices.new_address()
        try:
            self._context.store(repository).copy(_tomb_key(address), new_address)
        except ObjectNotFoundError as gone:
            raise MissingError(
                f"the bytes of {address!r} are gone; nothing was staged", kind="tomb-not-found"
            ) from gone
        entry = replace(
            decode_staged(tomb.dropped.value),
            address=new_address,
            last_modified=self._context.now(),
            nanosecond=None,
        )
        row = (key, encode_staged(entry))
        self._staging.write(repository, branch_id or tomb.dropped.branch_id, row, if_absent=True)
        return stats_of(repository, path, entry)

    def remove_old(self, repository: Repository, now: datetime) -> None:
        """Delete what was kept long enough, in one round only so much; the record goes after its bytes.

        The bytes stay while another record names them: an object is buried again when the store did not delete it at first.
        """
        partition = partition_of(repository)
        rows = self._context.kv.page(partition, prefix=_PREFIX, limit=_MOST_REMOVED)
        over = {key: _decode(key, raw) for key, raw in rows}
        over = {key: tomb for key, tomb in over.items() if tomb.until <= now}
        needed = {tomb.dropped.address for tomb in self.all(repository)} if over else set()
        for key in [key for key, tomb in over.items() if tomb.dropped.address in needed]:
            del over[key]
            self._context.kv.delete(partition, key)
        keys = [_tomb_key(tomb.dropped.address) for tomb in over.values()]
        store = self._context.store(repository)
        for key, outcome in zip(over, store.delete_many(keys), strict=True):
            if outcome.status in ABSENT:
                self._context.kv.delete(partition, key)


def _tomb_key(address: str) -> str:
    return _FOLDER + address


def _key(until: datetime, address: str) -> bytes:
    return _PREFIX + f"{to_micros(until):016x}/{address}".encode()


def _decode(key: bytes, raw: bytes) -> Tomb:
    until = from_micros(int(key[len(_PREFIX) :].partition(b"/")[0], 16))
    return Tomb(read_dropped(decode_record(raw)), until)
