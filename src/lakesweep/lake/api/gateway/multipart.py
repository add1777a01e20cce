"""Multipart uploads: the lake keeps the parts and tracks the upload, so that no collection takes it for garbage."""

from __future__ import annotations

import re
from typing import Final

from lakesweep.lake.api.gateway.arguments import (
    decode_token,
    encode_token,
    quote_etag,
    read_amount,
    read_user_metadata,
    refuse_unsupported_headers,
)
from lakesweep.lake.api.gateway.call import GatewayResponse, S3Call, xml_response
from lakesweep.lake.api.gateway.conditions import check_put_conditions
from lakesweep.lake.api.gateway.copying import check_entry, check_source, read_copy_source
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.object_sums import check_of_parts
from lakesweep.lake.api.gateway.objects import read_range
from lakesweep.lake.api.gateway.xml import Document, Node, format_time
from lakesweep.lake.values import ByteRange, MultipartUpload, UploadedPart

__all__ = [
    "abort_multipart_upload",
    "complete_multipart_upload",
    "create_multipart_upload",
    "list_multipart_uploads",
    "list_parts",
    "upload_part",
    "upload_part_copy",
]

_MOST_PARTS: Final = 10_000
_MOST_LISTED: Final = 1000


def create_multipart_upload(call: S3Call) -> GatewayResponse:
    """Begin an upload; its content type and metadata are given here."""
    request, name = call.request, call.object_name
    refuse_unsupported_headers(request)
    upload = call.lake.multipart.create(
        call.writable(),
        name.ref,
        name.path,
        content_type=request.headers.get("content-type", ""),
        metadata=read_user_metadata(request),
    )
    return xml_response(
        "InitiateMultipartUploadResult",
        [*_upload_nodes(call), ("UploadId", upload.upload_id)],
    )


def upload_part(call: S3Call) -> GatewayResponse:
    """Store one part; it counts only once its whole body came and proved itself."""
    refuse_unsupported_headers(call.request)
    upload = _find_upload(call)
    part = call.lake.multipart.upload_part(
        call.repository(),
        upload.upload_id,
        _read_part_number(call),
        call.read_body(),
    )
    return GatewayResponse(headers={"ETag": quote_etag(part.etag)})


def upload_part_copy(call: S3Call) -> GatewayResponse:
    """Store one part out of an existing object or a range of it."""
    request = call.request
    refuse_unsupported_headers(request)
    upload, part_number = _find_upload(call), _read_part_number(call)
    source = read_copy_source(call)
    check_source(call, source)
    asked = _read_source_range(request.headers.get("x-amz-copy-source-range"))
    content = call.lake.objects.open(
        call.lake.repositories.get(source.repository_id), source.ref, source.path, asked
    )
    # Of the entry whose bytes these are: parts of two contents would make an object that nobody wrote.
    check_entry(call, content.stats)
    if asked is not None and asked.last != content.start + content.length - 1:
        # The source is shorter than the client thinks, and its object would lack those bytes.
        raise S3Error(
            "InvalidArgument",
            f"Range specified is not valid for source object of size: {content.stats.size_bytes}",
        )
    part = call.lake.multipart.upload_part(
        call.repository(),
        upload.upload_id,
        part_number,
        content.chunks,
    )
    children: list[Node] = [("ETag", quote_etag(part.etag))]
    if part.last_modified is not None:
        children.insert(0, ("LastModified", format_time(part.last_modified)))
    return xml_response("CopyPartResult", children)


def list_parts(call: S3Call) -> GatewayResponse:
    """The parts stored so far, in pages."""
    query = call.request.query
    upload = _find_upload(call)
    after = read_amount(query, "part-number-marker", largest=_MOST_PARTS, default=0)
    amount = read_amount(query, "max-parts", largest=_MOST_LISTED, default=_MOST_LISTED)
    later = [
        part
        for part in call.lake.multipart.list_parts(call.repository(), upload.upload_id)
        if part.part_number > after
    ]
    page = later[:amount]
    children: list[Node] = [
        *_upload_nodes(call),
        ("UploadId", upload.upload_id),
        ("StorageClass", "STANDARD"),
        ("PartNumberMarker", str(after)),
        ("NextPartNumberMarker", str(page[-1].part_number if page else 0)),
        ("MaxParts", str(amount)),
        ("IsTruncated", "true" if len(page) < len(later) and page else "false"),
    ]
    children += [("Part", _part_nodes(part)) for part in page]
    return xml_response("ListPartsResult", children)


def complete_multipart_upload(call: S3Call) -> GatewayResponse:
    """Join the parts that the client names, in its order, into one object and stage it."""
    upload = _find_upload(call)
    check = check_of_parts(call.request.headers)
    parts = _read_parts(call.read_xml("CompleteMultipartUpload", is_object=False))
    completed = call.lake.multipart.complete(
        call.repository(),
        upload.upload_id,
        parts,
        if_absent=check_put_conditions(call.request.headers),
        check=check,
    )
    location = f"/{call.repository_id}/{call.request.key}"
    return xml_response(
        "CompleteMultipartUploadResult",
        [("Location", location), *_upload_nodes(call), ("ETag", quote_etag(completed.etag))],
    )


def abort_multipart_upload(call: S3Call) -> GatewayResponse:
    """Give the upload up; its parts go."""
    call.lake.multipart.abort(call.repository(), _find_upload(call).upload_id)
    return GatewayResponse(204)


def list_multipart_uploads(call: S3Call) -> GatewayResponse:
    """Uploads under way, in pages."""
    query = call.request.query
    asked = read_amount(query, "max-uploads", largest=_MOST_LISTED, default=_MOST_LISTED)
    amount = max(1, asked)
    page = call.lake.multipart.page(
        call.repository(),
        after=decode_token(query.get("upload-id-marker")),
        amount=amount,
    )
    prefix = query.get("prefix", "")
    children: list[Node] = [
        ("Bucket", call.repository_id),
        ("Prefix", prefix),
        ("MaxUploads", str(amount)),
        ("IsTruncated", "true" if page.has_more else "false"),
    ]
    if page.has_more:
        children.append(("NextUploadIdMarker", encode_token(page.next_offset)))
    for upload in page.results:
        key = f"{upload.branch_id}/{upload.path}"
        if key.startswith(prefix):
            children.append(("Upload", [("Key", key), ("UploadId", upload.upload_id)]))
    return xml_response("ListMultipartUploadsResult", children)


def _find_upload(call: S3Call) -> MultipartUpload:
    """The upload, if it is one of this very key: an id alone opens nothing elsewhere."""
    upload = call.lake.multipart.get(call.repository(), call.request.query["uploadId"])
    name = call.object_name
    if (upload.branch_id, upload.path) != (name.ref, name.path):
        raise S3Error(
            "NoSuchUpload",
            "The specified multipart upload does not exist for this key.",
            UploadId=upload.upload_id,
        )
    return upload


def _read_source_range(header: str | None) -> ByteRange | None:
    asked = read_range(header)
    if header and (asked is None or asked.last is None):
        raise S3Error(
            "InvalidArgument",
            "The x-amz-copy-source-range value must be of the form bytes=first-last.",
        )
    return asked


def _read_part_number(call: S3Call) -> int:
    text = call.request.query.get("partNumber", "")
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= _MOST_PARTS:
        raise S3Error(
            "InvalidArgument",
            f"Part number must be an integer between 1 and {_MOST_PARTS}, inclusive",
            ArgumentName="partNumber",
            ArgumentValue=text[:100],
        )
    return int(text)


def _read_parts(document: Document) -> list[UploadedPart]:
    parts: list[UploadedPart] = []
    for item in document.children("Part"):
        number, etag = (item.text("PartNumber") or "").strip(), item.text("ETag")
        if not re.fullmatch(r"[0-9]{1,5}", number) or etag is None:
            raise S3Error("MalformedXML", "A part needs a PartNumber and an ETag.")
        if parts and int(number) <= parts[-1].part_number:
            raise S3Error("InvalidPartOrder", "The list of parts was not in ascending order.")
        parts.append(UploadedPart(int(number), etag.strip().strip('"')))
    if not parts:
        raise S3Error("MalformedXML", "You must specify at least one part")
    return parts


def _upload_nodes(call: S3Call) -> list[Node]:
    return [("Bucket", call.repository_id), ("Key", call.request.key)]


def _part_nodes(part: UploadedPart) -> list[Node]:
    nodes: list[Node] = [("PartNumber", str(part.part_number))]
    if part.last_modified is not None:
        nodes.append(("LastModified", format_time(part.last_modified)))
    return [*nodes, ("ETag", quote_etag(part.etag)), ("Size", str(part.size_bytes))]
