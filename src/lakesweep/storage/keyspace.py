"""Splitting one large flat prefix into ranges that can be listed side by side."""

from __future__ import annotations

import string

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
_LAST_KEY_PROBES = 64


def split_keyspace(store: ObjectStore, prefix: str, parts: int) -> list[KeyRange]:
    """Up to `parts` ranges that together hold every key under `prefix` exactly once.

    Ends are real keys, found by asking the store what follows guesses spread evenly between the first and the last
    key. Balance is a matter of luck with skewed names; completeness is not: the ranges always tile the whole prefix.
    """
    whole = KeyRange(prefix)
    if parts <= 1 or not store.backend.is_key_ordered:
        return [whole]
    first = store.first_key(prefix)
    if first is None:
        return [whole]
    last = _last_key(store, prefix, first)
    ends: list[str] = []
    for guess in _spread(first, last, parts):
        end = store.first_key(prefix, start_after=guess)
        if end is not None and first < end < last and (not ends or end > ends[-1]):
            ends.append(end)
    starts = [None, *ends]
    return [KeyRange(prefix, start, end) for start, end in zip(starts, [*ends, None], strict=True)]


def _last_key(store: ObjectStore, prefix: str, first: str) -> str:
    """A key at or near the end of `prefix`, by fixing one character after the other from the left."""
    known, base = first, prefix
    for _ in range(_LAST_KEY_PROBES):
        found = _last_with_next_character(store, prefix, base, known)
        if found is None:
            return known
        base, known = found
    return known


def _last_with_next_character(
    store: ObjectStore, prefix: str, base: str, known: str
) -> tuple[str, str] | None:
    """`base` plus its largest next character that any key has, and the first key that begins so."""
    low, high = -1, len(_ALPHABETS[-1])
    best: str | None = None
    while high - low > 1:
        middle = (low + high) // 2
        # Keys from this character on sort after (base + the character before it, extended by the largest).
        probe = base + chr(ord(_ALPHABETS[-1][middle]) - 1) + "\U0010ffff"
        key = store.first_key(prefix, start_after=probe)
        if key is not None and key.startswith(base):
            low, best = middle, key
        else:
            high = middle
    if best is None or len(best) <= len(base):
        return None
    return best[: len(base) + 1], best


def _spread(first: str, last: str, parts: int) -> list[str]:
    """`parts - 1` texts evenly between two keys, counted in the alphabet that the keys use."""
    shared = _shared_length(first, last)
    head = first[:shared]
    low_text, high_text = first[shared:], last[shared:]
    used = set(low_text[:_PLACES]) | set(high_text[:_PLACES])
    alphabet = next((letters for letters in _ALPHABETS if used <= set(letters)), _ALPHABETS[-1])
    low, high = _number(low_text, alphabet), _number(high_text, alphabet) + 1
    steps = (low + (high - low) * part // parts for part in range(1, parts))
    return [head + _text(step, alphabet) for step in steps]


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
