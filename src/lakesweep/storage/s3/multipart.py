"""Multipart uploads, by requests of our own."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from lakesweep.errors import StorageError
from lakesweep.storage.http_wire import Reply
from lakesweep.storage.s3.client import S3Client, error_of
from lakesweep.storage.s3.xml import local_name, parsed_xml


def create_upload(client: S3Client, key: str, what: str) -> str:
    """Begin an upload to `key`; its id."""
    return told_field(
        client.request("POST", what, key=key, query={"uploads": ""}), "UploadId", what
    )


def complete_upload(
    client: S3Client, key: str, upload_id: str, parts: Iterable[tuple[int, str]], what: str
) -> None:
    """Make the parts (number, etag) the object; `ObjectNotFoundError` when there is no such upload."""
    listed = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
        for number, etag in parts
    )
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    told(client.request("POST", what, key=key, query={"uploadId": upload_id}, body=body), what)


def abort_upload(client: S3Client, key: str, upload_id: str, what: str) -> None:
    """Remove the upload and its parts; `ObjectNotFoundError` from some servers when it is gone already."""
    client.request("DELETE", what, key=key, query={"uploadId": upload_id})


def told(reply: Reply, what: str) -> ElementTree.Element:
    """The answer's root; what failed half-way is an error inside a 200."""
    root = parsed_xml(reply.content, what)
    if local_name(root) == "Error":
        raise error_of(Reply(0, reply.headers, reply.content), what)
    return root


def told_field(reply: Reply, name: str, what: str) -> str:
    """One value of the answer."""
    for element in told(reply, what).iter():
        if local_name(element) == name and element.text:
            return element.text
    raise StorageError(f"{what}: the answer holds no {name}; nothing was written.")
