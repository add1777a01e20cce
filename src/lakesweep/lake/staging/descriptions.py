"""What may be said about an object beside its bytes. It ends up in headers, listings and every commit, so it is bounded."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakesweep.lake.errors import InvalidRequestError

LONGEST_METADATA_BYTES = 2048
"""Of one object, names and values together, as in S3."""
_S3_PREFIX = "x-amz-meta-"
_CONTENT_TYPE = re.compile(r"[\x20-\x7e]{0,1024}")
_CHECKSUM = re.compile(r"[\x21-\x7e]{1,1024}")


def check_description(*, content_type: str = "", metadata: Mapping[str, str] | None = None) -> None:
    """Refuse a content type that no header can carry, and metadata that is not text or longer than S3 allows."""
    if not _CONTENT_TYPE.fullmatch(content_type):
        raise InvalidRequestError(
            f"{content_type[:100]!r} is not a content type: use up to 1024 printable ASCII characters."
            " Nothing was stored.",
            kind="invalid-content-type",
        )
    try:
        size = sum(map(_size, (metadata or {}).items()))
    except UnicodeEncodeError as wrong:
        raise InvalidRequestError(
            "the metadata holds half of a surrogate pair, which is not text. Nothing was stored.",
            kind="invalid-metadata",
        ) from wrong
    if size > LONGEST_METADATA_BYTES:
        raise InvalidRequestError(
            f"the metadata has {size} bytes; an object may have {LONGEST_METADATA_BYTES}, names and values"
            " together. Nothing was stored.",
            kind="metadata-too-large",
        )


def clean_checksum(checksum: str) -> str:
    """A checksum without the quotes that clients leave around an ETag."""
    cleaned = checksum.strip().strip('"').strip()
    if not _CHECKSUM.fullmatch(cleaned):
        raise InvalidRequestError(
            "a checksum is needed, of printable ASCII characters; nothing was staged",
            kind="no-checksum",
        )
    return cleaned


def _size(item: tuple[str, str]) -> int:
    name, value = item
    # S3's own prefix is the header's, not the name's.
    shown = name[len(_S3_PREFIX) :] if name.lower().startswith(_S3_PREFIX) else name
    return len(shown.encode()) + len(value.encode())
