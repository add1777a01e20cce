"""What a setting's text may look like, and the value it stands for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, cast

from lakesweep.domain.durations import format_duration, format_time, parse_duration, parse_time
from lakesweep.errors import ConfigError

__all__ = [
    *("COUNT", "DURATION", "ID", "MARK", "MONEY", "PAIRS", "PERCENT", "SECONDS", "SWITCH", "TEXT"),
    *("TIME", "WORDS", "Kind", "choice", "split_pairs"),
]

_YES_NO = {"true": True, "1": True, "yes": True, "on": True}
_YES_NO |= {"false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Kind:
    """How a value is read and written. `metavar` is what help shows in its place."""

    metavar: str
    parse: Callable[[object], object]
    format: Callable[[object], object] = lambda value: value
    empty: object = None  # the value of an option that nobody gave and that has no default
    is_switch: bool = False
    is_negatable: bool = False  # a switch that has a `--no-` form
    is_repeated: bool = False
    is_pairs: bool = False


def choice(*words: str) -> Kind:
    """One of a few words."""

    def parse(raw: object) -> str:
        if raw in words:
            return str(raw)
        raise ConfigError(f"{raw!r} is none of {', '.join(words)}.")

    return Kind("|".join(words), parse)


def _text(raw: object) -> str:
    if isinstance(raw, str) and raw.strip():
        return raw.strip()
    raise ConfigError(f"{raw!r} is not text, or is empty.")


def _id(raw: object) -> str:
    text = _text(raw)
    if re.fullmatch(r"[A-Za-z0-9_-]{1,200}", text):
        return text
    raise ConfigError(f"{text!r} is not an id: 1 to 200 letters, digits, '-' and '_'.")


def _mark(raw: object) -> str:
    """An id, or the path of a mark's folder, which lies below `_lakefs/`; whether it is there is for a run to see."""
    text = _text(raw)
    is_path = "_lakefs/" in text and ".." not in text.split("/")
    return text if is_path else _id(text)


def _switch(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    found = _YES_NO.get(str(raw).strip().lower())
    if found is None:
        raise ConfigError(f"{raw!r} is neither true nor false.")
    return found


def _count(raw: object) -> int:
    text = str(raw).strip()
    if re.fullmatch(r"\+?\d{1,18}", text, re.ASCII) and int(text) >= 1:
        return int(text)
    raise ConfigError(f"{raw!r} is not a whole number of 1 or more.", kind="bad-number")


def _percent(raw: object) -> float:
    try:
        number = float(str(raw).strip().removesuffix("%"))
    except ValueError:
        number = -1.0
    if isinstance(raw, bool) or not 0 <= number <= 100:
        raise ConfigError(f"{raw!r} is not a percentage from 0 to 100.", kind="bad-number")
    return number


def _money(raw: object) -> float:
    text = str(raw).strip()
    if re.fullmatch(r"\d{1,12}(\.\d{1,12})?", text, re.ASCII):
        return float(text)
    raise ConfigError(f"{raw!r} is not a price such as 0.023.", kind="bad-number")


def _duration(raw: object) -> timedelta:
    return parse_duration(str(raw))


def _seconds(raw: object) -> timedelta:
    """Durations of the `…_seconds` Spark properties; elsewhere with a unit."""
    text = str(raw).strip()
    is_number = re.fullmatch(r"\d+(\.\d+)?", text)
    return parse_duration(f"{text}s" if is_number else text)


def _time(raw: object) -> datetime:
    # TOML has times and dates of its own.
    return parse_time(raw.isoformat() if isinstance(raw, date) else str(raw))


def _words(raw: object) -> tuple[str, ...]:
    """A list as it is, or one text split as a shell would (in the environment)."""
    if isinstance(raw, str):
        try:
            return tuple(shlex.split(raw))
        except ValueError as error:
            raise ConfigError(f"{raw!r} can't be split into words: {error}.") from error
    if isinstance(raw, list | tuple) and all(isinstance(word, str) for word in raw):
        return tuple(raw)
    raise ConfigError(f"{raw!r} is not a list of texts.")


def _pairs(raw: object) -> Mapping[str, str]:
    """`k=v` words, or a table (in a file)."""
    if isinstance(raw, Mapping):
        return {str(key): _pair_value(str(key), value) for key, value in raw.items()}
    return split_pairs(
        _words(raw), "A pair is written as NAME=VALUE, and one has no name or no '='."
    )


def split_pairs(words: Iterable[str], wrong: str) -> dict[str, str]:
    """`k=v` words by their names, in order. The error does not repeat a word, which may be half of a secret."""
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise ConfigError(wrong, kind="bad-pair")
        pairs[key.strip()] = value
    return pairs


def _pair_value(key: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ConfigError(f"{key!r} is neither a text, a number, true nor false.")


TEXT = Kind("TEXT", _text)
ID = Kind("ID", _id)
MARK = Kind("ID", _mark)
SWITCH = Kind("", _switch, empty=False, is_switch=True)
COUNT = Kind("N", _count)
PERCENT = Kind("PCT", _percent, lambda value: f"{value:g}")
MONEY = Kind("MONEY", _money, lambda value: f"{value:g}")
DURATION = Kind("DURATION", _duration, lambda value: format_duration(cast(timedelta, value)))
SECONDS = Kind("DURATION", _seconds, lambda value: format_duration(cast(timedelta, value)))
TIME = Kind("TIME", _time, lambda value: format_time(cast(datetime, value)))
WORDS = Kind("TEXT", _words, lambda value: list(cast(Any, value)), empty=(), is_repeated=True)
PAIRS = Kind("NAME=VALUE", _pairs, empty={}, is_repeated=True, is_pairs=True)
