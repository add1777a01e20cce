"""Which operation a request is: by level (service, bucket, object), method and sub-resource.

What this gateway does not do is known by name, so that a client reads `GetBucketPolicy is not implemented` and never
mistakes a listing for a policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from lakesweep.lake.api.gateway import buckets, copying, deleting, listing, multipart, objects
from lakesweep.lake.api.gateway.call import Handler
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.request import GatewayRequest

__all__ = ["find_handler"]

Level = Literal["Service", "Bucket", "Object"]

# Query names that turn a request into another operation, with the noun they have in its name.
_BUCKET_SUBRESOURCES: Final[Mapping[str, str]] = {
    "accelerate": "AccelerateConfiguration",
    "acl": "Acl",
    "analytics": "AnalyticsConfiguration",
    "cors": "Cors",
    "encryption": "Encryption",
    "intelligent-tiering": "IntelligentTieringConfiguration",
    "inventory": "InventoryConfiguration",
    "lifecycle": "LifecycleConfiguration",
    "location": "Location",
    "logging": "Logging",
    "metadataTable": "MetadataTableConfiguration",
    "metrics": "MetricsConfiguration",
    "notification": "NotificationConfiguration",
    "object-lock": "ObjectLockConfiguration",
    "ownershipControls": "OwnershipControls",
    "policy": "Policy",
    "policyStatus": "PolicyStatus",
    "publicAccessBlock": "PublicAccessBlock",
    "replication": "Replication",
    "requestPayment": "RequestPayment",
    "session": "Session",
    "tagging": "Tagging",
    "versioning": "Versioning",
    "versions": "ObjectVersions",
    "website": "Website",
}
_OBJECT_SUBRESOURCES: Final[Mapping[str, str]] = {
    "acl": "Acl",
    "attributes": "Attributes",
    "encryption": "Encryption",
    "legal-hold": "LegalHold",
    "partNumber": "PartNumber",
    "renameObject": "Rename",
    "restore": "Restore",
    "retention": "Retention",
    "select": "SelectContent",
    "tagging": "Tagging",
    "torrent": "Torrent",
    "versionId": "Version",
}
_VERBS: Final[Mapping[str, str]] = {
    "GET": "Get",
    "HEAD": "Head",
    "PUT": "Put",
    "POST": "Post",
    "DELETE": "Delete",
}


def find_handler(request: GatewayRequest) -> Handler:
    """The operation that the request asks for.

    Raises:
        S3Error: NotImplemented with the operation's name.
    """
    if not request.bucket:
        return _find_service_handler(request)
    if not request.key:
        return _find_bucket_handler(request)
    return _find_object_handler(request)


def _find_service_handler(request: GatewayRequest) -> Handler:
    if request.key:
        # Two slashes before a bucket: a list of buckets is not the object that is meant.
        raise S3Error("NoSuchBucket", "The path names no bucket before its key.")
    if request.method == "GET":
        return buckets.list_buckets
    raise _not_implemented(request, "Service")


def _find_bucket_handler(request: GatewayRequest) -> Handler:
    query, method = request.query, request.method
    if method == "GET" and "location" in query:
        return buckets.get_bucket_location
    if method == "GET" and "versioning" in query:
        return buckets.get_bucket_versioning
    if method == "GET" and "uploads" in query:
        return multipart.list_multipart_uploads
    if method == "POST" and "delete" in query:
        return deleting.delete_objects
    _refuse_subresources(request, "Bucket", _BUCKET_SUBRESOURCES)
    if method == "GET":
        return listing.list_objects_v2 if query.get("list-type") == "2" else listing.list_objects
    handlers: dict[str, Handler] = {
        "HEAD": buckets.head_bucket,
        "PUT": buckets.create_bucket,
    }
    if method not in handlers:
        raise _not_implemented(request, "Bucket")
    return handlers[method]


def _find_object_handler(request: GatewayRequest) -> Handler:
    query, method = request.query, request.method
    is_copy = "x-amz-copy-source" in request.headers
    if "uploadId" in query:
        handlers: dict[str, Handler] = {
            "GET": multipart.list_parts,
            "PUT": multipart.upload_part_copy if is_copy else multipart.upload_part,
            "POST": multipart.complete_multipart_upload,
            "DELETE": multipart.abort_multipart_upload,
        }
    elif method == "POST" and "uploads" in query:
        return multipart.create_multipart_upload
    elif method == "GET" and "tagging" in query:
        return objects.get_object_tagging
    else:
        _refuse_subresources(request, "Object", _OBJECT_SUBRESOURCES)
        handlers = {
            "GET": objects.get_object,
            "HEAD": objects.head_object,
            "PUT": copying.copy_object if is_copy else objects.put_object,
            "DELETE": objects.delete_object,
        }
    if method not in handlers:
        raise _not_implemented(request, "Object")
    return handlers[method]


def _refuse_subresources(
    request: GatewayRequest, level: Level, subresources: Mapping[str, str]
) -> None:
    for name in request.query:
        if name in subresources:
            raise _not_implemented(request, level, subresources[name])


def _not_implemented(request: GatewayRequest, level: Level, noun: str = "") -> S3Error:
    operation = f"{_VERBS.get(request.method, request.method)}{level}{noun}"
    return S3Error(
        "NotImplemented", f"{operation} is not implemented by this gateway; nothing was done."
    )
