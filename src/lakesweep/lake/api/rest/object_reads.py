"""Reading objects: bytes, one entry, listings."""

from __future__ import annotations

from email.utils import format_datetime

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from lakesweep.lake.api.byteranges import content_range, parse_range, resolve_range
from lakesweep.lake.api.replies import header_text, json_reply
from lakesweep.lake.api.rest.dependencies import LakeDep, PageDep, PathQuery, RefusePresign
from lakesweep.lake.api.rest.wire import (
    DEFAULT_CONTENT_TYPE,
    Document,
    listed_document,
    object_document,
    page_document,
)
from lakesweep.lake.api.streams import CHUNK_BYTES
from lakesweep.lake.errors import RangeNotSatisfiableError
from lakesweep.lake.values import ByteRange, ObjectStats

router = APIRouter(prefix="/repositories/{repository}/refs/{ref}/objects")

# Objects are other people's files: no browser shall run one as a page of ours, no proxy keep it.
_FENCE = {
    "Cache-Control": "no-store, must-revalidate",
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
}


@router.get("", dependencies=[RefusePresign])
def get_object(
    request: Request, lake: LakeDep, repository: str, ref: str, path: PathQuery
) -> Response:
    """The object's bytes, or those of one range. 410 when they were hard-deleted."""
    known = request.headers.get("if-none-match")
    if known is not None and known == _etag(
        lake.objects.stat(lake.repositories.get(repository), ref, path)
    ):
        return Response(status_code=304)
    content = lake.objects.open(lake.repositories.get(repository), ref, path, _asked_range(request))
    stats = content.stats
    headers = _object_headers(stats) | _FENCE | {"Content-Length": str(content.length)}
    if content.is_partial:
        headers["Content-Range"] = content_range(content.start, content.length, stats.size_bytes)
    status = 206 if content.is_partial else 200
    if content.length <= CHUNK_BYTES:
        # Read here, in one go: an error can still become an honest reply, and small objects save a thread hop.
        return Response(b"".join(content.chunks), status, headers)
    return StreamingResponse(content.chunks, status, headers)


@router.head("")
def head_object(
    request: Request, lake: LakeDep, repository: str, ref: str, path: PathQuery
) -> Response:
    """What GET would say about the object, from its entry alone: the bytes are not looked for."""
    stats = lake.objects.stat(lake.repositories.get(repository), ref, path)
    headers = _object_headers(stats) | {"Cache-Control": _FENCE["Cache-Control"]}
    asked = _asked_range(request)
    if asked is None:
        return Response(None, 200, headers | {"Content-Length": str(stats.size_bytes)})
    try:
        start, length = resolve_range(asked, stats.size_bytes)
    except RangeNotSatisfiableError:
        return Response(None, 416, headers | {"Content-Range": f"bytes */{stats.size_bytes}"})
    headers["Content-Range"] = content_range(start, length, stats.size_bytes)
    return Response(None, 206, headers | {"Content-Length": str(length)})


@router.get("/stat", dependencies=[RefusePresign])
def stat_object(
    lake: LakeDep, repository: str, ref: str, path: PathQuery, user_metadata: bool = True
) -> Response:
    """One entry."""
    stats = lake.objects.stat(lake.repositories.get(repository), ref, path)
    return json_reply(object_document(stats, with_metadata=user_metadata))


@router.get("/ls", dependencies=[RefusePresign])
def list_objects(
    lake: LakeDep,
    repository: str,
    ref: str,
    page: PageDep,
    delimiter: str = "",
    user_metadata: bool = True,
) -> Response:
    """Entries in path order."""
    found = lake.objects.list_page(
        lake.repositories.get(repository),
        ref,
        prefix=page.prefix,
        after=page.after,
        amount=page.amount,
        delimiter=delimiter,
    )

    def to_document(stats: ObjectStats) -> Document:
        return listed_document(stats, with_metadata=user_metadata)

    return json_reply(page_document(found, to_document))


@router.get("/underlyingProperties")
def get_underlying_properties(
    lake: LakeDep, repository: str, ref: str, path: PathQuery
) -> Response:
    """The storage class, which the lake neither sets nor asks for: S3's default has an empty name."""
    lake.objects.stat(lake.repositories.get(repository), ref, path)
    is_s3 = lake.repositories.get(repository).storage_namespace.startswith("s3:")
    return json_reply({"storage_class": "" if is_s3 else None})


def _asked_range(request: Request) -> ByteRange | None:
    header = request.headers.get("range")
    return parse_range(header) if header is not None else None


def _etag(stats: ObjectStats) -> str:
    return f'"{header_text(stats.checksum)}"'


def _object_headers(stats: ObjectStats) -> dict[str, str]:
    headers = {
        "ETag": _etag(stats),
        "Content-Type": header_text(stats.content_type) or DEFAULT_CONTENT_TYPE,
        "Accept-Ranges": "bytes",
    }
    if stats.mtime is not None:
        headers["Last-Modified"] = format_datetime(stats.mtime, usegmt=True)
    return headers
