"""AWS Signature Version 4 for S3, in the one form that we send.

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
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{digest}"
    signature = hmac.digest(
        _day_key(key.secret_key, stamp[:8], region), text.encode(), "sha256"
    ).hex()
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={key.access_key}/{scope}, SignedHeaders={listed}, Signature={signature}"
    )
    return signed


@lru_cache(maxsize=16)
def _day_key(secret_key: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
