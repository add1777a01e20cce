"""Pages of ListObjectsV2: from XML to Arrow, keys exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

import pyarrow as pa

from lakesweep.errors import StorageError
from lakesweep.storage.s3.xml import local_name, parsed_xml
from lakesweep.storage.values import LISTING_SCHEMA, listing_batch

if TYPE_CHECKING:
    from lakesweep.storage.s3.page_rows import ScannedRows

_FIRST_ROW = b"<Contents>"
_ENCODED = b"<EncodingType>url</EncodingType>"
# Below this the general parser is done before compiled code is even loaded.
_WORTH_COMPILING_BYTES = 100_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `next_token` is None on the last one."""

    objects: pa.RecordBatch
    folders: tuple[str, ...]
    next_token: str | None


def page_query(prefix: str) -> dict[str, str]:
    """The query of a listing's page, keys exact."""
    return {"list-type": "2", "encoding-type": "url", "prefix": prefix}


def read_page(content: bytes, base: str) -> Page:
    """The page in `content`, keys relative to `base`.

    Raises:
        StorageError: it is not a whole and consistent listing page.
    """
    start = content.find(_FIRST_ROW) if len(content) >= _WORTH_COMPILING_BYTES else -1
    if start < 0:
        return read_page_as_xml(content, base)
    # Imported here: a small repository never waits for the compiler.
    from lakesweep.storage.s3.page_rows import scan_rows

    rows = scan_rows(content, start, base.encode(), is_encoded=_ENCODED in content)
    if rows is None or content.find(_FIRST_ROW, rows.end) >= 0:
        return read_page_as_xml(content, base)
    # What is left without the rows is a small document of its own: the page's words about itself.
    rest = _read_rest(content[:start] + content[rows.end :], base)
    return checked_page(_batch(rows), rest.folders, rest.fields)


def read_page_as_xml(content: bytes, base: str, *, of_emulator: bool = False) -> Page:
    """`read_page` with a general XML parser: the slow road for whatever the fast one does not know.

    Google says of each page what S3 says; its emulator counts no folders, and does not say which page is the last.
    """
    rest = _read_rest(content, base)
    if of_emulator:
        rest.fields.pop("KeyCount", None)
        has_next = bool(rest.fields.get("NextContinuationToken"))
        rest.fields.setdefault("IsTruncated", "true" if has_next else "false")
    return checked_page(
        listing_batch(rest.keys, rest.sizes, rest.times, rest.etags), rest.folders, rest.fields
    )


@dataclass(slots=True)
class _Parsed:
    """A page as plain lists."""

    fields: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    etags: list[str | None] = field(default_factory=list)


def _read_rest(content: bytes, base: str) -> _Parsed:
    root = parsed_xml(content, "listing")
    if local_name(root) != "ListBucketResult":
        raise StorageError(f"a listing page is a {local_name(root)!r}; nothing was taken from it.")
    page = _Parsed({local_name(child): child.text or "" for child in root})
    is_encoded = page.fields.get("EncodingType") == "url"

    def key_of(text: str | None) -> str:
        key = unquote_plus(text or "", errors="strict") if is_encoded else text or ""
        return relative_key(key, base)

    try:
        for child in root:
            if local_name(child) == "Contents":
                row = {local_name(part): part.text for part in child}
                page.keys.append(key_of(row["Key"]))
                page.sizes.append(int(row["Size"] or ""))
                page.times.append(_microseconds(row.get("LastModified")))
                page.etags.append(row.get("ETag"))
            elif local_name(child) == "CommonPrefixes":
                page.folders.extend(
                    key_of(part.text) for part in child if local_name(part) == "Prefix"
                )
    except (KeyError, ValueError) as error:
        raise StorageError(
            f"a listing page has a bad entry ({error}); nothing was taken from it."
        ) from error
    return page


def _batch(rows: ScannedRows) -> pa.RecordBatch:
    keys = _strings(rows.key_offsets, rows.keys)
    etags = _strings(rows.etag_offsets, rows.etags)
    times = pa.array(rows.times_us).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays(
        [keys, pa.array(rows.sizes), times, etags, pa.array(rows.is_odd)], schema=LISTING_SCHEMA
    )


def _strings(offsets: Any, data: Any) -> pa.StringArray:
    array = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise StorageError(f"a listing page holds a key that is not text ({error}).") from error
    return array


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


def checked_successor(page: Page, asked: str | None) -> Page:
    """A page, refused where it names as its successor the token that it was asked for by: it would come for ever."""
    if page.next_token is not None and page.next_token == asked:
        raise StorageError(
            "a listing page is its own successor, so the server passes over continuation tokens; nothing was taken "
            "from the listing."
        )
    return page


def relative_key(key: str, base: str) -> str:
    """`key` below `base`; a key elsewhere means the store answered another question."""
    if not key.startswith(base):
        raise StorageError(
            f"a listing under {base!r} holds the key {key!r}; nothing was taken from it."
        )
    return key[len(base) :]


def _microseconds(text: str | None) -> int | None:
    if not text:
        return None
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"time without zone {text!r}")
    return (when - _EPOCH) // timedelta(microseconds=1)
