"""What the server can do, told to clients before they ask for it."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter
from starlette.responses import Response

from lakesweep.lake.api.replies import json_reply, no_content
from lakesweep.lake.api.rest.dependencies import LakeDep
from lakesweep.lake.api.rest.wire import Document
from lakesweep.lake.values import LakeSettings

router = APIRouter()

# A collector that sees these may ask for more than lakeFS offers.
FEATURES = (
    "slices",
    "tracked-copies",
    "pending-uploads",
    "head-moves",
    "uncommitted-row-counts",
    "address-holders",
    "fence",
    "hard-deletes",
)
_ANY_STORE = r"^(local|s3|gs|https?|mem)://"


def _version_config() -> Document:
    # Clients warn about any other context than lakeFS's own.
    return {"version": f"lakesweep-{version('lakesweep')}", "version_context": "lakeFS"}


def _storage_config(settings: LakeSettings) -> Document:
    presigned = settings.presigned_store
    return {
        "blockstore_type": presigned or "local",
        "blockstore_namespace_example": "local://example-bucket/",
        "blockstore_namespace_ValidityRegex": _ANY_STORE,
        "default_namespace_prefix": "local://",
        "pre_sign_support": bool(presigned),
        "pre_sign_support_ui": False,
        "pre_sign_multipart_upload": presigned == "s3",
        "import_support": True,
        "import_validity_regex": _ANY_STORE,
        "blockstore_id": "",
        "blockstore_description": "",
    }


@router.get("/config")
async def get_config(lake: LakeDep) -> Response:
    """Everything in one document; `lakesweep` is ours."""
    return json_reply(
        {
            "version_config": _version_config(),
            "storage_config": _storage_config(lake.settings),
            "storage_config_list": [],
            "ui_config": {},
            "capabilities_config": {},
            "lakesweep": {"version": version("lakesweep"), "features": list(FEATURES)},
        }
    )


@router.get("/config/storage")
async def get_storage_config(lake: LakeDep) -> Response:
    """StorageConfig, for older clients."""
    return json_reply(_storage_config(lake.settings))


@router.get("/config/version")
async def get_version() -> Response:
    """VersionConfig, for older clients."""
    return json_reply(_version_config())


@router.get("/config/garbage-collection")
async def get_collection_config(lake: LakeDep) -> Response:
    """How long an issued address may be linked: younger objects must not be collected."""
    return json_reply({"grace_period": int(lake.settings.token_life.total_seconds())})


@router.post("/statistics")
async def receive_statistics() -> Response:
    """lakectl counts its commands; this server keeps no such counts."""
    return no_content()
