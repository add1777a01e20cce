"""Live sets: what one mark of a Nessie catalog found live, and how far the work on it has come."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType

from lakesweep.domain.deferred_files import LONGEST_URI_PART, DeferredFile, deferred_file
from lakesweep.domain.mark_facts import MarkFacts
from lakesweep.domain.nessie_contents import (
    ContentKind,
    ContentReference,
    DroppedTable,
    OtherContent,
    decode_content_key,
    encode_content_key,
)
from lakesweep.errors import ConfigError

__all__ = [
    "LONGEST_ERROR_MESSAGE",
    "LONGEST_URI_PART",
    "ContentKind",
    "ContentReference",
    "DeferredFile",
    "DroppedTable",
    "LiveSet",
    "LiveSetId",
    "LiveSetStatus",
    "MarkFacts",
    "OtherContent",
    "cut_error_message",
    "decode_content_key",
    "deferred_file",
    "encode_content_key",
    "new_live_set_id",
    "parse_live_set_id",
]

LiveSetId = NewType("LiveSetId", str)

LONGEST_ERROR_MESSAGE = 2000
_CUT_MARK = " ... (truncated)"

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


class LiveSetStatus(StrEnum):
    """How far a live set has come; each status is reached from the one before it only."""

    IDENTIFY_IN_PROGRESS = "IDENTIFY_IN_PROGRESS"
    IDENTIFY_SUCCESS = "IDENTIFY_SUCCESS"
    IDENTIFY_FAILED = "IDENTIFY_FAILED"
    EXPIRY_IN_PROGRESS = "EXPIRY_IN_PROGRESS"
    EXPIRY_SUCCESS = "EXPIRY_SUCCESS"
    EXPIRY_FAILED = "EXPIRY_FAILED"


@dataclass(frozen=True, slots=True)
class LiveSet:
    """One live set without its contents. Times are UTC; `created` is when its mark began.

    Of a set that nessie-gc marked, the times are what its zone's clock showed, taken as UTC.
    """

    id: LiveSetId
    status: LiveSetStatus
    created: datetime
    identify_finished: datetime | None
    expire_started: datetime | None
    expire_finished: datetime | None
    error_message: str | None


def new_live_set_id() -> LiveSetId:
    """A random id for a new live set."""
    return LiveSetId(str(uuid.uuid4()))


def parse_live_set_id(text: str) -> LiveSetId:
    """Read an id as users and id files give it: a UUID in its usual form, in any case, with blanks around it."""
    wanted = text.strip().lower()
    if not _UUID.fullmatch(wanted):
        raise ConfigError(
            f"{text!r} is not the id of a live set. An id looks like "
            "0baaa1ff-90db-4ee5-b6d2-b60aea148c76; `lakesweep nessie list` shows those there are.",
            kind="bad-live-set-id",
        )
    return LiveSetId(wanted)


def cut_error_message(message: str) -> str:
    """As much of an error message as the live set's row has room for; what was cut is marked as cut."""
    # PostgreSQL stores no zero character, and a message must never stand in the way of recording a failure.
    storable = message.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if len(storable) <= LONGEST_ERROR_MESSAGE:
        return storable
    return storable[: LONGEST_ERROR_MESSAGE - len(_CUT_MARK)] + _CUT_MARK
