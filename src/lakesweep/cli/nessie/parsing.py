"""Values of nessie-gc's options, as Java reads them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakesweep.domain.cutoff_policies import parse_instant
from lakesweep.errors import ConfigError

__all__ = ["ShownZone", "count", "instant", "machine_zone", "probability", "zone", "zoned_time"]

_OFFSET = re.compile(r"(?:(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?(?::?(\d\d))?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ShownZone:
    """A zone for showing times in, and its name."""

    name: str
    rules: tzinfo


def count(least: int) -> Callable[[str], int]:
    """A reader of whole numbers from `least` on."""

    def read(text: str) -> int:
        if re.fullmatch(r"[+-]?\d{1,18}", text.strip(), re.ASCII) and int(text) >= least:
            return int(text)
        raise ConfigError(f"{text!r} is not a whole number of {least} or more.", kind="bad-number")

    return read


def probability(text: str) -> float:
    """A number between 0 and 1, both excluded, as a bloom filter would need it."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise ConfigError(f"{text!r} is not a number between 0 and 1.", kind="bad-number")
    return number


def instant(text: str) -> datetime:
    """`2011-12-03T10:15:30Z`; one without an offset could mean any of 27 moments, and is refused."""
    return parse_instant(text)


def zoned_time(text: str) -> datetime:
    """As `instant`; a zone's name may follow the offset: `2011-12-03T10:15:30+01:00[Europe/Paris]`."""
    return parse_instant(re.sub(r"\[[\w/+-]+\]$", "", text.strip()))


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
