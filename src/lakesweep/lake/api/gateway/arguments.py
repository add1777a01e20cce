"""Small readings of query parameters and headers that several operations share."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from email.charset import QP, Charset
from email.errors import HeaderParseError
from email.header import Header, decode_header, make_header
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.request import GatewayRequest

__all__ = [
    "decode_token",
    "encode_token",
    "quote_etag",
    "read_amount",
    "read_user_metadata",
    "refuse_unsupported_headers",
    "url_decode",
    "url_encode",
    "user_metadata_headers",
]

# lakeFS keeps S3 metadata under the whole header name in this spelling, the rest of the name in lower case.
METADATA_PREFIX: Final = "X-Amz-Meta-"

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

# Headers that ask for something this gateway would not do. Ignoring them would be a wrong 200.
_UNSUPPORTED_PREFIXES: Final = (
    "x-amz-server-side-encryption",
    "x-amz-copy-source-server-side-encryption",
    "x-amz-object-lock-",
    "x-amz-grant-",
    "x-amz-tagging",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
)
_HARMLESS_VALUES: Final[Mapping[str, frozenset[str]]] = {
    "x-amz-storage-class": frozenset({"STANDARD"}),
    "x-amz-acl": frozenset({"private", "bucket-owner-full-control"}),
    "x-amz-tagging-directive": frozenset({"COPY"}),
}


def refuse_unsupported_headers(request: GatewayRequest) -> None:
    """Refuse a write that asks for encryption, locks, grants, tags or another storage class."""
    for name, value in request.headers.items():
        harmless = _HARMLESS_VALUES.get(name)
        if harmless is not None:
            is_supported = value in harmless
        else:
            is_supported = not name.startswith(_UNSUPPORTED_PREFIXES)
        if not is_supported:
            raise S3Error("NotImplemented", f"The header {name}: {value[:100]} is not implemented.")


def read_user_metadata(request: GatewayRequest) -> dict[str, str]:
    """The metadata of `X-Amz-Meta-*` headers, under the names that lakeFS stores them by."""
    return {
        METADATA_PREFIX + name: _decode_words(value)
        for name, value in request.user_headers(METADATA_PREFIX.lower())
    }


def user_metadata_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """The headers that carry an entry's S3 metadata; what REST clients stored beside it has no S3 name.

    Names that no header can have are counted in `x-amz-missing-meta`, as S3 does.
    """
    of_s3 = {
        name: value
        for name, value in metadata.items()
        if name.lower().startswith(METADATA_PREFIX.lower())
    }
    headers = {
        name: value if value.isascii() else _encode_words(value)
        for name, value in of_s3.items()
        if _HEADER_NAME.fullmatch(name)
    }
    missing = len(of_s3) - len(headers)
    return headers | ({"x-amz-missing-meta": str(missing)} if missing else {})


def _decode_words(value: str) -> str:
    """Read the RFC 2047 form in which clients send what is not ASCII."""
    if "=?" not in value:
        return value
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, UnicodeDecodeError):
        raise S3Error("InvalidArgument", "A metadata header is not valid RFC 2047 text.") from None


def _encode_words(value: str) -> str:
    quoted = Charset("utf-8")
    quoted.header_encoding = QP
    return Header(value, quoted, maxlinelen=2**16).encode(linesep="")


def read_amount(query: Mapping[str, str], name: str, *, largest: int, default: int) -> int:
    """A count from the query, cut at `largest`."""
    text = query.get(name)
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise S3Error(
            "InvalidArgument",
            f"Provided {name} not an integer or within integer range",
            ArgumentName=name,
            ArgumentValue=text[:100],
        )
    return min(int(text), largest)


def encode_token(key: str) -> str:
    """A continuation token: where the next page begins, safe in XML and in a URL whatever the key has in it."""
    return base64.urlsafe_b64encode(key.encode("utf-8", "surrogateescape")).decode()


def decode_token(token: str | None) -> str:
    """The key in a continuation token, "" without one."""
    if not token:
        return ""
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode(
            "utf-8", "surrogateescape"
        )
    except (binascii.Error, ValueError):
        raise S3Error("InvalidArgument", "The continuation token provided is incorrect") from None


def quote_etag(checksum: str) -> str:
    """An ETag header's value."""
    return f'"{checksum}"'


def url_encode(text: str) -> str:
    """A key as listings with `encoding-type=url` carry it."""
    return quote(text.encode("utf-8", "surrogateescape"), safe="/-_.~*")


def url_decode(text: str) -> str:
    """A percent-encoded key. As in S3 and lakeFS, a bare plus sign in a copy source is a space."""
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "surrogateescape")
