"""The hot part of a listing page, compiled: a run of `<Contents>` elements to columns.

It reads the plain form that servers send and nothing else. Whatever it does not know (entities in a key, a missing or
repeated element, an odd time) makes it give up, and the general XML parser reads that page. Every index is compared
with the buffer's end before it is used, because compiled code checks none by itself.

All compiled functions stand in this one file: numba's cache is thrown away when the file changes, and only then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_OPEN = np.frombuffer(b"<Contents>", np.uint8)
_CLOSE = np.frombuffer(b"</Contents>", np.uint8)
_KEY = np.frombuffer(b"<Key>", np.uint8)
_SIZE = np.frombuffer(b"<Size>", np.uint8)
_TIME = np.frombuffer(b"<LastModified>", np.uint8)
_ETAG = np.frombuffer(b"<ETag>", np.uint8)
_QUOT = np.frombuffer(b"&quot;", np.uint8)
_QUOT_NUMBER = np.frombuffer(b"&#34;", np.uint8)

_LESS, _GREATER, _SLASH, _AND = ord("<"), ord(">"), ord("/"), ord("&")
_PERCENT, _PLUS, _SPACE, _DOT, _ZERO = ord("%"), ord("+"), ord(" "), ord("."), ord("0")
_ONES, _HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_LESSES, _ANDS = _ONES * np.uint64(_LESS), _ONES * np.uint64(_AND)
_SLASHES, _DOTS = _ONES * np.uint64(_SLASH), _ONES * np.uint64(_DOT)
_PERCENTS, _PLUSES = _ONES * np.uint64(_PERCENT), _ONES * np.uint64(_PLUS)
_NOTHING = np.uint64(0)
_NO_TIME = -(1 << 62)
_MICROSECONDS = 1_000_000
GIVE_UP = -1

Compiled = TypeVar("Compiled", bound=Callable[..., object])


def jitted(function: Compiled) -> Compiled:
    """Compiles `function` on its first call; others may run while it does its work."""
    return cast(Compiled, numba.njit(cache=True, nogil=True)(function))


@jitted
def scan(
    text: Bytes,
    at: int,
    base: Bytes,
    is_encoded: bool,
    keys: Bytes,
    key_offsets: npt.NDArray[np.int32],
    sizes: Ints,
    times_us: Ints,
    etags: Bytes,
    etag_offsets: npt.NDArray[np.int32],
    is_odd: npt.NDArray[np.bool_],
) -> tuple[int, int]:
    """(rows, end of the run), or (`GIVE_UP`, 0)."""
    row = 0
    while _begins(text, at, _OPEN):
        if row >= len(sizes):
            return GIVE_UP, 0
        at += len(_OPEN)
        key_end, etag_end = -1, -1
        size, time_us = np.int64(-1), np.int64(_NO_TIME)
        while not _begins(text, at, _CLOSE):
            if _begins(text, at, _KEY):
                at += len(_KEY)
                stop = _find_less(text, at)
                if key_end >= 0 or stop < 0:
                    return GIVE_UP, 0
                key_end = _copy_key(text, at, stop, base, is_encoded, keys, key_offsets[row])
                if key_end < 0:
                    return GIVE_UP, 0
                is_odd[row] = _is_odd(keys, key_offsets[row], key_end)
                at = _after_close(text, stop, _KEY)
            elif _begins(text, at, _SIZE):
                at += len(_SIZE)
                stop = _find_less(text, at)
                if size >= 0 or stop < 0:
                    return GIVE_UP, 0
                size = _number(text, at, stop)
                if size < 0:
                    return GIVE_UP, 0
                at = _after_close(text, stop, _SIZE)
            elif _begins(text, at, _TIME):
                at += len(_TIME)
                stop = _find_less(text, at)
                if time_us != _NO_TIME or stop < 0:
                    return GIVE_UP, 0
                time_us = _microseconds(text, at, stop)
                if time_us == _NO_TIME:
                    return GIVE_UP, 0
                at = _after_close(text, stop, _TIME)
            elif _begins(text, at, _ETAG):
                at += len(_ETAG)
                stop = _find_less(text, at)
                if etag_end >= 0 or stop < 0:
                    return GIVE_UP, 0
                etag_end = _copy_etag(text, at, stop, etags, etag_offsets[row])
                if etag_end < 0:
                    return GIVE_UP, 0
                at = _after_close(text, stop, _ETAG)
            else:
                at = _after_other(text, at)
            if at < 0:
                return GIVE_UP, 0
        if key_end < 0 or etag_end < 0 or size < 0 or time_us == _NO_TIME:
            return GIVE_UP, 0
        key_offsets[row + 1], etag_offsets[row + 1] = key_end, etag_end
        sizes[row], times_us[row] = size, time_us
        row += 1
        at += len(_CLOSE)
    return row, at


@jitted
def _at(text: Bytes, place: int) -> int:
    """One byte. Its place becomes unsigned, because compiled code would otherwise test each for being negative."""
    return text[np.uintp(place)]  # type: ignore[no-any-return]  # an int to its compiled callers


@jitted
def _word(text: Bytes, place: int) -> np.uint64:
    """Eight bytes, the first one lowest. The caller has seen that they are there."""
    at = np.uintp(place)
    word = np.uint64(text[at])
    for number in range(1, 8):
        word |= np.uint64(text[at + np.uintp(number)]) << np.uint64(8 * number)
    return word


@jitted
def _copy_word(text: Bytes, place: int, target: Bytes, to: int) -> None:
    """Copy eight bytes. The caller has seen that they are there, and that there is room."""
    read, write = np.uintp(place), np.uintp(to)
    for number in range(8):
        target[write + np.uintp(number)] = text[read + np.uintp(number)]


@jitted
def _has(word: np.uint64, letter: np.uint64) -> bool:
    """Whether one of eight bytes is a letter, which is given eight times."""
    differs = word ^ letter
    return bool(((differs - _ONES) & ~differs & _HIGH_BITS) != _NOTHING)


@jitted
def _is_ascii_text(word: np.uint64) -> bool:
    """Whether eight bytes are ASCII without control characters."""
    is_control = (word - _ONES * np.uint64(_SPACE)) & ~word & _HIGH_BITS
    is_beyond = (word + _ONES | word) & _HIGH_BITS
    return bool((is_control | is_beyond) == _NOTHING)


@jitted
def _begins(text: Bytes, at: int, word: Bytes) -> bool:
    if at < 0 or at + len(word) > len(text):
        return False
    for offset in range(len(word)):  # noqa: SIM110 - a generator does not compile
        if _at(text, at + offset) != _at(word, offset):
            return False
    return True


@jitted
def _find_less(text: Bytes, at: int) -> int:
    """The next `<`; else -1."""
    while at + 8 <= len(text) and not _has(_word(text, at), _LESSES):
        at += 8
    for place in range(at, len(text)):
        if _at(text, place) == _LESS:
            return place
    return -1


@jitted
def _after_close(text: Bytes, at: int, opening: Bytes) -> int:
    """The place after the closing tag that belongs to `opening` and must stand at `at`; else -1."""
    if at < 0 or at + len(opening) + 1 > len(text):
        return -1
    if _at(text, at) != _LESS or _at(text, at + 1) != _SLASH:
        return -1
    for offset in range(1, len(opening)):
        if _at(text, at + 1 + offset) != _at(opening, offset):
            return -1
    return at + len(opening) + 1


@jitted
def _after_name(text: Bytes, at: int) -> int:
    """The place after an opening tag `<name>` of letters and digits alone; else -1."""
    if at < 0 or at >= len(text) or _at(text, at) != _LESS:
        return -1
    place = at + 1
    while place < len(text) and _is_letter(_at(text, place)):
        place += 1
    return (
        place + 1 if place > at + 1 and place < len(text) and _at(text, place) == _GREATER else -1
    )


@jitted
def _is_letter(letter: int) -> bool:
    return 48 <= letter <= 57 or 65 <= letter <= 90 or 97 <= letter <= 122


@jitted
def _after_text(text: Bytes, at: int) -> int:
    """The next `<` after plain ASCII text; else -1."""
    while 0 <= at < len(text) and _at(text, at) != _LESS:
        if _at(text, at) == _AND or _at(text, at) < _SPACE or _at(text, at) > 126:
            return -1
        at += 1
    return at if 0 <= at < len(text) else -1


@jitted
def _after_leaf(text: Bytes, at: int) -> int:
    """The place after `<name>text</name>`; else -1."""
    inside = _after_name(text, at)
    if inside < 0:
        return -1
    return _after_close(text, _after_text(text, inside), text[at:inside])


@jitted
def _after_other(text: Bytes, at: int) -> int:
    """The place after an element that we do not need, which may hold text or leaves; else -1."""
    inside = _after_name(text, at)
    if inside < 0:
        return -1
    opening = text[at:inside]
    place = inside
    while place >= 0:
        place = _after_text(text, place)
        end = _after_close(text, place, opening)
        if end >= 0:
            return end
        place = _after_leaf(text, place)
    return -1


@jitted
def _hex(letter: np.int64) -> np.int64:
    if 48 <= letter <= 57:
        return letter - 48
    if 65 <= letter <= 70:
        return letter - 55
    if 97 <= letter <= 102:
        return letter - 87
    return np.int64(-1)


@jitted
def _copy_key(
    text: Bytes, at: int, stop: int, base: Bytes, is_encoded: bool, keys: Bytes, to: int
) -> int:
    """Decodes the key in `text[at:stop]` to `keys[to:]` without `base`; where it ends, or -1."""
    known = 0
    while at < stop:
        if known == len(base) and at + 8 <= stop and to + 8 <= len(keys):
            word = _word(text, at)
            is_decoded = not is_encoded or not (_has(word, _PERCENTS) or _has(word, _PLUSES))
            if is_decoded and _is_ascii_text(word) and not _has(word, _ANDS):
                _copy_word(text, at, keys, to)
                at += 8
                to += 8
                continue
        letter = np.int64(_at(text, at))
        if letter == _AND or letter < _SPACE:
            return -1
        if is_encoded and letter == _PERCENT:
            if at + 2 >= stop:
                return -1
            high, low = (
                _hex(np.int64(_at(text, at + 1))),
                _hex(np.int64(_at(text, at + 2))),
            )
            if high < 0 or low < 0:
                return -1
            letter = high * 16 + low
            at += 2
        elif is_encoded and letter == _PLUS:
            letter = np.int64(_SPACE)
        at += 1
        if known < len(base):
            if letter != _at(base, known):
                return -1
            known += 1
        else:
            if to >= len(keys):
                return -1
            keys[np.uintp(to)] = letter
            to += 1
    return to if known == len(base) else -1


@jitted
def _is_odd(keys: Bytes, start: int, end: int) -> bool:
    """`keys.is_odd_key` on UTF-8."""
    length, dots, place = 0, 0, int(start)
    while place < end:
        if place + 8 <= end:
            word = _word(keys, place)
            if _is_ascii_text(word) and not (_has(word, _SLASHES) or _has(word, _DOTS)):
                length += 8
                place += 8
                continue
        letter = _at(keys, place)
        if letter < _SPACE or letter == 0x7F:
            return True
        if (
            letter >= 0xBD
            and letter <= 0xBF
            and place >= start + 2
            and _at(keys, place - 1) == 0xBF
            and _at(keys, place - 2) == 0xEF
        ):
            return True
        if letter == _SLASH:
            if length == dots and length <= 2:
                return True
            length, dots = 0, 0
        else:
            length += 1
            if letter == _DOT:
                dots += 1
        place += 1
    return length == dots and length <= 2


@jitted
def _number(text: Bytes, at: int, stop: int) -> np.int64:
    if stop <= at or stop - at > 18:
        return np.int64(-1)
    value = np.int64(0)
    for place in range(at, stop):
        digit = np.int64(_at(text, place)) - _ZERO
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
    return value


@jitted
def _microseconds(text: Bytes, at: int, stop: int) -> np.int64:
    """Of `2024-01-02T03:04:05[.678]Z` since 1970; `_NO_TIME` when it is anything else."""
    if stop - at < 20 or _at(text, stop - 1) != 90:
        return np.int64(_NO_TIME)
    if _at(text, at + 4) != 45 or _at(text, at + 7) != 45 or _at(text, at + 10) != 84:
        return np.int64(_NO_TIME)
    if _at(text, at + 13) != 58 or _at(text, at + 16) != 58:
        return np.int64(_NO_TIME)
    year, month = _number(text, at, at + 4), _number(text, at + 5, at + 7)
    day, hour = _number(text, at + 8, at + 10), _number(text, at + 11, at + 13)
    minute, second = _number(text, at + 14, at + 16), _number(text, at + 17, at + 19)
    if year < 1 or month < 1 or month > 12 or day < 1 or hour < 0 or hour > 23:
        return np.int64(_NO_TIME)
    if minute < 0 or minute > 59 or second < 0 or second > 59:
        return np.int64(_NO_TIME)
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days_in_month = 31 - (month == 4 or month == 6 or month == 9 or month == 11)
    if month == 2:
        days_in_month = 28 + is_leap
    if day > days_in_month:
        return np.int64(_NO_TIME)
    fraction = np.int64(0)
    if stop - at > 20:
        digits = stop - 1 - (at + 20)
        if _at(text, at + 19) != _DOT or digits < 1 or digits > 6:
            return np.int64(_NO_TIME)
        fraction = _number(text, at + 20, stop - 1)
        if fraction < 0:
            return np.int64(_NO_TIME)
        for _ in range(6 - digits):
            fraction *= 10
    elif stop - at != 20:
        return np.int64(_NO_TIME)
    # Days since 1970 in the civil calendar, with years that begin in March so that leap days come last.
    years = year - (1 if month <= 2 else 0)
    era = years // 400
    year_of_era = years - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    days = era * 146097 + day_of_era - 719468
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    return seconds * _MICROSECONDS + fraction


@jitted
def _copy_etag(text: Bytes, at: int, stop: int, etags: Bytes, to: int) -> int:
    """Copies the etag with its quotes; where it ends, or -1."""
    while at < stop:
        if at + 8 <= stop and to + 8 <= len(etags):
            word = _word(text, at)
            if _is_ascii_text(word) and not _has(word, _ANDS):
                _copy_word(text, at, etags, to)
                at += 8
                to += 8
                continue
        if to >= len(etags):
            return -1
        if _at(text, at) == _AND:
            etags[np.uintp(to)] = 34
            if _begins(text, at, _QUOT):
                at += len(_QUOT)
            elif _begins(text, at, _QUOT_NUMBER):
                at += len(_QUOT_NUMBER)
            else:
                return -1
        elif _at(text, at) < _SPACE or _at(text, at) > 126:
            return -1
        else:
            etags[np.uintp(to)] = _at(text, at)
            at += 1
        to += 1
    return to
