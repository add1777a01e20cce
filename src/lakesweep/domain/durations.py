"""Durations and times as users write them: `24h`, `7d`, `PT10H`; `2024-05-01T00:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from lakesweep.errors import ConfigError

__all__ = [
    *("format_duration", "format_time", "parse_duration", "parse_http_date", "parse_time"),
    "time_of_second",
]

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # years 1 to 9999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_NUMBER = r"(\d+(?:\.\d+)?)"
_SHORT = re.compile(
    "".join(rf"(?:{_NUMBER}{unit})?" for unit in ("w", "d", "h", "m", "s")), re.ASCII
)
_ISO = re.compile(
    rf"P(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?", re.ASCII
)
_UNITS = ("weeks", "days", "hours", "minutes", "seconds")


def parse_duration(text: str) -> timedelta:
    """Read `90s`, `15m`, `24h`, `7d`, `1d12h`, `PT10H`, `P10D`. A day has 24 hours.

    Months and years have no fixed length, so they are refused, as is a number without a unit.
    """
    wanted = text.strip()
    match = _SHORT.fullmatch(wanted.lower()) or _ISO.fullmatch(wanted.upper())
    amounts = match.groups() if match else ()
    if not any(amount is not None for amount in amounts):
        raise ConfigError(
            f"{text!r} is not a duration. Write one like 90s, 15m, 24h, 7d, 1d12h, PT10H or P10D.",
            kind="bad-duration",
        )
    try:
        return timedelta(**{u: float(a) for u, a in zip(_UNITS, amounts, strict=True) if a})
    except OverflowError as error:
        raise ConfigError(f"The duration {text!r} is too long.", kind="bad-duration") from error


def format_duration(duration: timedelta) -> str:
    """Write a duration so that `parse_duration` reads it back: `1d30m`, `0s`."""
    seconds = duration / timedelta(seconds=1)
    parts = []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count:.0f}{unit}")
    if seconds or not parts:
        parts.append(f"{seconds:g}s")
    return "".join(parts)


def parse_time(text: str) -> datetime:
    """Read an ISO 8601 time. One without a zone is taken as UTC, as all our messages are."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is not a time. Write one like 2024-05-01T00:00:00Z or 2024-05-01.",
            kind="bad-time",
        ) from error
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def format_time(time: datetime) -> str:
    """Write a time in UTC with a closing `Z`; microseconds only when there are any."""
    return time.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def time_of_second(second: int) -> datetime:
    """The time that many seconds after 1970; the nearest that a time can have, where a client has told milliseconds."""
    return _EPOCH + timedelta(seconds=min(max(second, _FIRST_SECOND), _LAST_SECOND))


def parse_http_date(text: str | None) -> datetime | None:
    """The time of a `Date` header, to the second; None where there is none that can be read."""
    try:
        said = parsedate_to_datetime(text or "")
    except (TypeError, ValueError):
        return None
    return said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)
