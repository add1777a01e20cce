"""Objects: put, get, head, delete."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

from lakesweep.lake.api.byteranges import content_range
from lakesweep.lake.api.gateway.arguments import (
    quote_etag,
    read_user_metadata,
    refuse_unsupported_headers,
    user_metadata_headers,
)
from lakesweep.lake.api.gateway.call import GatewayResponse, S3Call, xml_response
from lakesweep.lake.api.gateway.conditions import (
    check_conditions,
    check_put_conditions,
    is_range_current,
    refuse_delete_conditions,
)
from lakesweep.lake.api.gateway.request import GatewayRequest
from lakesweep.lake.errors import RangeNotSatisfiableError
from lakesweep.lake.objects.byte_ranges import resolve_range
from lakesweep.lake.objects.read_shares import FIRST_PIECE_BYTES
from lakesweep.lake.uploads.together import SmallUpload
from lakesweep.lake.values import ByteRange, ObjectStats

__all__ = [
    "delete_object",
    "get_object",
    "get_object_tagging",
    "head_object",
    "prepare_small_put",
    "put_object",
    "put_reply",
    "read_range",
]

_RANGE: Final = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{1,18})?|-([0-9]{1,18}))")
# A signed GET may say how its reply is to be labelled, which presigned download links make use of.
_LABELS: Final = (
    "content-type",
    "content-language",
    "expires",
    "cache-control",
    "content-disposition",
    "content-encoding",
)


def put_object(call: S3Call) -> GatewayResponse:
    """Store the body and stage the entry. Nothing is staged unless the whole body came and proved itself."""
    request, name = call.request, call.object_name
    refuse_unsupported_headers(request)
    stats = call.lake.objects.upload(
        call.writable(),
        name.ref,
        name.path,
        call.read_body(),
        content_type=request.headers.get("content-type", ""),
        metadata=read_user_metadata(request),
        if_absent=check_put_conditions(request.headers),
    )
    return put_reply(stats)


def prepare_small_put(call: S3Call) -> SmallUpload | None:
    """Prepare the put of a body that is all here, as far as that needs no thread; None for one that has to go alone."""
    request, name = call.request, call.object_name
    refuse_unsupported_headers(request)
    if check_put_conditions(request.headers):
        return None
    return call.lake.small_uploads.prepare(
        call.writable(),
        name.ref,
        name.path,
        call.read_body(),
        content_type=request.headers.get("content-type", ""),
        metadata=read_user_metadata(request),
    )


def put_reply(stats: ObjectStats) -> GatewayResponse:
    """The answer to a put."""
    return GatewayResponse(headers={"ETag": quote_etag(stats.checksum)})


def get_object(call: S3Call) -> GatewayResponse:
    """The object's bytes, or a range of them. 410 when they were hard-deleted."""
    name, headers = call.object_name, call.request.headers
    asked = read_range(headers.get("range"))
    if asked is not None and "if-range" in headers:
        entry = call.lake.objects.stat(call.repository(), name.ref, name.path)
        asked = asked if is_range_current(headers, entry) else None
    try:
        content = call.lake.objects.open(call.repository(), name.ref, name.path, asked)
    except RangeNotSatisfiableError:
        # Who goes on with an object that was replaced by a shorter one would take 416 for "you have all of it".
        check_conditions(headers, call.lake.objects.stat(call.repository(), name.ref, name.path))
        raise
    # Conditions are held against the entry whose bytes these are, not against one read a moment before.
    check_conditions(headers, content.stats)
    described = _describe(content.stats) | _labels(call.request)
    described["Content-Length"] = str(content.length)
    is_small = content.length <= FIRST_PIECE_BYTES
    # A small object is read here, in one go: an error can still become an honest reply, and it saves thread hops.
    body = b"".join(content.chunks) if is_small else content.chunks
    if asked is None:
        return GatewayResponse(200, described, body)
    size = content.stats.size_bytes
    described["Content-Range"] = content_range(content.start, content.length, size)
    return GatewayResponse(206, described, body)


def head_object(call: S3Call) -> GatewayResponse:
    """What GET would say of the object, out of its entry: the bytes are not looked at."""
    name, headers = call.object_name, call.request.headers
    entry = call.lake.objects.stat(call.repository(), name.ref, name.path)
    check_conditions(headers, entry)
    described = _describe(entry) | _labels(call.request)
    described["Content-Length"] = str(entry.size_bytes)
    asked = read_range(headers.get("range"))
    if asked is None or not is_range_current(headers, entry):
        return GatewayResponse(200, described)
    start, length = resolve_range(asked, entry.size_bytes)
    described["Content-Length"] = str(length)
    described["Content-Range"] = content_range(start, length, entry.size_bytes)
    return GatewayResponse(206, described)


def delete_object(call: S3Call) -> GatewayResponse:
    """Stage the deletion; a key that is not there is deleted already."""
    name = call.object_name
    refuse_delete_conditions(call.request.headers)
    call.lake.objects.delete(call.writable(), name.ref, name.path)
    return GatewayResponse(204)


def get_object_tagging(call: S3Call) -> GatewayResponse:
    """An empty set: a write that brings tags is refused, so no object has any."""
    name = call.object_name
    call.lake.objects.stat(call.repository(), name.ref, name.path)
    return xml_response("Tagging", [("TagSet", [])])


def read_range(header: str | None) -> ByteRange | None:
    """The range asked for, or None for the whole object.

    A header that is no single range of bytes counts as not given, as HTTP says and S3 does.
    """
    found = _RANGE.fullmatch((header or "").strip())
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix is not None:
        return ByteRange(suffix=int(suffix))
    if last is not None and int(last) < int(first):
        return None
    return ByteRange(first=int(first), last=int(last) if last is not None else None)


def _describe(entry: ObjectStats) -> dict[str, str]:
    headers = {
        "ETag": quote_etag(entry.checksum),
        "Accept-Ranges": "bytes",
        "Content-Type": entry.content_type or "application/octet-stream",
    }
    if entry.mtime is not None:
        headers["Last-Modified"] = _http_date(entry.mtime)
    return headers | user_metadata_headers(entry.metadata)


def _labels(request: GatewayRequest) -> dict[str, str]:
    return {
        label.title(): request.query[f"response-{label}"]
        for label in _LABELS
        if f"response-{label}" in request.query
    }


def _http_date(at: datetime) -> str:
    return format_datetime(at.astimezone(UTC).replace(microsecond=0), usegmt=True)
