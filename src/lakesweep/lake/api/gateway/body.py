"""The body of an authenticated request, checked while it streams by: hash, chunk signatures, checksums, length.

Nothing of it counts until the iterator has ended: the checks that need the whole body raise at its end.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lakesweep.lake.api.gateway.checksums import (
    BodyChecksum,
    checksum_headers,
    decode_sum,
    open_checksum,
)
from lakesweep.lake.api.gateway.chunked import CHUNKED_PAYLOADS, decode_chunks
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.request import GatewayRequest
from lakesweep.lake.api.gateway.sigv4 import UNSIGNED_PAYLOAD, Authenticated

__all__ = ["LARGEST_OBJECT_BYTES", "LARGEST_XML_BYTES", "read_document", "verified_body"]

LARGEST_OBJECT_BYTES: Final = 5 * 2**30  # of one PUT or one part, as in S3
LARGEST_XML_BYTES: Final = 8 * 2**20  # 10,000 parts or 1,000 keys of 1 KiB, escaped, fit well

_SHA256_HEX: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class _ExpectedSum:
    name: str  # the header or trailing header that gives it
    running: BodyChecksum
    value: bytes | None  # None: it comes in the trailer


def verified_body(
    request: GatewayRequest, authenticated: Authenticated, *, is_object: bool = True
) -> Iterator[bytes]:
    """Yield the body's plain bytes.

    Args:
        is_object: whether the checksum headers are about this body, and not about what it has the server make.

    Raises:
        S3Error: before the first byte when the headers are wrong, at the end when the body is.
    """
    trailers: dict[str, str] = {}
    plain = _plain_bytes(request, authenticated, trailers)
    length = _announced_length(request, authenticated)
    sums = _expected_sums(request, authenticated, is_object=is_object)
    return _check_on_the_way(plain, length, sums, trailers)


def read_document(
    request: GatewayRequest, authenticated: Authenticated, *, is_object: bool = True
) -> bytes:
    """The whole of a small body (an XML document)."""
    document = bytearray()
    for piece in verified_body(request, authenticated, is_object=is_object):
        document += piece
        if len(document) > LARGEST_XML_BYTES:
            raise S3Error("MalformedXML", "The XML document in the request body is too large.")
    return bytes(document)


def _plain_bytes(
    request: GatewayRequest, authenticated: Authenticated, trailers: dict[str, str]
) -> Iterable[bytes]:
    payload_hash = authenticated.payload_hash
    if payload_hash in CHUNKED_PAYLOADS:
        return decode_chunks(request.body, authenticated, trailers)
    if payload_hash == UNSIGNED_PAYLOAD or _SHA256_HEX.fullmatch(payload_hash):
        return request.body
    raise S3Error(
        "InvalidArgument",
        f"x-amz-content-sha256 must be {UNSIGNED_PAYLOAD}, {', '.join(CHUNKED_PAYLOADS)} or a SHA-256.",
    )


def _announced_length(request: GatewayRequest, authenticated: Authenticated) -> int | None:
    name = "content-length"
    if authenticated.payload_hash in CHUNKED_PAYLOADS:
        name = "x-amz-decoded-content-length"
    text = request.headers.get(name)
    if text is None:
        if name != "content-length":
            raise S3Error("MissingContentLength", f"You must provide the {name} HTTP header.")
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise S3Error("InvalidArgument", f"{name} must be a number.")
    length = int(text)
    _check_size(length)
    return length


def _check_size(length: int) -> None:
    if length > LARGEST_OBJECT_BYTES:
        raise S3Error(
            "EntityTooLarge",
            "Your proposed upload exceeds the maximum allowed size; upload it in parts.",
            MaxSizeAllowed=str(LARGEST_OBJECT_BYTES),
        )


def _expected_sums(
    request: GatewayRequest, authenticated: Authenticated, *, is_object: bool
) -> list[_ExpectedSum]:
    sums = [
        _ExpectedSum(name, open_checksum(name), decode_sum(name, value))
        for name, value in checksum_headers(request.headers if is_object else {}).items()
    ]
    if (md5 := request.headers.get("content-md5")) is not None:
        value = decode_sum("content-md5", md5)
        sums.append(_ExpectedSum("content-md5", hashlib.md5(usedforsecurity=False), value))
    if _SHA256_HEX.fullmatch(authenticated.payload_hash):
        digest = bytes.fromhex(authenticated.payload_hash)
        sums.append(_ExpectedSum("x-amz-content-sha256", hashlib.sha256(), digest))
    announced = request.headers.get("x-amz-trailer", "").lower().split(",")
    sums.extend(
        _ExpectedSum(name, open_checksum(name), None)
        for name in checksum_headers(dict.fromkeys((part.strip() for part in announced), ""))
    )
    return sums


def _check_on_the_way(
    plain: Iterable[bytes],
    announced_length: int | None,
    sums: list[_ExpectedSum],
    trailers: dict[str, str],
) -> Iterator[bytes]:
    length = 0
    for piece in plain:
        length += len(piece)
        _check_size(length)
        for expected in sums:
            expected.running.update(piece)
        yield piece
    if announced_length is not None and length != announced_length:
        raise S3Error(
            "IncompleteBody",
            f"The request body has {length} bytes of data and its headers promise {announced_length}.",
        )
    for expected in sums:
        _check_sum(expected, trailers)


def _check_sum(expected: _ExpectedSum, trailers: dict[str, str]) -> None:
    value = expected.value
    if value is None:
        if expected.name not in trailers:
            raise S3Error("IncompleteBody", f"The trailing header {expected.name} did not come.")
        value = decode_sum(expected.name, trailers[expected.name])
    if hmac.compare_digest(expected.running.digest(), value):
        return
    if expected.name == "x-amz-content-sha256":
        raise S3Error(
            "XAmzContentSHA256Mismatch",
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        )
    raise S3Error(
        "BadDigest", f"The body does not match the sum in {expected.name}; nothing was stored."
    )
