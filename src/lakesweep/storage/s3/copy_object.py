"""CopyObject, and its many-part form for objects above S3's limit."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from lakesweep.storage.s3.client import S3Client
from lakesweep.storage.s3.multipart import (
    abort_upload,
    complete_upload,
    create_upload,
    told,
    told_field,
)

LARGEST_SINGLE_COPY = 5 << 30
_PART_BYTES = 1 << 30


def copy_whole(client: S3Client, source: str, target_key: str) -> None:
    """Copies `source` (bucket/key) to `target_key` in one request, which S3 refuses above its limit."""
    what = _what(client, source, target_key)
    told(client.request("PUT", what, key=target_key, headers=_copy_source(source)), what)


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
    upload_id = create_upload(client, target_key, what)
    try:
        parts: list[tuple[int, str]] = []
        for number, byte_range in enumerate(_ranges(size, part_bytes), start=1):
            reply = client.request(
                "PUT",
                what,
                key=target_key,
                query={"partNumber": str(number), "uploadId": upload_id},
                headers={**_copy_source(source), "x-amz-copy-source-range": byte_range},
            )
            parts.append((number, told_field(reply, "ETag", what)))
        complete_upload(client, target_key, upload_id, parts, what)
    except BaseException:
        abort_upload(client, target_key, upload_id, what)
        raise


def _what(client: S3Client, source: str, target_key: str) -> str:
    return f"copying s3://{source} to s3://{client.bucket}/{target_key}"


def _copy_source(source: str) -> dict[str, str]:
    return {"x-amz-copy-source": "/" + quote(source, safe="/~")}


def _ranges(size: int, part_bytes: int) -> Iterator[str]:
    for start in range(0, size, part_bytes):
        yield f"bytes={start}-{min(start + part_bytes, size) - 1}"
