"""Chunked and checked bodies: what arrives whole and unaltered is passed on, anything else raises."""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import zlib
from collections.abc import Iterable, Iterator

import pytest
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.lake.api.gateway.body import read_document, verified_body
from lakesweep.lake.api.gateway.checksums import open_checksum
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.request import GatewayRequest
from lakesweep.lake.api.gateway.sigv4 import Authenticated, SigningKey

SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
KEY = b"k" * 32
SCOPE = "20260101/us-east-1/s3/aws4_request"
TIME = "20260101T000000Z"
SEED = "5" * 64


def authenticated(payload: str) -> Authenticated:
    return Authenticated("AKIA", payload, SigningKey(KEY, SCOPE, TIME), SEED)


def sign(kind: str, *lines: str) -> str:
    text = "\n".join((kind, TIME, SCOPE, *lines))
    return hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()


def encode_signed(chunks: Iterable[bytes], trailer: str | None = None) -> bytes:
    """A signed chunked body, written from the protocol's description and not from our reader."""
    out, previous = b"", SEED
    for chunk in [*chunks, b""]:
        empty = hashlib.sha256(b"").hexdigest()
        previous = sign(
            "AWS4-HMAC-SHA256-PAYLOAD", previous, empty, hashlib.sha256(chunk).hexdigest()
        )
        out += b"%x;chunk-signature=%s\r\n" % (len(chunk), previous.encode())
        out += chunk + b"\r\n" if chunk else b""
    if trailer is not None:
        digest = hashlib.sha256(f"{trailer}\n".encode()).hexdigest()
        signature = sign("AWS4-HMAC-SHA256-TRAILER", previous, digest)
        out += f"{trailer}\r\nx-amz-trailer-signature:{signature}\r\n".encode()
    return out + b"\r\n"


def crc32_header(data: bytes) -> str:
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


def read(body: bytes, payload: str, cuts: int = 7, **headers: str) -> bytes:
    pieces = (body[at : at + cuts] for at in range(0, len(body), cuts))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = GatewayRequest("PUT", "/r/main/a", "", named, body=pieces)
    return b"".join(verified_body(request, authenticated(payload)))


def refusal(*args: object, **kwargs: object) -> str:
    with pytest.raises(S3Error) as caught:
        read(*args, **kwargs)  # type: ignore[arg-type]
    return caught.value.code


CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=5)


@given(chunks=CHUNKS, cuts=st.integers(1, 50))
def test_signed_chunks_are_decoded(chunks: list[bytes], cuts: int) -> None:
    """However the network cuts the body, its data comes out."""
    data = b"".join(chunks)
    length = str(len(data))
    assert read(encode_signed(chunks), SIGNED, cuts, x_amz_decoded_content_length=length) == data


@given(chunks=CHUNKS.filter(bool), data=st.data())
def test_any_altered_byte_of_signed_chunks_is_refused(
    chunks: list[bytes], data: st.DataObject
) -> None:
    """One byte changed anywhere in data, sizes, signatures or trailer raises before the iterator ends."""
    whole = b"".join(chunks)
    body = encode_signed(chunks, f"x-amz-checksum-crc32:{crc32_header(whole)}")
    at = data.draw(st.integers(0, len(body) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != body[at]))
    altered = body[:at] + bytes([other]) + body[at + 1 :]
    headers = {
        "x_amz_decoded_content_length": str(len(whole)),
        "x_amz_trailer": "x-amz-checksum-crc32",
    }
    assert read(body, SIGNED_TRAILER, **headers) == whole
    try:
        decoded = read(altered, SIGNED_TRAILER, **headers)
    except S3Error:
        return
    # A size may be written in capital digits and a trailer's name in capital letters; no data differs then.
    assert decoded == whole
    assert altered.lower() == body.lower() or altered.split() == body.split()


@given(chunks=CHUNKS.filter(bool), data=st.data())
def test_a_body_cut_short_is_refused(chunks: list[bytes], data: st.DataObject) -> None:
    """A body that ends early is never taken for a whole one."""
    body = encode_signed(chunks)
    end = data.draw(st.integers(0, len(body) - 1))
    length = str(sum(map(len, chunks)))
    assert refusal(body[:end], SIGNED, x_amz_decoded_content_length=length) == "IncompleteBody"


def test_chunks_in_another_order_are_refused() -> None:
    """A chunk's signature covers the one before it, so chunks can't be moved."""
    body = encode_signed([b"one", b"two"])
    first, second = body.split(b"\r\n")[:2], body.split(b"\r\n")[2:4]
    moved = b"\r\n".join([*second, *first, *body.split(b"\r\n")[4:]])
    assert refusal(moved, SIGNED, x_amz_decoded_content_length="6") == "SignatureDoesNotMatch"


@given(data=st.binary(max_size=200), size=st.integers(1, 64))
def test_botocores_unsigned_trailer_is_decoded(data: bytes, size: int) -> None:
    """The form boto3 sends over TLS by default: unsigned chunks and a CRC32 in the trailer."""
    wrapper = AwsChunkedWrapper(
        io.BytesIO(data),
        checksum_cls=Crc32Checksum,
        checksum_name="x-amz-checksum-crc32",
        chunk_size=size,
    )
    headers = {
        "x_amz_decoded_content_length": str(len(data)),
        "x_amz_trailer": "x-amz-checksum-crc32",
    }
    assert read(wrapper.read(), UNSIGNED_TRAILER, **headers) == data


def test_a_trailer_that_contradicts_the_data_is_refused() -> None:
    """The checksum in the trailer is checked against what arrived."""
    body = b"3\r\nabc\r\n0\r\nx-amz-checksum-crc32:" + crc32_header(b"abd").encode() + b"\r\n\r\n"
    headers = {"x_amz_decoded_content_length": "3", "x_amz_trailer": "x-amz-checksum-crc32"}
    assert refusal(body, UNSIGNED_TRAILER, **headers) == "BadDigest"


def test_an_announced_trailer_that_does_not_come_is_refused() -> None:
    """A body without the sum it promised could have lost its end."""
    headers = {"x_amz_decoded_content_length": "3", "x_amz_trailer": "x-amz-checksum-crc32"}
    assert refusal(b"3\r\nabc\r\n0\r\n\r\n", UNSIGNED_TRAILER, **headers) == "IncompleteBody"


@pytest.mark.parametrize(
    "body",
    [b"3\r\nabcd\r\n0\r\n\r\n", b"zz\r\n", b"3;x=1\r\nabc\r\n", b"-3\r\nabc", b"a" * 5000, b""],
)
def test_malformed_chunks_are_refused(body: bytes) -> None:
    """Nonsense is an error of the client, never of the server."""
    assert refusal(body, UNSIGNED_TRAILER, x_amz_decoded_content_length="3") == "IncompleteBody"


def test_unsigned_chunks_do_not_pass_for_signed_ones() -> None:
    """Leaving the signatures out is no way around them."""
    assert (
        refusal(b"3\r\nabc\r\n0\r\n\r\n", SIGNED, x_amz_decoded_content_length="3")
        == "IncompleteBody"
    )


def test_a_decoded_length_that_is_wrong_or_missing_is_refused() -> None:
    """The promised length is part of the request."""
    body = encode_signed([b"abc"])
    assert refusal(body, SIGNED, x_amz_decoded_content_length="4") == "IncompleteBody"
    assert refusal(body, SIGNED) == "MissingContentLength"
    assert refusal(body, SIGNED, x_amz_decoded_content_length="9" * 5000) == "InvalidArgument"
    assert refusal(body, SIGNED, x_amz_decoded_content_length=str(2**40)) == "EntityTooLarge"


def test_a_hashed_body_must_match_its_hash() -> None:
    """The hash in `x-amz-content-sha256` is the body's, or nothing is stored."""
    good = hashlib.sha256(b"abc").hexdigest()
    assert read(b"abc", good, content_length="3") == b"abc"
    assert refusal(b"abd", good, content_length="3") == "XAmzContentSHA256Mismatch"
    assert refusal(b"abc", "not-a-hash") == "InvalidArgument"


def test_content_md5_and_checksum_headers_are_checked() -> None:
    """Each sum that came with the body is compared; one that can't be is refused by name."""
    md5 = base64.b64encode(hashlib.md5(b"abc").digest()).decode()
    assert read(b"abc", "UNSIGNED-PAYLOAD", content_md5=md5) == b"abc"
    assert refusal(b"abd", "UNSIGNED-PAYLOAD", content_md5=md5) == "BadDigest"
    assert (
        refusal(b"abd", "UNSIGNED-PAYLOAD", x_amz_checksum_crc32=crc32_header(b"abc"))
        == "BadDigest"
    )
    assert refusal(b"abc", "UNSIGNED-PAYLOAD", x_amz_checksum_crc32="?") == "InvalidRequest"
    assert refusal(b"abc", "UNSIGNED-PAYLOAD", x_amz_checksum_xxhash64="AAAA") == "NotImplemented"


@pytest.mark.parametrize(
    ("name", "hexadecimal"),
    [
        # The check values of the CRC catalogue, over the nine digits.
        ("crc32", "cbf43926"),
        ("crc32c", "e3069283"),
        ("crc64nvme", "ae8b14860a799888"),
        ("sha1", hashlib.sha1(b"123456789").hexdigest()),
        ("sha256", hashlib.sha256(b"123456789").hexdigest()),
    ],
)
def test_checksums_have_their_published_values(name: str, hexadecimal: str) -> None:
    """Every algorithm gives its known answer, in pieces as in one."""
    checksum = open_checksum(f"x-amz-checksum-{name}")
    checksum.update(b"1234")
    checksum.update(b"")
    checksum.update(b"56789")
    assert checksum.digest().hex() == hexadecimal


def test_a_document_has_a_size_limit() -> None:
    """An XML body is held in memory, so it may not be endless."""

    def endless() -> Iterator[bytes]:
        while True:
            yield b" " * 2**20

    request = GatewayRequest("POST", "/r", "delete", {}, body=endless())
    with pytest.raises(S3Error) as caught:
        read_document(request, authenticated("UNSIGNED-PAYLOAD"))
    assert caught.value.code == "MalformedXML"
