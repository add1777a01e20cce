"""Pages of ListObjectsV2: from XML to Arrow, keys exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote_plus
from xml.etree import ElementTree

import pyarrow as pa

from lakesweep.errors import StorageError
from lakesweep.storage.values import listing_batch

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `next_token` is None on the last one."""

    objects: pa.RecordBatch
    folders: tuple[str, ...]
    next_token: str | None


def read_page(content: bytes, base: str) -> Page:
    """The page in `content`, keys relative to `base`.

    Raises:
        StorageError: it is not a whole and consistent listing page.
    """
    return read_page_as_xml(content, base)


def read_page_as_xml(content: bytes, base: str) -> Page:
    """`read_page` with a general XML parser: the slow road for whatever the fast one does not know."""
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise StorageError(
            f"a listing page is no XML ({error}); nothing was taken from it."
        ) from error
    if _name(root) != "ListBucketResult":
        raise StorageError(f"a listing page is a {_name(root)!r}; nothing was taken from it.")
    fields = {_name(child): child.text or "" for child in root}
    is_encoded = fields.get("EncodingType") == "url"

    def key_of(text: str | None) -> str:
        key = unquote_plus(text or "", errors="strict") if is_encoded else text or ""
        return relative_key(key, base)

    keys: list[str] = []
    sizes: list[int] = []
    times: list[int | None] = []
    etags: list[str | None] = []
    folders: list[str] = []
    try:
        for child in root:
            if _name(child) == "Contents":
                row = {_name(part): part.text for part in child}
                keys.append(key_of(row["Key"]))
                sizes.append(int(row["Size"] or ""))
                times.append(_microseconds(row.get("LastModified")))
                etags.append(row.get("ETag"))
            elif _name(child) == "CommonPrefixes":
                folders.extend(key_of(part.text) for part in child if _name(part) == "Prefix")
    except (KeyError, ValueError) as error:
        raise StorageError(
            f"a listing page has a bad entry ({error}); nothing was taken from it."
        ) from error
    return checked_page(listing_batch(keys, sizes, times, etags), folders, fields)


def checked_page(objects: pa.RecordBatch, folders: Sequence[str], fields: dict[str, str]) -> Page:
    """The page, if its own words about itself (count, truncation, token) agree with what was read."""
    promised = fields.get("KeyCount")
    found = objects.num_rows + len(folders)
    if promised is not None and promised != str(found):
        raise StorageError(
            f"a listing page promises {promised} keys and holds {found}; nothing was taken from it."
        )
    is_truncated = fields.get("IsTruncated")
    if is_truncated not in ("true", "false"):
        raise StorageError(
            "a listing page does not say whether it is the last; nothing was taken from it."
        )
    token = fields.get("NextContinuationToken") or None
    if is_truncated == "true" and token is None:
        raise StorageError(
            "a listing page has a successor and does not name it; nothing was taken from it."
        )
    return Page(objects, tuple(folders), token if is_truncated == "true" else None)


def relative_key(key: str, base: str) -> str:
    """`key` below `base`; a key elsewhere means the store answered another question."""
    if not key.startswith(base):
        raise StorageError(
            f"a listing under {base!r} holds the key {key!r}; nothing was taken from it."
        )
    return key[len(base) :]


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _microseconds(text: str | None) -> int | None:
    if not text:
        return None
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"time without zone {text!r}")
    return (when - _EPOCH) // timedelta(microseconds=1)
