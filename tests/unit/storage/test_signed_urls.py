"""Which stores sign URLs, by the credentials that there are. Nothing is asked over the network."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lakesweep.domain.location import Location
from lakesweep.errors import UnsupportedStoreError
from lakesweep.storage import ObjectStore, StorageOptions, open_store

LIFE = timedelta(minutes=15)
BLOB = "https://account.blob.core.windows.net/container/ns"


def store(uri: str, **options: str) -> ObjectStore:
    return open_store(Location.parse(uri), StorageOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("mem://signed/ns", {}),
        ("file:///nonexistent/ns", {}),
        (BLOB, {"azure_sas_token": "sv=1&sig=abc"}),
        ("gs://bucket/ns", {"gcs_endpoint": "http://127.0.0.1:1"}),
    ],
)
def test_store_that_can_not_sign_says_so(uri: str, options: dict[str, str]) -> None:
    """Memory, folders, an Azure store known by a SAS token alone, and an emulator of Google's."""
    found = store(uri, **options)
    assert found.signed_uploads is None
    with pytest.raises(UnsupportedStoreError) as refused:
        found.sign_url("GET", "data/a", LIFE)
    assert refused.value.kind == "no-presign"


def test_odd_keys_are_not_signed() -> None:
    """A client would make another path of it on its way to the store."""
    found = store("s3://bucket/ns", s3_access_key_id="id", s3_secret_access_key="secret")
    with pytest.raises(UnsupportedStoreError):
        found.sign_url("GET", "data/../../other/secret", LIFE)


def test_azure_signs_with_the_accounts_key() -> None:
    """One blob, one right, for the time that was asked for; a name that has to be encoded is refused."""
    found = store(BLOB, azure_account_key="a2V5")
    signed = found.sign_url("PUT", "data/a,b", LIFE)
    query = parse_qs(urlsplit(signed.url).query)
    assert urlsplit(signed.url).path == "/container/ns/data/a,b"
    assert (query["sr"], query["sp"]) == (["b"], ["w"])
    end = datetime.fromisoformat(query["se"][0].replace("Z", "+00:00"))
    assert abs(end - signed.expires_at) < timedelta(seconds=2)
    assert signed.expires_at - datetime.now(UTC) <= LIFE
    with pytest.raises(UnsupportedStoreError, match="none was made"):
        found.sign_url("GET", "a b", LIFE)


def test_google_signs_with_a_service_accounts_key() -> None:
    """The key signs here; Google is not asked."""
    private_key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "private_key": private_key.decode(),
        "private_key_id": "1",
        "client_email": "lake@example.iam.gserviceaccount.com",
    }
    found = store("gs://bucket/ns", gcs_service_account_key=json.dumps(account))
    url = found.sign_url("GET", "data/a", LIFE).url
    assert url.startswith("https://storage.googleapis.com/bucket/ns/data/a?")
    assert parse_qs(urlsplit(url).query)["X-Goog-Expires"] == ["900"]
    assert found.signed_uploads is None
