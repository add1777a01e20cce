"""Objects whose bytes did not pass through the server: issued addresses, and objects that lie elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter
from starlette.responses import Response

from lakesweep.lake.api.replies import json_reply
from lakesweep.lake.api.rest.dependencies import IfAbsentDep, LakeDep, PathQuery
from lakesweep.lake.api.rest.models import LinkBody, StageBody
from lakesweep.lake.api.rest.wire import (
    DEFAULT_CONTENT_TYPE,
    Document,
    object_document,
    unix_seconds,
)
from lakesweep.lake.errors import InvalidRequestError

router = APIRouter(prefix="/repositories/{repository}/branches/{branch}")


@router.get("/staging/backing")
def get_physical_address(
    lake: LakeDep, repository: str, branch: str, path: PathQuery, presign: bool = False
) -> Response:
    """An address to upload to. Its token is part of it, good once and for the token life."""
    writable = lake.writable(repository)
    if presign:
        lake.signed_urls.check()
    location = lake.linking.issue(writable, branch, path)
    document: Document = {"physical_address": location.physical_address, "presigned_url": None}
    if presign:
        signed = lake.signed_urls.sign_write(writable, location.physical_address)
        document["presigned_url"] = signed.url
        document["presigned_url_expiry"] = unix_seconds(signed.expires_at)
    return json_reply(document)


@router.put("/staging/backing")
def link_physical_address(
    lake: LakeDep,
    repository: str,
    branch: str,
    path: PathQuery,
    body: LinkBody,
    if_absent: IfAbsentDep,
) -> Response:
    """Make an uploaded address the object at `path`."""
    # Clients send an ETag as the store gave it, quotes and all.
    checksum = body.checksum.strip().strip('"').strip()
    if not checksum:
        raise InvalidRequestError(f"A checksum is needed to link {path!r}; it was not linked.")
    stats = lake.linking.link(
        lake.writable(repository, force=body.force),
        branch,
        path,
        body.staging.physical_address,
        checksum=checksum,
        size_bytes=body.size_bytes,
        mtime=_time(body.mtime),
        content_type=body.content_type or DEFAULT_CONTENT_TYPE,
        metadata=body.user_metadata,
        if_absent=if_absent,
    )
    return json_reply(object_document(stats))


@router.put("/objects")
def stage_object(
    lake: LakeDep, repository: str, branch: str, path: PathQuery, body: StageBody
) -> Response:
    """Make an object outside the repository's namespace the object at `path`."""
    stats = lake.linking.stage_outside(
        lake.writable(repository, force=body.force),
        branch,
        path,
        body.physical_address,
        checksum=body.checksum,
        size_bytes=body.size_bytes,
        mtime=_time(body.mtime),
        content_type=body.content_type or DEFAULT_CONTENT_TYPE,
        metadata=body.metadata,
    )
    document = object_document(stats)
    if not body.metadata:
        # lakeFS leaves it out of this reply when there is none.
        del document["metadata"]
    return json_reply(document, 201)


def _time(unix_seconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(unix_seconds, UTC) if unix_seconds is not None else None
