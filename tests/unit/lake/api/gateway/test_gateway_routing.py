"""Which operation a request is, and what is refused by name."""

from __future__ import annotations

import pytest

from lakesweep.lake.api.gateway import buckets, copying, deleting, listing, multipart, objects
from lakesweep.lake.api.gateway.call import Handler
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.request import GatewayRequest, parse_query
from lakesweep.lake.api.gateway.routing import find_handler


def request(
    method: str, bucket: str = "", key: str = "", query: str = "", **headers: str
) -> GatewayRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return GatewayRequest(method, "", query, named, bucket, key, dict(parse_query(query)))


@pytest.mark.parametrize(
    ("asked", "handler"),
    [
        (request("GET"), buckets.list_buckets),
        (request("HEAD", "repo"), buckets.head_bucket),
        (request("PUT", "repo"), buckets.create_bucket),
        (request("GET", "repo", query="location"), buckets.get_bucket_location),
        (request("GET", "repo", query="versioning"), buckets.get_bucket_versioning),
        (request("GET", "repo"), listing.list_objects),
        (request("GET", "repo", query="list-type=2&prefix=acl"), listing.list_objects_v2),
        (request("GET", "repo", query="uploads"), multipart.list_multipart_uploads),
        (request("POST", "repo", query="delete"), deleting.delete_objects),
        (request("GET", "repo", "main/a"), objects.get_object),
        (request("GET", "repo", "main/a", "x-id=GetObject"), objects.get_object),
        (request("HEAD", "repo", "main/a"), objects.head_object),
        (request("PUT", "repo", "main/a"), objects.put_object),
        (request("DELETE", "repo", "main/a"), objects.delete_object),
        (request("GET", "repo", "main/a", "tagging"), objects.get_object_tagging),
        (request("PUT", "repo", "main/a", x_amz_copy_source="/r/m/b"), copying.copy_object),
        (request("POST", "repo", "main/a", "uploads"), multipart.create_multipart_upload),
        (request("PUT", "repo", "main/a", "uploadId=u&partNumber=1"), multipart.upload_part),
        (
            request("PUT", "repo", "main/a", "uploadId=u&partNumber=1", x_amz_copy_source="/r/m/b"),
            multipart.upload_part_copy,
        ),
        (request("GET", "repo", "main/a", "uploadId=u"), multipart.list_parts),
        (request("POST", "repo", "main/a", "uploadId=u"), multipart.complete_multipart_upload),
        (request("DELETE", "repo", "main/a", "uploadId=u"), multipart.abort_multipart_upload),
    ],
)
def test_requests_find_their_operation(asked: GatewayRequest, handler: Handler) -> None:
    """Level, method, sub-resource and copy source decide."""
    assert find_handler(asked) is handler


@pytest.mark.parametrize(
    ("asked", "operation"),
    [
        (request("POST"), "PostService"),
        (request("DELETE", "repo"), "DeleteBucket"),
        (request("GET", "repo", query="policy"), "GetBucketPolicy"),
        (request("PUT", "repo", query="versioning"), "PutBucketVersioning"),
        (request("DELETE", "repo", query="lifecycle"), "DeleteBucketLifecycleConfiguration"),
        (request("POST", "repo"), "PostBucket"),
        (request("GET", "repo", "main/a", "acl"), "GetObjectAcl"),
        (request("GET", "repo", "main/a", "partNumber=1"), "GetObjectPartNumber"),
        (request("DELETE", "repo", "main/a", "versionId=1"), "DeleteObjectVersion"),
        (request("POST", "repo", "main/a", "select&select-type=2"), "PostObjectSelectContent"),
        (request("PATCH", "repo", "main/a"), "PATCHObject"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(asked: GatewayRequest, operation: str) -> None:
    """No sub-resource falls through to a plain read, write or delete."""
    with pytest.raises(S3Error) as caught:
        find_handler(asked)
    assert caught.value.status == 501
    assert f"{operation} is not implemented" in caught.value.message


def test_a_key_without_a_bucket_is_no_list_of_buckets() -> None:
    """A client that puts a slash too many before the bucket would take the list for the object that it reads."""
    with pytest.raises(S3Error) as caught:
        find_handler(request("GET", "", "repo/main/a"))
    assert caught.value.code == "NoSuchBucket"
