"""Access tokens of Google and Azure for requests of our own, from the credentials that obstore is given too."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from lakesweep.cachefolder import home_folder
from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import StorageDeniedError
from lakesweep.json_text import parse_json
from lakesweep.storage.translate import connection_errors_translated

_GOOGLE_TOKENS = "https://oauth2.googleapis.com/token"
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_GOOGLE_OWN = "/computeMetadata/v1/instance/service-accounts/default/token"
_AZURE_SCOPE = "https://storage.azure.com/.default"
_AZURE_OWN = "http://169.254.169.254/metadata/identity/oauth2/token"
_JWT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# Tokens live for an hour or so. A long listing asks for a new one in time. A machine gives the token that it has, which
# may end sooner: no token is used in its last minute.
_KEPT_SECONDS = 1200.0
_LAST_SECONDS = 60.0
# What stands before a SHA-256 digest in an RSA signature (PKCS #1).
_SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")


class Token(NamedTuple):
    """An access token, and how long it lives."""

    text: str
    seconds: float = math.inf


class KeptToken:
    """A token that is asked for when it is first needed, and again when it has become old."""

    def __init__(self, ask: Callable[[], Token]) -> None:
        self._ask = ask
        self._token = ""
        self._kept_until = 0.0

    def __call__(self) -> str:
        if not self._token or time.monotonic() > self._kept_until:
            asked_at = time.monotonic()
            self._token, seconds = self._ask()
            self._kept_until = asked_at + min(_KEPT_SECONDS, seconds - _LAST_SECONDS)
        return self._token


def google_token(options: StorageOptions) -> Token:
    """A token by a service account's key, a user's own login, or the machine that we run on."""
    if options.gcs_token:
        return Token(options.gcs_token)
    key = _google_key(options)
    if key is None:
        host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
        url = f"http://{host}{_GOOGLE_OWN}"
        return _answered(urllib.request.Request(url, headers={"Metadata-Flavor": "Google"}))
    where = key.get("token_uri") or _GOOGLE_TOKENS
    if "refresh_token" in key:
        names = ("client_id", "client_secret", "refresh_token")
        form = {"grant_type": "refresh_token", **{name: key[name] for name in names}}
    else:
        form = {"grant_type": _JWT, "assertion": _assertion(key, where, int(time.time()))}
    return _answered(urllib.request.Request(where, urlencode(form).encode()))


def azure_token(options: StorageOptions) -> Token:
    """A token for a registered application, by its secret or its federated token, else for the machine's own identity."""
    has_proof = options.azure_client_secret or options.azure_federated_token_file
    if not (options.azure_tenant_id and options.azure_client_id and has_proof):
        return _answered(_asking_for_own_identity(options))
    form = {
        "grant_type": "client_credentials",
        "client_id": options.azure_client_id,
        "scope": _AZURE_SCOPE,
    }
    if options.azure_client_secret:
        form["client_secret"] = options.azure_client_secret
    else:
        file = Path(options.azure_federated_token_file or "")
        form["client_assertion_type"] = _ASSERTION
        form["client_assertion"] = file.read_text("utf-8").strip()
    authority = os.environ.get("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com")
    where = f"{authority.rstrip('/')}/{options.azure_tenant_id}/oauth2/v2.0/token"
    return _answered(urllib.request.Request(where, urlencode(form).encode()))


def _asking_for_own_identity(options: StorageOptions) -> urllib.request.Request:
    """The question for a managed identity: to the service that the environment names, else to the machine's own."""
    query = {"api-version": "2019-08-01", "resource": _AZURE_SCOPE.removesuffix("/.default")}
    if options.azure_client_id:
        query["client_id"] = options.azure_client_id
    where = os.environ.get("IDENTITY_ENDPOINT") or _AZURE_OWN
    proof = os.environ.get("IDENTITY_HEADER")
    headers = {"Metadata": "true", **({"X-Identity-Header": proof} if proof else {})}
    return urllib.request.Request(f"{where}?{urlencode(query)}", headers=headers)


def _google_key(options: StorageOptions) -> Mapping[str, Any] | None:
    text = options.gcs_service_account_key
    if text is None:
        own = home_folder() / ".config/gcloud/application_default_credentials.json"
        file = Path(options.gcs_service_account_key_file or own)
        if not options.gcs_service_account_key_file and not file.exists():
            return None
        text = file.read_text("utf-8")
    key: Mapping[str, Any] = parse_json(text)
    return key


def _assertion(key: Mapping[str, Any], audience: str, now: int) -> str:
    """What a service account says of itself, signed with its key."""
    head = {"alg": "RS256", "typ": "JWT", "kid": key.get("private_key_id", "")}
    claims = {"iss": key["client_email"], "scope": _GOOGLE_SCOPE, "aud": audience}
    said = [head, {**claims, "iat": now, "exp": now + 3600}]
    text = ".".join(_url64(json.dumps(part).encode()) for part in said)
    return f"{text}.{_url64(rsa_signature(key['private_key'], text.encode()))}"


def rsa_signature(pem: str, data: bytes) -> bytes:
    """The RS256 signature of `data` by a private key in PKCS #8, as Google gives it."""
    lines = [line for line in pem.strip().splitlines() if "-----" not in line]
    # SEQUENCE(version, algorithm, OCTET STRING(SEQUENCE(version, n, e, d, …)))
    outer = _der_parts(_der_parts(base64.b64decode("".join(lines)))[0])
    numbers = _der_parts(_der_parts(outer[2])[0])
    modulus, secret = (int.from_bytes(numbers[place]) for place in (1, 3))
    size = (modulus.bit_length() + 7) // 8
    digest = _SHA256_PREFIX + hashlib.sha256(data).digest()
    padded = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
    return pow(int.from_bytes(padded), secret, modulus).to_bytes(size)


def _der_parts(data: bytes) -> list[bytes]:
    """The contents of the values that follow each other in `data`."""
    parts, at = [], 0
    while at < len(data):
        length, at = data[at + 1], at + 2
        if length & 0x80:
            octets = length & 0x7F
            length, at = int.from_bytes(data[at : at + octets]), at + octets
        parts.append(data[at : at + length])
        at += length
    return parts


def _url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _answered(request: urllib.request.Request) -> Token:
    what = f"getting an access token from {request.host}"
    with connection_errors_translated(what):
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                answer = parse_json(reply.read())
                # Azure writes the number as a text.
                seconds = float(answer.get("expires_in") or math.inf)
                return Token(str(answer["access_token"]), seconds)
        except urllib.error.HTTPError as error:
            raise StorageDeniedError(
                f"{what} failed: HTTP {error.code}; check the credentials. Nothing was done."
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StorageDeniedError(f"{what} failed: it gave none. Nothing was done.") from error
