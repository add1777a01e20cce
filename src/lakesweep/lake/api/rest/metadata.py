"""Ranges and metaranges, the files that commits are made of."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path
from starlette.responses import Response

from lakesweep.lake.api.replies import json_reply, redirect_reply
from lakesweep.lake.api.rest.dependencies import LakeDep
from lakesweep.lake.errors import GoneError, MissingError

router = APIRouter(prefix="/repositories/{repository}/metadata")

# The id becomes part of a storage key, so nothing but an id gets through.
MetadataId = Annotated[str, Path(pattern=r"^[0-9a-f]{1,64}$")]


@router.get("/meta_range/{meta_range_id}")
def get_meta_range(lake: LakeDep, repository: str, meta_range_id: MetadataId) -> Response:
    """Where a metarange lies."""
    lake.repositories.get(repository)
    return _location_reply(lake.dumping.metadata_location(meta_range_id))


@router.get("/range/{range_id}")
def get_range(lake: LakeDep, repository: str, range_id: MetadataId) -> Response:
    """Where a range lies."""
    lake.repositories.get(repository)
    return _location_reply(lake.dumping.metadata_location(range_id))


@router.get("/object/{type}/{object_id}")
def get_metadata_object(
    lake: LakeDep,
    repository: str,
    type: Literal["range", "meta_range"],
    object_id: MetadataId,
    presign: bool = False,
) -> Response:
    """The bytes of a range or metarange, or the way to them in the store."""
    found = lake.repositories.get(repository)
    if presign:
        key = lake.dumping.metadata_location(object_id)
        return redirect_reply(lake.signed_urls.sign_key(found, key))
    try:
        data = lake.dumping.read_metadata_object(found, object_id)
    except MissingError as missing:
        if missing.kind != "metarange-not-found":
            raise
        # To lakeFS these are bytes like any others, so clients expect them to be gone, not unknown.
        raise GoneError(missing.message) from missing
    return Response(data, media_type="application/octet-stream")


def _location_reply(location: str) -> Response:
    return json_reply({"location": location}, headers={"Location": location})
