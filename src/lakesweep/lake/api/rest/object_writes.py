"""Changing objects on a branch: upload, delete, copy, metadata."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import partial
from itertools import chain
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import Response

from lakesweep.lake.api.replies import json_reply, no_content
from lakesweep.lake.api.rest.dependencies import LakeDep, PathQuery, if_absent
from lakesweep.lake.api.rest.errors import message_of, status_of
from lakesweep.lake.api.rest.forms import form_boundary, open_form_content
from lakesweep.lake.api.rest.models import CopyBody, PathsBody, UserMetadataBody
from lakesweep.lake.api.rest.quick_routes import QuickRequest, quick_route
from lakesweep.lake.api.rest.wire import DEFAULT_CONTENT_TYPE, object_document
from lakesweep.lake.api.streams import CHUNK_BYTES, gather_chunks, pull_from_thread
from lakesweep.lake.errors import UnsupportedOperationError
from lakesweep.lake.uploads.together import MOST_BYTES, SmallUpload
from lakesweep.lake.values import ObjectStats

router = APIRouter(prefix="/repositories/{repository}/branches/{branch}/objects")

# Beginnings of headers, and those of the keys that they become.
_METADATA_HEADERS = {b"x-lakefs-meta-": "", b"x-lakefs-internal-": "::lakefs::"}


@quick_route(router, "POST", "")
async def upload_object(request: QuickRequest) -> Response:
    """Store a body, or the `content` part of a form, as an object. Memory holds a piece of it at a time."""
    lake, lanes = request.api.lake, request.api.lanes
    repository_id, branch = request.place("repository"), request.place("branch")
    path, force = request.text("path"), request.flag("force")
    is_absent_asked = if_absent(request)
    content_type, pieces = await _open_body(request)
    chunks = gather_chunks(pieces)
    # However slowly it comes, a body takes a thread only when a whole chunk of it is here.
    first = await anext(chunks, b"")

    described: Any = {
        "content_type": content_type or DEFAULT_CONTENT_TYPE,
        "metadata": _metadata_in(request.headers),
    }

    def prepare() -> SmallUpload | None:
        repository = lake.writable(repository_id, force=force)
        return lake.small_uploads.prepare(repository, branch, path, [first], **described)

    def store(rest: Iterable[bytes]) -> ObjectStats:
        return lake.objects.upload(
            lake.writable(repository_id, force=force),
            branch,
            path,
            chain([first], rest),
            if_absent=is_absent_asked,
            **described,
        )

    stats = None
    if len(first) <= MOST_BYTES and not is_absent_asked:
        stats = await lanes.upload_small(prepare)
    if stats is None and len(first) < CHUNK_BYTES:
        stats = await lanes.run_upload(partial(store, ()))
    elif stats is None:
        stats = await lanes.run_long_upload(partial(store, pull_from_thread(chunks)))
    return json_reply(object_document(stats), 201)


@router.get("/stage_allowed")
def may_upload(lake: LakeDep, repository: str, branch: str, path: PathQuery) -> Response:
    """Whether the caller may write: everyone with credentials may, where there is a branch."""
    lake.branches.head(lake.repositories.get(repository), branch)
    return no_content()


@router.delete("")
def delete_object(
    lake: LakeDep,
    repository: str,
    branch: str,
    path: PathQuery,
    force: bool = False,
    no_tombstone: bool = False,
) -> Response:
    """Delete a path on the branch; nothing happens when it is not there."""
    lake.objects.delete(
        lake.writable(repository, force=force), branch, path, no_tombstone=no_tombstone
    )
    return no_content()


@router.post("/delete")
def delete_objects(
    lake: LakeDep,
    repository: str,
    branch: str,
    body: PathsBody,
    force: bool = False,
    no_tombstone: bool = False,
) -> Response:
    """Delete up to a thousand paths; the reply names those that failed."""
    failed = lake.objects.delete_many(
        lake.writable(repository, force=force), branch, body.paths, no_tombstone=no_tombstone
    )
    errors = [
        {
            "path": failure.path,
            "status_code": status_of(failure.error),
            "message": message_of(failure.error),
        }
        for failure in failed
    ]
    return json_reply({"errors": errors})


@router.post("/copy")
def copy_object(
    lake: LakeDep, repository: str, branch: str, dest_path: PathQuery, body: CopyBody
) -> Response:
    """Copy an object. Whether the copy shares the bytes is the lake's decision, never the client's."""
    if body.shallow:
        raise UnsupportedOperationError(
            f"A shallow copy can't be asked for; {dest_path!r} was not written. Leave shallow out:"
            " staged objects are copied within their branch without copying bytes."
        )
    stats = lake.copying.copy(
        lake.writable(repository, force=body.force),
        branch,
        dest_path,
        body.src_path,
        src_ref=body.src_ref,
    )
    return json_reply(object_document(stats), 201)


@router.put("/stat/user_metadata")
def set_user_metadata(
    lake: LakeDep,
    repository: str,
    branch: str,
    path: PathQuery,
    body: UserMetadataBody,
    force: bool = False,
) -> Response:
    """Replace an object's user metadata."""
    lake.copying.set_user_metadata(lake.writable(repository, force=force), branch, path, body.set)
    return no_content()


async def _open_body(request: Request) -> tuple[str, AsyncIterator[bytes]]:
    content_type = request.headers.get("content-type", "")
    boundary = form_boundary(content_type)
    if boundary is None:
        return content_type, request.stream()
    content = await open_form_content(request.stream(), boundary)
    return content.content_type, content.chunks


def _metadata_in(headers: Headers) -> dict[str, str]:
    metadata: dict[str, str] = {}
    for name, raw in headers.raw:
        for prefix, key in _METADATA_HEADERS.items():
            if name.startswith(prefix):
                # Of two with one name the first counts, as on lakeFS.
                metadata.setdefault(key + name.removeprefix(prefix).decode("latin-1"), _text(raw))
    return metadata


def _text(raw: bytes) -> str:
    value = raw.strip(b" \t")
    try:
        return value.decode()
    except UnicodeDecodeError:  # Python's HTTP clients send what Latin-1 has as Latin-1
        return value.decode("latin-1")
