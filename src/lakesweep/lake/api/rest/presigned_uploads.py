"""Multipart uploads whose parts go straight to the store, over presigned URLs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from lakesweep.lake.api.replies import json_reply, no_content
from lakesweep.lake.api.rest.dependencies import LakeDep, PathQuery
from lakesweep.lake.api.rest.models import CompletePresignedBody, StagingBody
from lakesweep.lake.api.rest.wire import DEFAULT_CONTENT_TYPE, object_document
from lakesweep.lake.uploads.multipart import MOST_PARTS
from lakesweep.lake.values import NamedUpload

router = APIRouter(prefix="/repositories/{repository}/branches/{branch}/staging/pmpu")


@router.post("")
def create_presigned_upload(
    lake: LakeDep,
    repository: str,
    branch: str,
    path: PathQuery,
    parts: Annotated[int, Query(ge=0, le=MOST_PARTS)] = 0,
) -> Response:
    """Begin an upload, with URLs for its first parts."""
    upload = lake.presigned_multipart.create(lake.writable(repository), branch, path, parts)
    document: dict[str, object] = {
        "upload_id": upload.upload_id,
        "physical_address": upload.physical_address,
    }
    if upload.urls:
        document["presigned_urls"] = list(upload.urls)
    return json_reply(document, 201)


@router.put("/{uploadId}/parts/{partNumber}")
def sign_upload_part(
    lake: LakeDep,
    repository: str,
    branch: str,
    uploadId: str,
    partNumber: Annotated[int, Path(ge=1, le=MOST_PARTS)],
    path: PathQuery,
    body: StagingBody,
) -> Response:
    """A URL to put one part to."""
    named = NamedUpload(uploadId, branch, path, body.physical_address)
    url = lake.presigned_multipart.sign_part(lake.writable(repository), named, partNumber)
    return json_reply({"presigned_url": url})


@router.put("/{uploadId}")
def complete_presigned_upload(
    lake: LakeDep,
    repository: str,
    branch: str,
    uploadId: str,
    path: PathQuery,
    body: CompletePresignedBody,
) -> Response:
    """Make the parts the object at `path`."""
    stats = lake.presigned_multipart.complete(
        lake.writable(repository),
        NamedUpload(uploadId, branch, path, body.physical_address),
        [(part.part_number, part.etag) for part in body.parts],
        content_type=body.content_type or DEFAULT_CONTENT_TYPE,
        metadata=body.user_metadata,
    )
    return json_reply(object_document(stats))


@router.delete("/{uploadId}")
def abort_presigned_upload(
    lake: LakeDep, repository: str, branch: str, uploadId: str, path: PathQuery, body: StagingBody
) -> Response:
    """End an upload without an object."""
    named = NamedUpload(uploadId, branch, path, body.physical_address)
    lake.presigned_multipart.abort(lake.writable(repository), named)
    return no_content()
