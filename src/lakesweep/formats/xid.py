"""xids: sortable object ids that carry their time of birth, and their mirror images, which sort newest first.

An object is called `data/<slice>/<object>`: the object by a plain xid, the slice (and every garbage-collection run) by a
descending one.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import threading
from datetime import UTC, datetime, timedelta

from lakesweep.errors import FormatError

__all__ = ["descending_xid_time", "is_xid", "new_descending_xid", "new_xid", "xid_time"]

_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
# The last character holds one bit of the id; the four bits below it are always zero.
_TEXT = re.compile(r"[0-9a-v]{19}[0g]\Z")
# Descending ids count the seconds left until the year 4000, cut to 32 bits …
_DESCENDING_EPOCH = 64_060_588_800
# … and for every moment from 1958 to 2094 the bits cut off are these.
_DESCENDING_HIGH_BITS = 14 << 32

_COUNTER_LIMIT = 1 << 24
_machine = secrets.token_bytes(3)
_counter = itertools.count(secrets.randbelow(_COUNTER_LIMIT))
_counter_lock = threading.Lock()


def new_xid(at: datetime) -> str:
    """A new id, born at `at`; ids made later in this process sort after it within the same second."""
    return _encode(_unix_seconds(at))


def new_descending_xid(at: datetime) -> str:
    """A new id that sorts before all descending ids of earlier seconds."""
    return _encode(_DESCENDING_EPOCH - _unix_seconds(at))


def xid_time(text: str) -> datetime:
    """When a plain xid was made, to the second, in UTC."""
    return _from_unix(_seconds_field(text))


def descending_xid_time(text: str) -> datetime:
    """When a descending xid (slice or run id) was made, to the second, in UTC."""
    return _from_unix(_DESCENDING_EPOCH - (_seconds_field(text) + _DESCENDING_HIGH_BITS))


def is_xid(text: str) -> bool:
    """Whether `text` has the shape of an xid of either kind."""
    return _TEXT.match(text) is not None


def _encode(seconds: int) -> str:
    with _counter_lock:
        count = next(_counter) % _COUNTER_LIMIT
    pid = os.getpid() & 0xFFFF
    raw = (
        (seconds & 0xFFFFFFFF).to_bytes(4, "big")
        + _machine
        + pid.to_bytes(2, "big")
        + count.to_bytes(3, "big")
    )
    bits = int.from_bytes(raw, "big") << 4
    return "".join(_ALPHABET[(bits >> shift) & 31] for shift in range(95, -1, -5))


def _seconds_field(text: str) -> int:
    if not is_xid(text):
        raise FormatError(
            f"{text!r} is not an xid: 20 characters of 0-9 and a-v were expected", kind="bad-xid"
        )
    bits = 0
    for character in text:
        bits = bits << 5 | _ALPHABET.index(character)
    return bits >> (100 - 32)


def _unix_seconds(at: datetime) -> int:
    if at.tzinfo is None:
        raise ValueError("an xid needs a time with a zone")
    return int(at.timestamp() // 1)


def _from_unix(seconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
