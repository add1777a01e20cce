"""Buckets are repositories: they are listed and looked up here, and created and deleted through the REST API."""

from __future__ import annotations

from lakesweep.lake.api.gateway.arguments import decode_token, encode_token, read_amount
from lakesweep.lake.api.gateway.call import GatewayResponse, S3Call, xml_response
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.xml import Node, format_time
from lakesweep.lake.errors import MissingError
from lakesweep.lake.values import MAX_PAGE

__all__ = [
    "create_bucket",
    "get_bucket_location",
    "get_bucket_versioning",
    "head_bucket",
    "list_buckets",
]


def list_buckets(call: S3Call) -> GatewayResponse:
    """Every repository that the key reaches, or a page of them when the client asks for pages (`max-buckets`)."""
    query = call.request.query
    asked = read_amount(query, "max-buckets", largest=10_000, default=0)
    after = decode_token(query.get("continuation-token"))
    prefix = query.get("prefix", "")
    buckets: list[Node] = []
    while True:
        amount = min(MAX_PAGE, asked - len(buckets)) if asked else MAX_PAGE
        page = call.lake.repositories.page(
            prefix=prefix, after=after, amount=amount, caller=call.caller
        )
        buckets += [
            ("Bucket", [("Name", found.id), ("CreationDate", format_time(found.creation_date))])
            for found in page.results
        ]
        after = page.next_offset
        if not page.has_more or (asked and len(buckets) >= asked):
            break
    owner: Node = ("Owner", [("ID", call.authenticated.access_key_id), ("DisplayName", "")])
    children: list[Node] = [owner, ("Buckets", buckets)]
    if page.has_more:
        children.append(("ContinuationToken", encode_token(after)))
    return xml_response("ListAllMyBucketsResult", children)


def head_bucket(call: S3Call) -> GatewayResponse:
    """200 when the repository exists."""
    call.repository()
    return GatewayResponse()


def create_bucket(call: S3Call) -> GatewayResponse:
    """Never creates: a repository needs a storage namespace, which S3 has no word for."""
    try:
        call.repository()
    except MissingError:
        raise S3Error(
            "NotImplemented",
            "CreateBucket is not implemented: create the repository through the REST API.",
        ) from None
    raise S3Error("BucketAlreadyExists", "The requested bucket name is not available.")


def get_bucket_location(call: S3Call) -> GatewayResponse:
    """Empty, which S3 clients read as us-east-1; signatures of every region are accepted."""
    call.repository()
    return xml_response("LocationConstraint", [])


def get_bucket_versioning(call: S3Call) -> GatewayResponse:
    """Empty: versions are commits here, and no S3 version ids exist."""
    call.repository()
    return xml_response("VersioningConfiguration", [])
