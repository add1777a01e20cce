"""AWS Signature Version 4 for S3: in the headers of our own requests, and in the query of URLs for others.

botocore signs too, and finds the credentials; but it takes longer to sign a page of a listing than it takes to read it.
Here the day's key is derived once. A test holds every signature against botocore's.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """Who signs."""

    access_key: str
    secret_key: str
    token: str | None


def signed_headers(
    key: SigningKey,
    region: str,
    now: datetime,
    method: str,
    host: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    body: bytes,
) -> dict[str, str]:
    """`headers` with all that makes the request authentic.

    Args:
        path: as it is sent, percent-encoded.
        query: as it is sent, its pairs sorted and percent-encoded.
        headers: of the request; all of them are signed.
    """
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    payload = hashlib.sha256(body).hexdigest()
    signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    signed |= {"host": host, "x-amz-content-sha256": payload, "x-amz-date": stamp}
    if key.token:
        signed["x-amz-security-token"] = key.token
    names = sorted(signed)
    listed = ";".join(names)
    lines = "".join(f"{name}:{signed[name]}\n" for name in names)
    canonical = f"{method}\n{path}\n{query}\n{lines}\n{listed}\n{payload}"
    scope, signature = _signature(key, region, stamp, canonical)
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={key.access_key}/{scope}, SignedHeaders={listed}, Signature={signature}"
    )
    return signed


class BareRequests:
    """Requests without body, as all their bytes, signed with one key and for one second.

    What is the same for all of them is put together once: signing each by `signed_headers` takes longer than sending it.
    """

    def __init__(self, key: SigningKey, region: str, host: str, now: datetime) -> None:
        stamp = now.strftime("%Y%m%dT%H%M%SZ")
        payload = hashlib.sha256(b"").hexdigest()
        headers = {"host": host, "x-amz-content-sha256": payload, "x-amz-date": stamp}
        if key.token:
            headers["x-amz-security-token"] = key.token
        names, scope = ";".join(headers), _scope(stamp, region)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        self._canonical = f"\n{lines}\n{names}\n{payload}"
        self._to_sign = f"{_ALGORITHM}\n{stamp}\n{scope}\n"
        self._day_key = _day_key(key.secret_key, stamp[:8], region)
        sent = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._head = (
            f" HTTP/1.1\r\n{sent}accept-encoding: identity\r\n"
            f"authorization: {_ALGORITHM} Credential={key.access_key}/{scope}, SignedHeaders={names}, Signature="
        )
        if "\r" in key.access_key + host or any(c in "\r\n" for v in headers.values() for c in v):
            raise ValueError("a line break inside the head of a request")

    def request(self, method: str, path: str, query: str = "") -> bytes:
        """The request for a path and a query, both as they are sent (`canonical_query`)."""
        canonical = f"{method}\n{path}\n{query}{self._canonical}"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        signature = hmac.digest(self._day_key, (self._to_sign + digest).encode(), "sha256").hex()
        target = f"{path}?{query}" if query else path
        return f"{method} {target}{self._head}{signature}\r\n\r\n".encode("latin-1")


def presigned_query(
    key: SigningKey,
    region: str,
    now: datetime,
    method: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    life_seconds: int,
) -> str:
    """The query that makes a URL authentic for a while, whatever body is sent with it.

    Args:
        path: as it is sent, percent-encoded.
        query: the parameters of the request itself, not encoded.
    """
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    parameters = {
        **query,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{key.access_key}/{_scope(stamp, region)}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(life_seconds),
        "X-Amz-SignedHeaders": "host",
    }
    if key.token:
        parameters["X-Amz-Security-Token"] = key.token
    text = canonical_query(parameters)
    canonical = f"{method}\n{path}\n{text}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    return f"{text}&X-Amz-Signature={_signature(key, region, stamp, canonical)[1]}"


def canonical_query(parameters: Mapping[str, str]) -> str:
    """Parameters as they are signed and sent: percent-encoded and sorted."""
    pairs = sorted((quote(k, safe="~"), quote(v, safe="~")) for k, v in parameters.items())
    return "&".join(f"{k}={v}" for k, v in pairs)


def _scope(stamp: str, region: str) -> str:
    return f"{stamp[:8]}/{region}/s3/aws4_request"


def _signature(key: SigningKey, region: str, stamp: str, canonical: str) -> tuple[str, str]:
    """(scope, signature) of a canonical request."""
    scope = _scope(stamp, region)
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{digest}"
    day_key = _day_key(key.secret_key, stamp[:8], region)
    return scope, hmac.digest(day_key, text.encode(), "sha256").hex()


@lru_cache(maxsize=16)
def _day_key(secret_key: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
