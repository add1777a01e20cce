"""AWS Signature Version 4: is this request from the holder of a secret key, unaltered, and recent?

Two forms carry the same signature: an `Authorization` header, or a presigned query (`X-Amz-Signature=…`).
Both sign the method, the path, the query, the signed headers and the payload's hash or the name of the way in
which the payload is signed (`chunked.py`). The path and query are decoded and encoded anew before they are
compared, so a client that escapes more than it must is still understood.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.request import GatewayRequest, parse_query

__all__ = [
    "CLOCK_SKEW",
    "UNSIGNED_PAYLOAD",
    "Authenticated",
    "SigningKey",
    "verify_request",
]

ALGORITHM: Final = "AWS4-HMAC-SHA256"
CLOCK_SKEW: Final = timedelta(minutes=15)
LONGEST_PRESIGN_SECONDS: Final = 7 * 24 * 3600
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()

_TIME_FORMAT: Final = "%Y%m%dT%H%M%SZ"
_HEX_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}")
_AUTHORIZATION_FIELD: Final = re.compile(r"\s*(Credential|SignedHeaders|Signature)=([^,\s]+)\s*")
_QUERY_SIGNATURE: Final = "X-Amz-Signature"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key of one day, region and service, with which a request and its chunks are signed."""

    key: bytes
    scope: str
    timestamp: str

    def sign(self, kind: str, *lines: str) -> str:
        """Sign `kind`, the time, the scope and `lines`."""
        text = "\n".join((kind, self.timestamp, self.scope, *lines))
        return hmac.new(
            self.key, text.encode("utf-8", "surrogateescape"), hashlib.sha256
        ).hexdigest()


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Who signed the request, how its payload is signed, and what is needed to check signed chunks."""

    access_key_id: str
    payload_hash: str
    signing_key: SigningKey
    signature: str


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a request says about its own signature, before anything of it is believed."""

    access_key_id: str
    scope: str
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str
    payload_hash: str
    expires_seconds: int | None  # None for the header form

    @property
    def is_presigned(self) -> bool:
        return self.expires_seconds is not None


def verify_request(
    request: GatewayRequest, find_secret: Callable[[str], str | None], now: datetime
) -> Authenticated:
    """Check the signature, its time and the headers it covers.

    Args:
        find_secret: gives the secret key of an access key id, or None for an id nobody has.
        now: the server's time; a signature more than 15 minutes away from it is refused.

    Raises:
        S3Error: with S3's own code for each way in which a request can fail to prove who sent it.
    """
    claim = _read_claim(request)
    secret = find_secret(claim.access_key_id)
    if secret is None:
        raise S3Error(
            "InvalidAccessKeyId",
            "The access key id you provided does not exist in our records.",
            AWSAccessKeyId=claim.access_key_id,
        )
    signed_at = _read_time(claim)
    _check_time(claim, signed_at, now)
    _check_signed_headers(request, claim)
    signing_key = SigningKey(_derive_key(secret, claim.scope), claim.scope, claim.timestamp)
    expected = signing_key.sign(ALGORITHM, _hash(_canonical_request(request, claim)))
    if not hmac.compare_digest(expected, claim.signature):
        raise S3Error(
            "SignatureDoesNotMatch",
            "The request signature we calculated does not match the signature you provided. "
            "Check your secret access key and signing method.",
            AWSAccessKeyId=claim.access_key_id,
        )
    return Authenticated(claim.access_key_id, claim.payload_hash, signing_key, claim.signature)


def _read_claim(request: GatewayRequest) -> _Claim:
    authorization = request.headers.get("authorization", "")
    if authorization.startswith(ALGORITHM):
        return _claim_of_header(request, authorization)
    if authorization.startswith("AWS") or "AWSAccessKeyId" in request.query:
        raise S3Error(
            "InvalidRequest",
            f"The authorization mechanism you have provided is not supported. Please use {ALGORITHM}.",
        )
    if _QUERY_SIGNATURE in request.query or "X-Amz-Algorithm" in request.query:
        return _claim_of_query(request)
    raise S3Error("AccessDenied", "Access Denied: the request carries no signature.")


def _claim_of_header(request: GatewayRequest, authorization: str) -> _Claim:
    fields: dict[str, str] = {}
    for part in authorization.removeprefix(ALGORITHM).split(","):
        if found := _AUTHORIZATION_FIELD.fullmatch(part):
            fields[found[1]] = found[2]
    if fields.keys() != {"Credential", "SignedHeaders", "Signature"}:
        raise S3Error(
            "AuthorizationHeaderMalformed",
            "The authorization header is malformed: it needs Credential, SignedHeaders and Signature.",
        )
    payload_hash = request.headers.get("x-amz-content-sha256")
    if payload_hash is None:
        raise S3Error(
            "InvalidRequest", "Missing required header for this request: x-amz-content-sha256"
        )
    return _build_claim(
        "AuthorizationHeaderMalformed",
        credential=fields["Credential"],
        signed_headers=fields["SignedHeaders"],
        signature=fields["Signature"],
        timestamp=request.headers.get("x-amz-date", ""),
        payload_hash=payload_hash,
        expires_seconds=None,
    )


def _claim_of_query(request: GatewayRequest) -> _Claim:
    query = request.query
    code = "AuthorizationQueryParametersError"
    names = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires")
    missing = [n for n in (*names, "X-Amz-SignedHeaders", _QUERY_SIGNATURE) if not query.get(n)]
    if missing:
        raise S3Error(code, f"Query-string authentication requires {', '.join(missing)}.")
    if query["X-Amz-Algorithm"] != ALGORITHM:
        raise S3Error(code, f"X-Amz-Algorithm only supports {ALGORITHM!r}.")
    expires = query["X-Amz-Expires"]
    if not re.fullmatch(r"[0-9]{1,9}", expires):
        raise S3Error(code, "X-Amz-Expires should be a number.")
    if not 1 <= int(expires) <= LONGEST_PRESIGN_SECONDS:
        raise S3Error(
            code, f"X-Amz-Expires must be between 1 and {LONGEST_PRESIGN_SECONDS} seconds."
        )
    payload_hash = query.get("X-Amz-Content-Sha256") or request.headers.get("x-amz-content-sha256")
    return _build_claim(
        code,
        credential=query["X-Amz-Credential"],
        signed_headers=query["X-Amz-SignedHeaders"],
        signature=query[_QUERY_SIGNATURE],
        timestamp=query["X-Amz-Date"],
        payload_hash=payload_hash or UNSIGNED_PAYLOAD,
        expires_seconds=int(expires),
    )


def _build_claim(
    code: str,
    *,
    credential: str,
    signed_headers: str,
    signature: str,
    timestamp: str,
    payload_hash: str,
    expires_seconds: int | None,
) -> _Claim:
    access_key_id, _, scope = credential.partition("/")
    parts = scope.split("/")
    if len(parts) != 4 or not access_key_id or parts[2:] != ["s3", "aws4_request"]:
        raise S3Error(
            code,
            "The credential is mal-formed; expecting <key id>/YYYYMMDD/<region>/s3/aws4_request.",
        )
    if not _HEX_SIGNATURE.fullmatch(signature):
        raise S3Error(code, "The signature is mal-formed; expecting 64 lower-case hex digits.")
    if not timestamp.startswith(parts[0]):
        raise S3Error(
            code, f"The credential's date {parts[0]} is not the request's date {timestamp}."
        )
    names = tuple(signed_headers.split(";"))
    return _Claim(access_key_id, scope, names, signature, timestamp, payload_hash, expires_seconds)


def _read_time(claim: _Claim) -> datetime:
    try:
        return _parse_time(claim.timestamp)
    except ValueError:
        raise S3Error(
            "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header."
        ) from None


# Requests of one second have one time.
@lru_cache(maxsize=256)
def _parse_time(timestamp: str) -> datetime:
    return datetime.strptime(timestamp, _TIME_FORMAT).replace(tzinfo=UTC)


def _check_time(claim: _Claim, signed_at: datetime, now: datetime) -> None:
    # A presigned URL has its own end, but it may not begin in the future either.
    if abs(now - signed_at) > CLOCK_SKEW and not (claim.is_presigned and signed_at < now):
        raise S3Error(
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
            RequestTime=claim.timestamp,
            ServerTime=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            MaxAllowedSkewMilliseconds=str(int(CLOCK_SKEW.total_seconds() * 1000)),
        )
    if claim.expires_seconds is not None:
        end = signed_at + timedelta(seconds=claim.expires_seconds)
        if now > end:
            raise S3Error(
                "AccessDenied", "Request has expired", Expires=end.strftime("%Y-%m-%dT%H:%M:%SZ")
            )


def _check_signed_headers(request: GatewayRequest, claim: _Claim) -> None:
    """Host and every `x-amz-` header must be signed: an unsigned one could be added on the way."""
    unsigned = [
        name
        for name in request.headers
        if (name == "host" or name.startswith("x-amz-")) and name not in claim.signed_headers
    ]
    if unsigned or "host" not in claim.signed_headers:
        raise S3Error(
            "AccessDenied",
            "There were headers present in the request which were not signed",
            HeadersNotSigned=", ".join(unsigned or ["host"]),
        )


# A secret's key is the same all day. Whoever asks has the secret, so a cached key opens nothing to anybody else.
@lru_cache(maxsize=256)
def _derive_key(secret: str, scope: str) -> bytes:
    key = b"AWS4" + secret.encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode("utf-8", "surrogateescape"), hashlib.sha256).digest()
    return key


def _canonical_request(request: GatewayRequest, claim: _Claim) -> str:
    headers = "".join(
        f"{name}:{' '.join(request.headers.get(name, '').split())}\n"
        for name in claim.signed_headers
    )
    return "\n".join(
        (
            request.method,
            quote(unquote_to_bytes(request.raw_path), safe="/~"),
            _canonical_query(request.raw_query, is_presigned=claim.is_presigned),
            headers,
            ";".join(claim.signed_headers),
            claim.payload_hash,
        )
    )


def _canonical_query(raw_query: str, *, is_presigned: bool) -> str:
    # A signature can't cover itself; outside a presigned query the name has no meaning and is covered.
    pairs = sorted(
        (_encode(name), _encode(value))
        for name, value in parse_query(raw_query)
        if not (is_presigned and name == _QUERY_SIGNATURE)
    )
    return "&".join(f"{name}={value}" for name, value in pairs)


def _encode(text: str) -> str:
    return quote(text.encode("utf-8", "surrogateescape"), safe="~")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
