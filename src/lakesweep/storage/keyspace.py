"""A large prefix listed side by side: what is still to be read of it, cut by how densely the keys stood so far."""

from __future__ import annotations

import string
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.storage.store import ObjectStore
from lakesweep.storage.values import KeyRange

# Alphabets that object names are drawn from, smallest first, each in byte order.
_ALPHABETS = (
    string.digits,
    string.digits + "abcdef",
    string.digits + "abcdefghijklmnopqrstuv",
    string.digits + string.ascii_lowercase,
    string.digits + string.ascii_uppercase + string.ascii_lowercase,
    "".join(chr(code) for code in range(0x20, 0x7F)),
)
# Enough places to tell positions apart, few enough to stay exact in an int.
_PLACES = 12
_PLACES_TO_CARRY = 4
_AFTER_ALL = "\U0010ffff"
# So many folders are passed over, each for a page of its objects, before the store is asked to leave all of them out.
_MOST_PASSED_OVER = 20


def ranges_after(whole: KeyRange, first: str, last: str, parts: int) -> list[KeyRange]:
    """Up to `parts` ranges that together hold what `whole` has after `last`, every key exactly once.

    Each is as wide as the way from `first` to `last`, the keys that were read, so with even names as many keys lie in
    each of them; in the last one is all that comes after. Ends are texts, and need not be keys.
    """
    shared = _shared_length(first, last)
    # Counted names carry over: 0099 is followed by 0100.
    shared = max(last.rfind("/", 0, shared) + 1, shared - _PLACES_TO_CARRY)
    head, low, high = last[:shared], first[shared:], last[shared:]
    used = set(low[:_PLACES]) | set(high[:_PLACES])
    alphabet = next((letters for letters in _ALPHABETS if used <= set(letters)), _ALPHABETS[-1])
    at, beyond = _number(high, alphabet), len(alphabet) ** _PLACES
    width = max(1, at - _number(low, alphabet))
    ends: list[str] = []
    for step in range(1, parts):
        number = at + step * width
        end = head + _text(number, alphabet) if number < beyond else ""
        if not end or (whole.end_at is not None and end >= whole.end_at):
            break
        if end > (ends[-1] if ends else last):
            ends.append(end)
    return [
        KeyRange(whole.prefix, start, end)
        for start, end in zip([last, *ends], [*ends, whole.end_at], strict=True)
    ]


def scan_direct(store: ObjectStore, scan: KeyRange) -> Iterator[pa.RecordBatch]:
    """The objects of a range that lie directly in the folder `prefix`, of a store that lists in key order."""
    folder, after = scan.prefix, scan.start_after
    for _ in range(_MOST_PASSED_OVER):
        inside = None
        for batch in store.list(folder, start_after=after, end_at=scan.end_at):
            direct = batch.filter(pc.invert(_is_deeper(batch, folder)))
            if direct.num_rows:
                yield direct
            name, slash, _ = batch.column("key")[-1].as_py()[len(folder) :].partition("/")
            if slash:
                inside = f"{folder}{name}/"
                break
        if inside is None:
            return
        after = inside + _AFTER_ALL
    rest = store.list_folder(folder).objects
    is_wanted = pc.greater(rest.column("key"), after)
    if scan.end_at is not None:
        is_wanted = pc.and_(is_wanted, pc.less_equal(rest.column("key"), scan.end_at))
    yield rest.filter(is_wanted)


def _is_deeper(batch: pa.RecordBatch, folder: str) -> pa.Array:
    return pc.match_substring(pc.utf8_slice_codeunits(batch.column("key"), len(folder)), "/")


def _shared_length(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _number(text: str, alphabet: str) -> int:
    value = 0
    for place in range(_PLACES):
        digit = alphabet.find(text[place]) if place < len(text) else 0
        value = value * len(alphabet) + max(0, digit)
    return value


def _text(number: int, alphabet: str) -> str:
    letters: list[str] = []
    for _ in range(_PLACES):
        number, digit = divmod(number, len(alphabet))
        letters.append(alphabet[digit])
    return "".join(reversed(letters)).rstrip(alphabet[0])
