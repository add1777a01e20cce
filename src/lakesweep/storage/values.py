"""The values that storage takes and gives."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import repeat
from typing import NamedTuple, cast, overload

import pyarrow as pa

from lakesweep.errors import (
    LakesweepError,
    PreconditionError,
    StorageDeniedError,
    ThrottledError,
)
from lakesweep.storage.keys import odd_mask

LISTING_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", "UTC")),
        pa.field("etag", pa.string()),
        pa.field("is_odd", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What the store says about one object. `etag` is verbatim, quotes included."""

    key: str
    size: int
    last_modified: datetime | None
    etag: str | None


UNKNOWN_SIZE = -1

# A listing tells milliseconds, a look-up whole seconds.
_SAME_TIME = timedelta(seconds=1)


def is_same_object(expected: ObjectInfo, found: ObjectInfo) -> bool:
    """Whether the object that is there is the expected one. What only one of them tells is not compared; where neither
    time nor etag can be compared, it is not."""
    if expected.size not in (UNKNOWN_SIZE, found.size):
        return False
    is_told = False
    if expected.etag and found.etag:
        if expected.etag.strip('"') != found.etag.strip('"'):
            return False
        is_told = True
    if expected.last_modified and found.last_modified:
        return abs(found.last_modified - expected.last_modified) <= _SAME_TIME
    return is_told


class DeleteStatus(enum.Enum):
    """What became of one key."""

    GONE = "gone"  # absent after the call
    ALREADY_ABSENT = "already-absent"  # absent before it, where the store can tell
    DENIED = "denied"
    THROTTLED = "throttled"  # the store kept asking us to slow down; not deleted
    FAILED = "failed"
    CHANGED = "changed"  # another object than the expected one is there; kept
    NOT_TRIED = "not-tried"  # the time to delete was over before a request for it was sent


class DeleteOutcome(NamedTuple):
    """One key's fate in a bulk delete, with the store's own words where it refused.

    A tuple, because one is made for every deleted key and a frozen dataclass takes four times as long to make.
    """

    key: str
    status: DeleteStatus
    detail: str = ""


# A named tuple from a tuple, without a Python call for each of a million keys.
_outcome = cast(
    "Callable[[tuple[str, DeleteStatus, str]], DeleteOutcome]",
    partial(tuple.__new__, DeleteOutcome),
)


class DeleteOutcomes(Sequence[DeleteOutcome]):
    """One outcome for each key, in their order.

    Most keys are gone, and nothing is to be said of them: only the others have an outcome that is kept. That of a key which
    is gone is made when it is looked at, as a million of them would keep Python's collector busy.
    """

    __slots__ = ("keys", "others")

    def __init__(self, keys: Sequence[str], others: Mapping[str, DeleteOutcome]) -> None:
        self.keys = keys
        self.others = others

    @classmethod
    def of(cls, outcomes: Sequence[DeleteOutcome]) -> DeleteOutcomes:
        """These outcomes, of which none is kept that says only that its key is gone."""
        if isinstance(outcomes, cls):
            return outcomes
        others = {o.key: o for o in outcomes if o.status is not DeleteStatus.GONE or o.detail}
        return cls([outcome.key for outcome in outcomes], others)

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[DeleteOutcome]:
        if self.others:
            return map(self._of, self.keys)
        return map(_outcome, zip(self.keys, repeat(DeleteStatus.GONE), repeat("")))

    @overload
    def __getitem__(self, at: int) -> DeleteOutcome: ...
    @overload
    def __getitem__(self, at: slice) -> DeleteOutcomes: ...
    def __getitem__(self, at: int | slice) -> DeleteOutcome | DeleteOutcomes:
        return (
            DeleteOutcomes(self.keys[at], self.others)
            if isinstance(at, slice)
            else self._of(self.keys[at])
        )

    def _of(self, key: str) -> DeleteOutcome:
        return self.others.get(key) or DeleteOutcome(key, DeleteStatus.GONE)


def refused_delete(key: str, error: LakesweepError) -> DeleteOutcome:
    """The outcome of a key whose delete the store answered with an error."""
    status = DeleteStatus.FAILED
    if isinstance(error, PreconditionError):
        status = DeleteStatus.CHANGED
    elif isinstance(error, StorageDeniedError):
        status = DeleteStatus.DENIED
    elif isinstance(error, ThrottledError):
        status = DeleteStatus.THROTTLED
    return DeleteOutcome(key, status, error.message)


def forever() -> float:
    """The seconds left of a permission that does not end."""
    return math.inf


@dataclass(frozen=True, slots=True)
class DeleteTerms:
    """What a delete is bound to: no request is sent when `seconds_left()` is 0 or less, and only the version with the
    etag in `etags` is deleted, where the store's protocol carries such a condition."""

    seconds_left: Callable[[], float] = forever
    etags: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether nothing may be sent any more."""
        return self.seconds_left() <= 0


NO_TERMS = DeleteTerms()


@dataclass(frozen=True, slots=True)
class Folder:
    """One level of a listing: the folders (each ending in "/") and the objects directly in it."""

    folders: tuple[str, ...]
    objects: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys under `prefix` after `start_after` (exclusive) up to `end_at` (inclusive); None is open.

    With `most`, a listing of it may stop at the end of a page once so many keys have come.
    """

    prefix: str
    start_after: str | None = None
    end_at: str | None = None
    most: int | None = None

    @property
    def is_part(self) -> bool:
        """Whether only some of the keys under the prefix are asked for."""
        return (self.start_after, self.end_at, self.most) != (None, None, None)


def listing_batch(
    keys: Sequence[str],
    sizes: Sequence[int],
    times_us: Sequence[int | None],
    etags: Sequence[str | None],
) -> pa.RecordBatch:
    """A listing batch from plain columns; times are microseconds since 1970 in UTC."""
    key_column = pa.array(keys, pa.string())
    times = pa.array(times_us, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays(
        [
            key_column,
            pa.array(sizes, pa.int64()),
            times,
            pa.array(etags, pa.string()),
            odd_mask(key_column),
        ],
        schema=LISTING_SCHEMA,
    )


def empty_listing() -> pa.RecordBatch:
    """A listing batch with no rows."""
    return listing_batch([], [], [], [])
