"""What every operation of the gateway needs of the caller's key: one table, checked before any handler runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakesweep.lake.api.gateway import buckets, copying, deleting, listing, multipart, objects
from lakesweep.lake.api.gateway.call import Handler, S3Call
from lakesweep.lake.users.access import Need, check_access

__all__ = ["NEED_OF_OPERATION", "check_operation_access"]

# What a copy needs of its source is checked where the source is read (`copying.read_copy_source`).
NEED_OF_OPERATION: Final[Mapping[Handler, Need]] = {
    buckets.list_buckets: Need.KEY,
    buckets.head_bucket: Need.READ,
    buckets.create_bucket: Need.READ,  # never creates
    buckets.get_bucket_location: Need.READ,
    buckets.get_bucket_versioning: Need.READ,
    listing.list_objects: Need.READ,
    listing.list_objects_v2: Need.READ,
    objects.get_object: Need.READ,
    objects.head_object: Need.READ,
    objects.get_object_tagging: Need.READ,
    objects.put_object: Need.WRITE,
    objects.delete_object: Need.WRITE,
    deleting.delete_objects: Need.WRITE,
    copying.copy_object: Need.WRITE,
    multipart.create_multipart_upload: Need.WRITE,
    multipart.upload_part: Need.WRITE,
    multipart.upload_part_copy: Need.WRITE,
    multipart.complete_multipart_upload: Need.WRITE,
    multipart.abort_multipart_upload: Need.WRITE,
    multipart.list_multipart_uploads: Need.READ,
    multipart.list_parts: Need.READ,
}


def check_operation_access(handler: Handler, call: S3Call) -> None:
    """Refuse what the caller's key may not do; an operation that is not in the table needs every right."""
    check_access(call.caller, NEED_OF_OPERATION.get(handler, Need.MANAGE), call.repository_id)
