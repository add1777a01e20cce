"""Values to rows of nessie-gc's tables and back. What a column would change is refused before it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from lakesweep.catalogs.nessie.live_sets.schema import (
    CONTENTS,
    DEFERRED,
    FACTS,
    LOCATIONS,
    TableShape,
)
from lakesweep.domain.live_sets import (
    ContentKind,
    ContentReference,
    DeferredFile,
    LiveSet,
    LiveSetId,
    LiveSetStatus,
    decode_content_key,
    encode_content_key,
)
from lakesweep.errors import FormatError, UnsafeToSweepError

__all__ = [
    "Row",
    "content_row",
    "deferred_row",
    "fact_rows",
    "location_row",
    "naive_utc",
    "read_content",
    "read_deferred",
    "read_kind",
    "read_live_set",
]

Row = dict[str, Any]

# Fits MariaDB's TEXT (65,535 bytes) whatever the characters are.
_FACT_PART_LENGTH = 16_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def content_row(live_set_id: LiveSetId, reference: ContentReference) -> Row:
    return _checked(
        CONTENTS,
        {
            "live_set_id": live_set_id,
            "content_id": reference.content_id,
            "commit_id": reference.commit_id,
            "content_key": encode_content_key(reference.content_key),
            "content_type": reference.content_type.value,
            "metadata_location": reference.metadata_location,
            "snapshot_id": reference.snapshot_id,
        },
    )


def location_row(live_set_id: LiveSetId, content_id: str, base_location: str) -> Row:
    return _checked(
        LOCATIONS,
        {"live_set_id": live_set_id, "content_id": content_id, "base_location": base_location},
    )


def deferred_row(live_set_id: LiveSetId, file: DeferredFile) -> Row:
    modified = file.modified_at
    return _checked(
        DEFERRED,
        {
            "live_set_id": live_set_id,
            "base_uri": file.base_uri,
            "path_uri": file.path_uri,
            "modification_timestamp": None
            if modified is None
            else (modified - _EPOCH) // timedelta(milliseconds=1),
        },
    )


def fact_rows(live_set_id: LiveSetId, fact: str, text: str) -> Iterator[Row]:
    """The numbered parts of one fact."""
    for part, start in enumerate(range(0, len(text), _FACT_PART_LENGTH)):
        piece = text[start : start + _FACT_PART_LENGTH]
        yield _checked(
            FACTS, {"live_set_id": live_set_id, "fact": fact, "part": part, "fact_text": piece}
        )


def naive_utc(time: datetime) -> datetime:
    """The instant as the zone-less columns hold it: what a clock in UTC shows."""
    if time.tzinfo is None:
        raise ValueError(f"{time} has no zone, so it is not an instant")
    return time.astimezone(UTC).replace(tzinfo=None)


def read_live_set(row: Any, created: str | None) -> LiveSet:
    """`created` is what lakesweep noted beside its own sets: exact, and free of any zone a server may apply."""
    try:
        status = LiveSetStatus(row.set_status)
        started = row.identify_started if created is None else datetime.fromisoformat(created)
    except ValueError as error:
        raise _damaged(row.live_set_id, str(error)) from error
    if started is None:
        raise _damaged(row.live_set_id, "it has no time of creation")
    return LiveSet(
        id=LiveSetId(row.live_set_id),
        status=status,
        created=_aware(started),
        identify_finished=row.identify_finished and _aware(row.identify_finished),
        expire_started=row.expire_started and _aware(row.expire_started),
        expire_finished=row.expire_finished and _aware(row.expire_finished),
        error_message=row.error_message,
    )


def read_content(row: Any) -> ContentReference:
    return ContentReference(
        content_id=row.content_id,
        commit_id=row.commit_id,
        content_key=decode_content_key(row.content_key or ""),
        content_type=read_kind(row),
        metadata_location=row.metadata_location,
        snapshot_id=row.snapshot_id,
    )


def read_kind(row: Any) -> ContentKind:
    """The kind of a content row, which must also say where the content is: else it could not be protected."""
    if row.metadata_location is None or row.snapshot_id is None:
        raise _damaged(row.live_set_id, f"content {row.content_id} has no location or no snapshot")
    try:
        return ContentKind(row.content_type)
    except ValueError as error:
        raise _damaged(row.live_set_id, f"content {row.content_id}: {error}") from error


def read_deferred(row: Any) -> DeferredFile:
    milliseconds = row.modification_timestamp
    try:
        modified_at = (
            None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)
        )
    except OverflowError as error:
        raise _damaged(row.live_set_id, f"{row.path_uri} has an impossible time") from error
    return DeferredFile(row.base_uri, row.path_uri, modified_at)


def _aware(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def _checked(table: TableShape, row: Row) -> Row:
    for column in table.columns:
        value = row[column.name]
        if isinstance(value, str):
            if column.length is not None and len(value) > column.length:
                raise _too_long(table, column.name, column.length, value)
            if not _is_storable(value):
                raise UnsafeToSweepError(
                    f"A {column.name} can't be stored as it is, and a changed one would mean something else: "
                    f"{value!r}. Nothing was stored.",
                    kind="not-storable",
                )
    return row


def _is_storable(value: str) -> bool:
    if value.isascii():
        return "\0" not in value
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


def _too_long(table: TableShape, column: str, length: int, value: str) -> UnsafeToSweepError:
    return UnsafeToSweepError(
        f"A {column} has {len(value)} characters, and nessie-gc's table {table.name} has room for {length}; "
        f"a cut one would mean something else: {value!r}. Nothing was stored. "
        "Shorten it where it comes from, or run `lakesweep nessie gc --inmemory`.",
        kind="too-long",
    )


def _damaged(live_set_id: str, what: str) -> FormatError:
    return FormatError(
        f"The rows of live set {live_set_id} are damaged: {what}. Nothing was deleted. "
        "Remove it with `lakesweep nessie delete` and mark again.",
        kind="damaged-live-set",
    )
