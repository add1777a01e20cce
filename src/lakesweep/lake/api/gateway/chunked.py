"""The `aws-chunked` body: data in chunks, each with a signature of its own or none, then trailing headers.

    <hex size>[;chunk-signature=<64 hex>]\\r\\n <data> \\r\\n … 0[;chunk-signature=…]\\r\\n [name:value\\r\\n …] \\r\\n

Each chunk's signature covers the one before it, the first the request's, so none can be left out, repeated or
moved. Data is passed on as it arrives, before the end of its chunk proves it: whoever consumes it must count it
as nothing until the iterator ends without an error.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.sigv4 import EMPTY_SHA256, Authenticated, SigningKey

__all__ = ["CHUNKED_PAYLOADS", "ChunkedPayload", "decode_chunks"]

_LONGEST_LINE: Final = 4096
_MOST_TRAILERS: Final = 16
_CHUNK_HEADER: Final = re.compile(rb"([0-9a-fA-F]{1,15})(?:;chunk-signature=([0-9a-f]{64}))?")
_TRAILER_SIGNATURE: Final = "x-amz-trailer-signature"


@dataclass(frozen=True, slots=True)
class ChunkedPayload:
    """One of the ways to send a chunked body, named in `x-amz-content-sha256`."""

    is_signed: bool
    has_trailer: bool


CHUNKED_PAYLOADS: Final[Mapping[str, ChunkedPayload]] = {
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": ChunkedPayload(is_signed=True, has_trailer=False),
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": ChunkedPayload(is_signed=True, has_trailer=True),
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER": ChunkedPayload(is_signed=False, has_trailer=True),
}


def decode_chunks(
    body: Iterable[bytes], authenticated: Authenticated, trailers: dict[str, str]
) -> Iterator[bytes]:
    """Yield the data of a chunked body, checking signatures on the way; fill `trailers` at its end.

    Raises:
        S3Error: a signature does not match, or the body is cut short or not in this form.
    """
    form = CHUNKED_PAYLOADS[authenticated.payload_hash]
    reader = _Reader(body)
    chain = _SignatureChain(authenticated.signing_key, authenticated.signature)
    while True:
        size, signature = _read_chunk_header(reader, form)
        digest = hashlib.sha256()
        for piece in reader.take(size):
            if form.is_signed:
                digest.update(piece)
            yield piece
        if signature is not None:
            chain.check_chunk(signature, digest.hexdigest())
        if size == 0:
            break
        reader.expect_line_end()
    _read_trailers(reader, form, chain, trailers)
    reader.expect_end()


def _read_chunk_header(reader: _Reader, form: ChunkedPayload) -> tuple[int, str | None]:
    found = _CHUNK_HEADER.fullmatch(reader.line())
    if found is None or (found[2] is not None) != form.is_signed:
        raise S3Error("IncompleteBody", "A chunk of the request body has a malformed header.")
    return int(found[1], 16), found[2].decode() if found[2] else None


def _read_trailers(
    reader: _Reader, form: ChunkedPayload, chain: _SignatureChain, trailers: dict[str, str]
) -> None:
    signature = None
    canonical = []
    while line := reader.line():
        name, colon, value = line.decode("utf-8", "surrogateescape").partition(":")
        name, value = name.strip().lower(), value.strip()
        if not colon or signature is not None or len(trailers) >= _MOST_TRAILERS:
            raise S3Error("IncompleteBody", "The request body's trailing headers are malformed.")
        if name == _TRAILER_SIGNATURE:
            signature = value
        else:
            trailers[name] = value
            canonical.append(f"{name}:{value}\n")
    if trailers and not form.has_trailer:
        raise S3Error(
            "IncompleteBody", "The request body has trailing headers it did not announce."
        )
    if form.is_signed and form.has_trailer:
        chain.check_trailer(signature or "", "".join(sorted(canonical)))


class _SignatureChain:
    """Checks each signature against the one before it."""

    def __init__(self, key: SigningKey, seed: str) -> None:
        self._key = key
        self._previous = seed

    def check_chunk(self, signature: str, data_sha256: str) -> None:
        self._check(signature, "AWS4-HMAC-SHA256-PAYLOAD", EMPTY_SHA256, data_sha256)

    def check_trailer(self, signature: str, canonical: str) -> None:
        digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
        self._check(signature, "AWS4-HMAC-SHA256-TRAILER", digest)

    def _check(self, signature: str, kind: str, *lines: str) -> None:
        expected = self._key.sign(kind, self._previous, *lines)
        if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogateescape")):
            raise S3Error(
                "SignatureDoesNotMatch",
                "A chunk of the request body does not match its signature; nothing was stored.",
            )
        self._previous = expected


class _Reader:
    """Takes lines and counted bytes off a stream of blocks, holding one block at a time."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._block = memoryview(b"")

    def take(self, size: int) -> Iterator[bytes]:
        while size:
            self._need_block()
            piece = self._block[:size]
            self._block = self._block[len(piece) :]
            size -= len(piece)
            yield bytes(piece)

    def line(self) -> bytes:
        """The bytes up to the next CRLF, without it."""
        line = bytearray()
        while not line.endswith(b"\r\n"):
            self._need_block()
            line.append(self._block[0])
            self._block = self._block[1:]
            if len(line) > _LONGEST_LINE:
                raise S3Error("IncompleteBody", "A header line in the request body is too long.")
        return bytes(line[:-2])

    def expect_line_end(self) -> None:
        if self.line():
            raise S3Error("IncompleteBody", "A chunk of the request body is longer than it says.")

    def expect_end(self) -> None:
        if self._block or any(self._blocks):
            raise S3Error("IncompleteBody", "The request body goes on after its last chunk.")

    def _need_block(self) -> None:
        while not self._block:
            try:
                self._block = memoryview(next(self._blocks))
            except StopIteration:
                raise S3Error(
                    "IncompleteBody",
                    "You did not provide the number of bytes specified by the Content-Length header.",
                ) from None
