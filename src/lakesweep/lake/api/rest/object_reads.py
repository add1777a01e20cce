"""Reading objects: bytes, one entry, listings."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from email.utils import format_datetime
from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from lakesweep.lake.api.auth import find_header
from lakesweep.lake.api.byteranges import content_range, parse_range
from lakesweep.lake.api.lanes import Lanes
from lakesweep.lake.api.replies import RawReply, header_text, json_reply, redirect_reply
from lakesweep.lake.api.rest.dependencies import LakeDep, PageQuery, PathQuery
from lakesweep.lake.api.rest.listed_rows import render_rows
from lakesweep.lake.api.rest.quick_routes import QuickRequest, quick_route
from lakesweep.lake.api.rest.wire import (
    DEFAULT_CONTENT_TYPE,
    Document,
    list_document,
    listed_document,
    object_document,
    page_document,
    signed_address,
)
from lakesweep.lake.errors import RangeNotSatisfiableError
from lakesweep.lake.lake import Lake
from lakesweep.lake.objects.byte_ranges import resolve_range
from lakesweep.lake.objects.read_shares import FIRST_PIECE_BYTES
from lakesweep.lake.values import ByteRange, ObjectContent, ObjectStats, Repository

router = APIRouter(prefix="/repositories/{repository}/refs/{ref}/objects")

# Objects are other people's files: no browser shall run one as a page of ours, no proxy keep it.
_FENCE = {
    "Cache-Control": "no-store, must-revalidate",
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
}


@quick_route(router, "GET", "")
async def get_object(request: QuickRequest) -> Response:
    """The object's bytes, those of one range, or the way to them in the store. 410 when they were hard-deleted."""
    presign = request.flag("presign")
    asked = _asked_range(request)
    lake, path = request.api.lake, request.text("path")
    repository_id, ref = request.place("repository"), request.place("ref")
    known = find_header(request.scope, b"if-none-match")

    def open_object() -> Response:
        repository = lake.repositories.get(repository_id)
        if known is not None and known == _etag(lake.objects.stat(repository, ref, path)):
            return Response(status_code=304)
        if presign:
            stats = lake.objects.stat(repository, ref, path)
            return redirect_reply(lake.signed_urls.sign_read(repository, stats))
        return _content_reply(lake.objects.open(repository, ref, path, asked), request.api.lanes)

    lanes = request.api.lanes
    # Signing may have to fetch credentials first.
    return await (lanes.run_read(open_object) if presign else lanes.look_up(open_object))


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


@quick_route(router, "GET", "/stat")
async def stat_object(request: QuickRequest) -> Response:
    """One entry."""
    presign = request.flag("presign")
    lake, path = request.api.lake, request.text("path")
    repository_id, ref = request.place("repository"), request.place("ref")
    with_metadata = request.flag("user_metadata", True)

    def stat() -> Document:
        repository = lake.repositories.get(repository_id)
        stats = lake.objects.stat(repository, ref, path)
        document = object_document(stats, with_metadata=with_metadata)
        if presign:
            document |= signed_address(lake.signed_urls.sign_read(repository, stats))
        return document

    lanes = request.api.lanes
    return json_reply(await (lanes.run_read(stat) if presign else lanes.look_up(stat)))


@quick_route(router, "GET", "/ls")
async def list_objects(request: QuickRequest) -> Response:
    """Entries in path order."""
    presign = request.flag("presign")
    lake, page, delimiter = request.api.lake, request.page(), request.text("delimiter", "")
    repository_id, ref = request.place("repository"), request.place("ref")
    with_metadata = request.flag("user_metadata", True)

    def list_page() -> Response:
        repository = lake.repositories.get(repository_id)

        def to_document(stats: ObjectStats) -> Document:
            document = listed_document(stats, with_metadata=with_metadata)
            if presign and stats.path_type == "object":
                document |= signed_address(lake.signed_urls.sign_read(repository, stats))
            return document

        if presign:
            lake.signed_urls.check()
        elif not delimiter and (plain := _plain_page(lake, repository, ref, page)) is not None:
            return plain
        found = lake.objects.list_page(
            repository,
            ref,
            **page,
            delimiter=delimiter,
        )
        return json_reply(page_document(found, to_document))

    return await request.api.lanes.run_list(list_page)


@router.get("/underlyingProperties")
def get_underlying_properties(
    lake: LakeDep, repository: str, ref: str, path: PathQuery
) -> Response:
    """The storage class, which the lake neither sets nor asks for: S3's default has an empty name."""
    lake.objects.stat(lake.repositories.get(repository), ref, path)
    is_s3 = lake.repositories.get(repository).storage_namespace.startswith("s3:")
    return json_reply({"storage_class": "" if is_s3 else None})


def _plain_page(lake: Lake, repository: Repository, ref: str, page: PageQuery) -> Response | None:
    """The page when all its rows are plain, as most are; it takes a tenth of the time then."""
    rows, has_more = lake.objects.list_values(repository, ref, **page)
    rendered = render_rows(repository, rows)
    if rendered is None:
        return None
    frame = list_document([], has_more, rows[-1][0].decode() if has_more else "")
    frame["pagination"]["results"] = len(rows)
    head = json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(head.removesuffix(b"]}") + rendered + b"]}", media_type="application/json")


def _content_reply(content: ObjectContent, lanes: Lanes) -> Response:
    stats = content.stats
    headers = _object_headers(stats) | _FENCE | {"Content-Length": str(content.length)}
    if content.is_partial:
        headers["Content-Range"] = content_range(content.start, content.length, stats.size_bytes)
    status = 206 if content.is_partial else 200
    if content.length <= FIRST_PIECE_BYTES:
        # Read here, in one go: an error can still become an honest reply, and small objects save a thread hop.
        return RawReply(b"".join(content.chunks), status, headers)
    return StreamingResponse(_pieces(content.chunks, lanes), status, headers)


async def _pieces(chunks: Iterator[bytes], lanes: Lanes) -> AsyncIterator[bytes]:
    while (piece := await lanes.run_read(partial(next, chunks, None))) is not None:
        yield piece


def _asked_range(request: Request) -> ByteRange | None:
    header = find_header(request.scope, b"range")
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
