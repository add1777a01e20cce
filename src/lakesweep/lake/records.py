"""Records of the ref store as bytes. The encoding is canonical: equal records are equal bytes, as compare-and-set needs."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from lakesweep.json_text import parse_json
from lakesweep.lake.values import MAX_PAGE, Page

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DEFAULT_PAGE = 100
_MOST_PLAIN_BYTES = 700
_FIRST_PLAIN_BYTE = b"{"


def encode_record(fields: Mapping[str, Any]) -> bytes:
    """The record as canonical JSON; times are microseconds since 1970."""
    return _ENCODER.encode(fields).encode()


def encode_long_record(fields: Mapping[str, Any]) -> bytes:
    """The record, packed where it is long: who writes a thousand addresses keeps other writers waiting."""
    plain = encode_record(fields)
    return plain if len(plain) <= _MOST_PLAIN_BYTES else zlib.compress(plain, level=1)


def fields_of(value: DataclassInstance) -> dict[str, Any]:
    """The fields of a dataclass by their names, for a record."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _plain(value: object) -> object:
    """What JSON has for a value that it does not know."""
    if isinstance(value, datetime):
        return to_micros(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no place in a record")


# Made once: users wait for the records of what they do.
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain
)


def decode_record(data: bytes) -> dict[str, Any]:
    """The record's fields, of either encoding."""
    plain = data if data.startswith(_FIRST_PLAIN_BYTE) else zlib.decompress(data)
    fields: dict[str, Any] = parse_json(plain)
    return fields


def to_micros(at: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def from_micros(micros: int) -> datetime:
    """The time in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


def page_size(amount: int) -> int:
    """What a page holds when a client asks for `amount`: nothing sensible asked means 100, and 1000 is the most."""
    return min(amount, MAX_PAGE) if amount > 0 else _DEFAULT_PAGE


def cut_page(items: Iterable[tuple[str, T]], amount: int) -> Page[T]:
    """The first `amount` of (offset, item) pairs as a page that says whether there is more."""
    taken: list[tuple[str, T]] = []
    for pair in items:
        if len(taken) == amount:
            return Page(tuple(item for _, item in taken), True, taken[-1][0])
        taken.append(pair)
    return Page(tuple(item for _, item in taken))
