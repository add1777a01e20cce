"""SHA-256 identities: what makes two entries, commits or files the same to lakeFS."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from lakesweep.domain.commits import CommitId

__all__ = ["commit_id", "entry_identity", "tagged_text_map"]

# Every value that goes into a hash starts with a tag that says what it is.
_BYTES, _TEXT, _INT64, _TEXTS, _TEXT_MAP, _EMBEDDED = (bytes([tag]) for tag in range(6))


def entry_identity(
    size: int, e_tag: str, metadata: Mapping[str, str] | None = None, content_type: str = ""
) -> bytes:
    """The 32 bytes by which lakeFS tells entries apart. Address and time are not part of it."""
    digest = hashlib.sha256(_int64(size) + _text(e_tag) + tagged_text_map(metadata or {}))
    if content_type:
        digest.update(_text(content_type))
    return digest.digest()


def commit_id(
    *,
    committer: str,
    message: str,
    meta_range_id: str,
    creation_date: datetime | int,
    metadata: Mapping[str, str],
    parents: Sequence[str],
) -> CommitId:
    """The id of a commit (hex). `creation_date` counts in whole seconds; version and generation do not count."""
    seconds = creation_date if isinstance(creation_date, int) else _floor_seconds(creation_date)
    digest = hashlib.sha256(
        _text("commit:v1")
        + _text(committer)
        + _text(message)
        + _text(meta_range_id)
        + _int64(seconds)
        + tagged_text_map(metadata)
        + _EMBEDDED
        + _bytes(hashlib.sha256(_texts(parents)).digest())
    )
    return CommitId(digest.hexdigest())


def tagged_text_map(pairs: Mapping[str, str | bytes]) -> bytes:
    """A map as it goes into a hash, keys sorted; also the end of every range's id."""
    items = sorted((key.encode(), value) for key, value in pairs.items())
    return (
        _TEXT_MAP + _int64(len(items)) + b"".join(_text(key) + _text(value) for key, value in items)
    )


def _int64(value: int) -> bytes:
    return _INT64 + b"\x08" + value.to_bytes(8, "big", signed=True)


def _bytes(value: bytes) -> bytes:
    return _BYTES + _int64(len(value)) + value


def _text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _TEXT + _int64(len(raw)) + raw


def _texts(values: Iterable[str]) -> bytes:
    texts = [_text(value) for value in values]
    return _TEXTS + _int64(len(texts)) + b"".join(texts)


def _floor_seconds(at: datetime) -> int:
    return int(at.timestamp() // 1)
