"""Addresses that lost a reference and wait for their review, those due first.

A record is written in the transaction that drops the reference, so that none is forgotten. It goes when the object is
gone, or when a commit that stays holds it; what is held by anything else is looked at again, later and later.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lakesweep.lake.addresses.inside import address_inside
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.kv.interface import Change
from lakesweep.lake.records import decode_record, encode_record, from_micros, to_micros
from lakesweep.lake.staging.staged_values import decode_staged
from lakesweep.lake.values import Repository

_PREFIX = b"hard-delete/queue/"
_END_OF_FIELDS = b"\n"  # JSON has none that is not escaped
_FIRST_DELAY = timedelta(minutes=1)
_LONGEST_DELAY = timedelta(days=1)
_MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class Dropped:
    """An address that lost a reference: where that was, and when. An address outside of the namespace is empty."""

    address: str
    branch_id: str
    path: str
    since: datetime
    value: bytes = b""
    """The staged value that named it; nothing for an upload that ended without an entry."""
    reviews: int = 0
    """How often a review found it held by something that may go."""
    size_bytes: int = 0
    """Of the object, once the record was read from the queue: the value tells it."""


@dataclass(frozen=True, slots=True)
class Queued:
    """A record of the queue as it was read."""

    dropped: Dropped
    due: datetime
    key: bytes
    raw: bytes


class Queue:
    """The queues of all repositories."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context

    def note(self, repository: Repository, dropped: Dropped) -> Change:
        """The record of a drop, to be made in the transaction that drops; due when readers had their time.

        An empty address stands for that of the value, which is read only when the record is due: users wait here.
        """
        return self._at(repository, dropped, dropped.since + self._context.settings.delete_grace)

    def due(self, repository: Repository, now: datetime, most: int) -> list[Queued]:
        """The records whose time has come, the longest due first."""
        rows = self._context.kv.page(partition_of(repository), prefix=_PREFIX, limit=most)
        return [self._decode(repository, *row) for row in rows if _due(row[0]) <= now]

    def has_drops(self, repository: Repository, since: datetime) -> bool:
        """Whether something was dropped since then. A record that was put off to the same time may pass for one."""
        grace = self._context.settings.delete_grace
        rows = self._context.kv.page(
            partition_of(repository), prefix=_PREFIX, after=_first_key(since + grace), limit=1
        )
        return any(_due(key) <= self._context.now() + grace for key, _ in rows)

    def all(self, repository: Repository) -> Iterator[Queued]:
        """Every record, due or not."""
        return (self._decode(repository, *row) for row in self._context.rows(repository, _PREFIX))

    def later(self, repository: Repository, queued: Queued, now: datetime) -> list[Change]:
        """The changes that put a record off: by a minute at first, by twice as long each time, at last by a day."""
        dropped = queued.dropped
        delay = min(_FIRST_DELAY * 2 ** min(dropped.reviews, 16), _LONGEST_DELAY)
        again = replace(dropped, reviews=dropped.reviews + 1)
        return [self.done(repository, queued), self._at(repository, again, now + delay)]

    def done(self, repository: Repository, queued: Queued) -> Change:
        """The change that removes a record whose address was deleted, or needs no review any more."""
        return Change(partition_of(repository), queued.key, None)

    def length_and_oldest(self, repository: Repository) -> tuple[int, datetime | None]:
        """How many records wait (counted up to a bound), and since when the one that is due first does."""
        rows = self._context.kv.page(partition_of(repository), prefix=_PREFIX, limit=_MOST_COUNTED)
        return len(rows), self._decode(repository, *rows[0]).dropped.since if rows else None

    def _at(self, repository: Repository, dropped: Dropped, due: datetime) -> Change:
        raw = _encode(dropped)
        name = hashlib.blake2b(raw, digest_size=16).hexdigest()
        key = _first_key(due) + f"/{name}".encode()
        return Change(partition_of(repository), key, raw)

    def _decode(self, repository: Repository, key: bytes, raw: bytes) -> Queued:
        fields, _, value = raw.partition(_END_OF_FIELDS)
        dropped = _dropped(decode_record(fields), value)
        if dropped.value:
            entry = decode_staged(dropped.value)
            address = dropped.address or address_inside(self._context, repository, entry)
            dropped = replace(dropped, address=address, size_bytes=entry.size)
        return Queued(dropped, _due(key), key, raw)


def _encode(dropped: Dropped) -> bytes:
    """A record of the queue: its fields, and the staged value as it is, because a user waits for this."""
    return encode_record(_fields(dropped)) + _END_OF_FIELDS + dropped.value


def _fields(dropped: Dropped) -> dict[str, Any]:
    return {
        "address": dropped.address,
        "branch": dropped.branch_id,
        "path": dropped.path,
        "since": to_micros(dropped.since),
        "reviews": dropped.reviews,
    }


def dropped_fields(dropped: Dropped) -> dict[str, Any]:
    """The fields of a queue or tomb record about a dropped address."""
    return {**_fields(dropped), "value": base64.b64encode(dropped.value).decode()}


def read_dropped(fields: Mapping[str, Any]) -> Dropped:
    """The dropped address of a record."""
    return _dropped(fields, base64.b64decode(fields["value"]))


def _dropped(fields: Mapping[str, Any], value: bytes) -> Dropped:
    return Dropped(
        fields["address"],
        fields["branch"],
        fields["path"],
        from_micros(fields["since"]),
        value,
        fields["reviews"],
    )


def _first_key(due: datetime) -> bytes:
    """The beginning of all keys of records that are due at this time; such keys sort behind it."""
    return _PREFIX + f"{to_micros(due):016x}".encode()


def _due(key: bytes) -> datetime:
    return from_micros(int(key[len(_PREFIX) :].partition(b"/")[0], 16))
