"""What values of nessie-gc's options may look like, as Java reads them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakesweep.domain.cutoff_policies import parse_instant
from lakesweep.domain.live_sets import parse_live_set_id
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError
from lakesweep.settings.kinds import Kind, split_pairs

__all__ = [
    *("INSTANT", "LIVE_SET", "LOCATION", "NEGATABLE", "PAIRS", "PROBABILITY", "STRING", "STRINGS"),
    *("TRUE_FALSE", "ZONE", "ZONED_TIME", "ShownZone", "machine_zone", "pairs", "zone"),
]

_OFFSET = re.compile(r"(?:(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?(?::?(\d\d))?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ShownZone:
    """A zone for showing times in, and its name."""

    name: str
    rules: tzinfo


def pairs(form: str) -> Kind:
    """`k=v[,k=v]`, repeated or not, in order. `form` is what help and errors call one pair, such as NAME=VALUE."""

    def parse(raw: object) -> dict[str, str]:
        items = (item for word in _strings(raw) for item in _split(word))
        return split_pairs(items, f"write {form}; one part has no name or no '='.")

    return Kind(f"{form}[,…]", parse, empty={}, is_repeated=True, is_pairs=True)


def _split(word: str) -> list[str]:
    """The parts between commas; a comma inside double quotes does not separate."""
    return [part for part in re.findall(r'(?:[^,"]|"[^"]*"|")+', word) if part.strip()]


def _strings(raw: object) -> tuple[str, ...]:
    """All values of a repeated option; a variable holds one."""
    return tuple(map(str, raw)) if isinstance(raw, list | tuple) else (str(raw),)


def _true_or_false(raw: object) -> bool:
    word = str(raw).strip().lower()
    if word not in ("true", "false"):
        raise ConfigError(f"{raw!r} is neither true nor false.")
    return word == "true"


def _probability(raw: object) -> float:
    """A number between 0 and 1, both excluded, as a bloom filter would need it."""
    try:
        number = float(str(raw))
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise ConfigError(f"{raw!r} is not a number between 0 and 1.", kind="bad-number")
    return number


def _zoned_time(raw: object) -> datetime:
    """A time with its offset; a zone's name may follow: `2011-12-03T10:15:30+01:00[Europe/Paris]`."""
    return parse_instant(re.sub(r"\[[\w/+-]+\]$", "", str(raw).strip()))


def zone(text: str) -> ShownZone:
    """A Java zone id: `Europe/Paris`, `UTC`, `Z`, `+02:00`, `GMT+2`."""
    wanted = text.strip()
    if wanted == "Z":
        return ShownZone("Z", UTC)
    if match := _OFFSET.fullmatch(wanted):
        sign, hours, minutes, seconds = match.groups()
        offset = timedelta(
            hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0)
        ) * (-1 if sign == "-" else 1)
        if abs(offset) <= timedelta(hours=18):
            return ShownZone(wanted, timezone(offset))
    try:
        return ShownZone(wanted, ZoneInfo(wanted))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(
            f"{text!r} is not a time zone. Write one like UTC, Europe/Paris or +02:00.",
            kind="bad-zone",
        ) from error


def machine_zone(
    environment_zone: str | None = None, link: Path = Path("/etc/localtime")
) -> ShownZone:
    """The zone of this machine: the variable TZ, else what /etc/localtime points at, else the offset of now."""
    names = [(environment_zone if environment_zone is not None else os.environ.get("TZ", ""))]
    if link.is_symlink():
        names.append(str(link.resolve()).rpartition("zoneinfo/")[2])
    for name in names:
        try:
            return zone(name.removeprefix(":"))
        except ConfigError:
            continue
    rules = datetime.now().astimezone().tzinfo or UTC
    return ShownZone(str(rules), rules)


STRING = Kind("TEXT", str)
STRINGS = Kind("TEXT", _strings, empty=(), is_repeated=True)
TRUE_FALSE = Kind("", _true_or_false, empty=False, is_switch=True)
NEGATABLE = Kind("", _true_or_false, empty=False, is_switch=True, is_negatable=True)
PAIRS = pairs("NAME=VALUE")
PROBABILITY = Kind("P", _probability)
INSTANT = Kind("TIME", lambda raw: parse_instant(str(raw)))
ZONED_TIME = Kind("TIME", _zoned_time)
ZONE = Kind("ZONE", lambda raw: zone(str(raw)))
LOCATION = Kind("URI", lambda raw: Location.parse(str(raw)))
LIVE_SET = Kind("UUID", lambda raw: parse_live_set_id(str(raw)))
