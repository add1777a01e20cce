"""Conditional headers: read or copy only if the object is, or is not, the one the client knows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.values import ObjectStats

__all__ = [
    "check_conditions",
    "check_put_conditions",
    "is_range_current",
    "refuse_delete_conditions",
]


def check_conditions(headers: Mapping[str, str], entry: ObjectStats, *, prefix: str = "") -> None:
    """Apply `If-Match`, `If-None-Match` and their times; `prefix` is what a copy's headers have in front.

    Raises:
        S3Error: NotModified or PreconditionFailed. As in HTTP, a tag given takes the place of the time.
    """
    if_match = headers.get(f"{prefix}if-match")
    if_none_match = headers.get(f"{prefix}if-none-match")
    unmodified_since = _read_date(headers.get(f"{prefix}if-unmodified-since"))
    modified_since = _read_date(headers.get(f"{prefix}if-modified-since"))
    if if_match is not None:
        if not _names(if_match, entry.checksum):
            raise _failed("If-Match")
    elif unmodified_since and entry.mtime and _seconds(entry.mtime) > unmodified_since:
        raise _failed("If-Unmodified-Since")
    if if_none_match is not None:
        if _names(if_none_match, entry.checksum):
            raise _failed("If-None-Match") if prefix else _not_modified()
    elif modified_since and entry.mtime and _seconds(entry.mtime) <= modified_since:
        raise _failed("If-Modified-Since") if prefix else _not_modified()


def check_put_conditions(headers: Mapping[str, str]) -> bool:
    """Whether a write must find its key absent (`If-None-Match: *`); other conditions are refused."""
    for name in ("if-match", "if-modified-since", "if-unmodified-since"):
        if name in headers:
            raise S3Error("NotImplemented", f"A write with the header {name} is not implemented.")
    if_none_match = headers.get("if-none-match")
    if if_none_match is not None and if_none_match.strip() != "*":
        raise S3Error("NotImplemented", "A write is conditional on If-None-Match: * alone.")
    return if_none_match is not None


def refuse_delete_conditions(headers: Mapping[str, str]) -> None:
    """Refuse a delete on conditions: nobody would look at them, and another object than the one that is meant would go."""
    for name in headers:
        if name.startswith(("if-", "x-amz-if-")):
            raise S3Error(
                "NotImplemented",
                f"A delete with the header {name} is not implemented; nothing was deleted.",
            )


def is_range_current(headers: Mapping[str, str], entry: ObjectStats) -> bool:
    """Whether a range may be served: `If-Range` is absent or names this very object."""
    if_range = headers.get("if-range")
    if if_range is None:
        return True
    if date := _read_date(if_range):
        return entry.mtime is not None and _seconds(entry.mtime) == date
    return _names(if_range, entry.checksum)


def _names(header: str, checksum: str) -> bool:
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in header.split(",")]
    return "*" in tags or checksum in tags


def _read_date(header: str | None) -> datetime | None:
    """An HTTP date; one that can't be read counts as not given, as HTTP says."""
    if header is None:
        return None
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    return date if date.tzinfo else None


def _seconds(at: datetime) -> datetime:
    return at.replace(microsecond=0)


def _failed(condition: str) -> S3Error:
    return S3Error(
        "PreconditionFailed",
        "At least one of the pre-conditions you specified did not hold",
        Condition=condition,
    )


def _not_modified() -> S3Error:
    return S3Error("NotModified", "Not Modified")
