"""CopyObject, and its many-part form for objects above S3's limit."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from lakesweep.errors import StorageError
from lakesweep.storage.http_wire import Reply
from lakesweep.storage.s3.client import S3Client, error_of
from lakesweep.storage.s3.xml import local_name, parsed_xml

LARGEST_SINGLE_COPY = 5 << 30
_PART_BYTES = 1 << 30


def copy_whole(client: S3Client, source: str, target_key: str) -> None:
    """Copies `source` (bucket/key) to `target_key` in one request, which S3 refuses above its limit."""
    what = _what(client, source, target_key)
    _told(client.request("PUT", what, key=target_key, headers=_copy_source(source)), what)


def copy_object(
    client: S3Client,
    source: str,
    size: int,
    target_key: str,
    *,
    largest_single_copy: int = LARGEST_SINGLE_COPY,
    part_bytes: int = _PART_BYTES,
) -> None:
    """Copies `source` (bucket/key) of `size` bytes to `target_key` in the client's bucket, on the server's side."""
    if size <= largest_single_copy:
        copy_whole(client, source, target_key)
        return
    what = _what(client, source, target_key)
    started = client.request("POST", what, key=target_key, query={"uploads": ""})
    upload_id = _field(started, "UploadId", what)
    try:
        parts: list[str] = []
        for number, byte_range in enumerate(_ranges(size, part_bytes), start=1):
            reply = client.request(
                "PUT",
                what,
                key=target_key,
                query={"partNumber": str(number), "uploadId": upload_id},
                headers={**_copy_source(source), "x-amz-copy-source-range": byte_range},
            )
            etag = _field(reply, "ETag", what)
            parts.append(
                f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
            )
        body = f"<CompleteMultipartUpload>{''.join(parts)}</CompleteMultipartUpload>".encode()
        done = client.request(
            "POST", what, key=target_key, query={"uploadId": upload_id}, body=body
        )
        _told(done, what)
    except BaseException:
        client.request("DELETE", what, key=target_key, query={"uploadId": upload_id})
        raise


def _what(client: S3Client, source: str, target_key: str) -> str:
    return f"copying s3://{source} to s3://{client.bucket}/{target_key}"


def _copy_source(source: str) -> dict[str, str]:
    return {"x-amz-copy-source": "/" + quote(source, safe="/~")}


def _ranges(size: int, part_bytes: int) -> Iterator[str]:
    for start in range(0, size, part_bytes):
        yield f"bytes={start}-{min(start + part_bytes, size) - 1}"


def _told(reply: Reply, what: str) -> ElementTree.Element:
    """The answer's root; a copy that failed half-way is an error inside a 200."""
    root = parsed_xml(reply.content, what)
    if local_name(root) == "Error":
        raise error_of(Reply(0, reply.headers, reply.content), what)
    return root


def _field(reply: Reply, name: str, what: str) -> str:
    for element in _told(reply, what).iter():
        if local_name(element) == name and element.text:
            return element.text
    raise StorageError(f"{what}: the answer holds no {name}; the copy was not made.")
