"""Tokens for requests of our own: what is sent for them, and that Google's signature is one."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from lakesweep.errors import StorageDeniedError
from lakesweep.storage import StorageOptions
from lakesweep.storage.cloud_tokens import (
    KeptToken,
    Token,
    azure_token,
    google_token,
    rsa_signature,
)

# Primes of Mersenne's: a key that nobody could take for a real one.
P, Q, E = 2**521 - 1, 2**607 - 1, 65537
N, D = P * Q, pow(E, -1, (P - 1) * (Q - 1))


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    octets = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(octets)]) + octets + content


def number(value: int) -> bytes:
    return der(2, value.to_bytes(value.bit_length() // 8 + 1))


def private_key() -> str:
    inner = der(0x30, b"".join(number(n) for n in (0, N, E, D, P, Q)))
    whole = der(0x30, number(0) + der(0x30, b"") + der(4, inner))
    return f"-----BEGIN PRIVATE KEY-----\n{base64.encodebytes(whole).decode()}-----END PRIVATE KEY-----\n"


def is_signed(data: bytes, signature: bytes) -> bool:
    opened = pow(int.from_bytes(signature), E, N).to_bytes(len(signature))
    return opened.startswith(b"\x00\x01\xff\xff") and opened.endswith(hashlib.sha256(data).digest())


@contextmanager
def tokens(
    status: int = 200, more: Mapping[str, object] | None = None
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server on loopback that gives tokens: its address, and the forms that came."""
    came: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers.get("content-length") or 0)).decode())
            came.append({"path": self.path, **{name: value[0] for name, value in form.items()}})
            content = json.dumps({"access_token": f"token-{len(came)}", **(more or {})}).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", came
        finally:
            server.shutdown()
            thread.join()


def test_the_signature_is_that_of_the_key() -> None:
    """Opened with the public half, it shows the digest."""
    signature = rsa_signature(private_key(), b"said")
    assert is_signed(b"said", signature)
    assert not is_signed(b"not said", signature)


def test_a_service_account_signs_what_it_says(tmp_path: Path) -> None:
    """From the key file as from its text."""
    with tokens() as (url, came):
        key = {"client_email": "me@x", "private_key": private_key(), "token_uri": f"{url}/t"}
        file = tmp_path / "key.json"
        file.write_text(json.dumps(key))
        given = StorageOptions(gcs_service_account_key=json.dumps(key))
        assert google_token(given).text == "token-1"
        by_file = StorageOptions(gcs_service_account_key_file=str(file))
        assert google_token(by_file).text == "token-2"
    text, _, signature = came[0]["assertion"].rpartition(".")
    assert is_signed(text.encode(), base64.urlsafe_b64decode(signature + "=="))
    claims = json.loads(base64.urlsafe_b64decode(text.split(".")[1] + "=="))
    assert (claims["iss"], claims["aud"]) == ("me@x", f"{url}/t")
    assert claims["scope"].endswith("devstorage.read_only")


def test_a_users_login_is_refreshed() -> None:
    """As `gcloud auth application-default login` leaves it."""
    with tokens() as (url, came):
        login = {"client_id": "c", "client_secret": "s", "refresh_token": "r", "token_uri": url}
        given = StorageOptions(gcs_service_account_key=json.dumps(login))
        assert google_token(given).text == "token-1"
    assert came[0]["refresh_token"] == "r"


def test_a_machine_of_googles_has_a_token_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where no key is given."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with tokens() as (url, came):
        monkeypatch.setenv("GCE_METADATA_HOST", url.removeprefix("http://"))
        assert google_token(StorageOptions()).text == "token-1"
    assert came[0]["path"].endswith("service-accounts/default/token")


def test_an_application_of_azures_has_a_secret_or_a_federated_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both are sent to the tenant's own address."""
    file = tmp_path / "federated"
    file.write_text("assertion\n")
    known = {"azure_tenant_id": "tenant", "azure_client_id": "app"}
    with tokens() as (url, came):
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", url)
        assert azure_token(StorageOptions(**known, azure_client_secret="s")).text == "token-1"
        assert (
            azure_token(StorageOptions(**known, azure_federated_token_file=str(file))).text
            == "token-2"
        )
    assert came[0]["path"] == "/tenant/oauth2/v2.0/token"
    assert came[0]["client_secret"] == "s"
    assert came[1]["client_assertion"] == "assertion"


def test_a_machine_of_azures_has_an_identity_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where neither a key nor an application is given; the client id says which of several identities is meant."""
    with tokens() as (url, came):
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{url}/identity")
        monkeypatch.setenv("IDENTITY_HEADER", "proof")
        assert azure_token(StorageOptions(azure_client_id="mine")).text == "token-1"
    where, _, query = came[0]["path"].partition("?")
    asked = {name: values[0] for name, values in parse_qs(query).items()}
    assert where == "/identity"
    assert (asked["resource"], asked["client_id"]) == ("https://storage.azure.com", "mine")


def test_a_token_that_is_not_given_is_a_denial(monkeypatch: pytest.MonkeyPatch) -> None:
    """In our words."""
    with tokens(401) as (url, _):
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", url)
        options = StorageOptions(azure_tenant_id="t", azure_client_id="c", azure_client_secret="s")
        with pytest.raises(StorageDeniedError, match="access token"):
            azure_token(options)


def test_a_token_is_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """And asked for again before it ends."""
    now = [1000.0]
    monkeypatch.setattr("lakesweep.storage.cloud_tokens.time.monotonic", lambda: now[0])
    given = iter([Token("one"), Token("two", 400.0), Token("three", 3600.0)])
    token = KeptToken(lambda: next(given))
    assert [token(), token()] == ["one", "one"]
    now[0] += 1201
    assert token() == "two"
    now[0] += 339
    assert token() == "two"
    now[0] += 2  # in its last minute
    assert [token(), token()] == ["three", "three"]


def test_a_token_that_is_already_old_tells_how_long_it_lives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A machine of Google's gives the token that it has, with what is left of its hour."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with tokens(more={"expires_in": 310}) as (url, _):
        monkeypatch.setenv("GCE_METADATA_HOST", url.removeprefix("http://"))
        assert google_token(StorageOptions()) == Token("token-1", 310.0)
