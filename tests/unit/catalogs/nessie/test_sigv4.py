"""Requests to a Nessie behind a gateway of AWS are signed; the signature is computed here once more, by hand."""

from __future__ import annotations

import hashlib
import hmac
import re
from urllib.parse import quote

import httpx
import pytest

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.client_properties import ClientProperties
from lakesweep.errors import CatalogError, ConfigError
from lakesweep_testing.fake_nessie import FakeNessie


def signature_of(request: httpx.Request, secret: str, region: str) -> str:
    """Signature Version 4 of what arrived, from its published description."""
    claim = request.headers["authorization"]
    names = re.search(r"SignedHeaders=([^,]+)", claim)
    assert names is not None
    time = request.headers["x-amz-date"]
    query = "&".join(sorted(request.url.query.decode().split("&"))) if request.url.query else ""
    canonical = "\n".join(
        [
            request.method,
            # Services other than S3 take the path encoded once more.
            quote(request.url.raw_path.decode().partition("?")[0]),
            query,
            *(f"{name}:{request.headers[name]}" for name in names[1].split(";")),
            "",
            names[1],
            hashlib.sha256(request.content).hexdigest(),
        ]
    )
    scope = f"{time[:8]}/{region}/execute-api/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}"
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def client(nessie: FakeNessie, seen: list[httpx.Request], **aws: str) -> NessieClient:
    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return nessie.transport.handle_request(request)

    values = {"nessie.authentication.type": "AWS"}
    values |= {f"nessie.authentication.aws.{name}": value for name, value in aws.items()}
    return NessieClient(
        nessie.uri,
        ClientProperties(values),
        retries=0,
        http_transport=httpx.MockTransport(handle),
    )


def test_requests_are_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Path and query as they travel, the host, the time and the token are what the signature stands for."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "temporary")
    seen: list[httpx.Request] = []
    with client(FakeNessie(), seen, region="eu-central-1") as nessie:
        assert [reference.name for reference in nessie.references()] == ["main"]
        with pytest.raises(CatalogError):
            list(nessie.entries("of/two"))
    assert any("%2F" in str(request.url) for request in seen)
    for request in seen:
        claim = request.headers["authorization"]
        assert "Credential=AKIAEXAMPLE/" in claim
        assert claim.endswith(signature_of(request, "hush", "eu-central-1"))
        assert request.headers["x-amz-security-token"] == "temporary"


def test_no_credentials_is_told_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unsigned request would only be refused by the gateway."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    seen: list[httpx.Request] = []
    with pytest.raises(ConfigError, match="found no AWS credentials"):
        client(FakeNessie(), seen)
    assert not seen
