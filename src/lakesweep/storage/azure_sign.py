"""Azure's SharedKey signature, and how a request of our own is authorised at all."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import parse_qsl, urlsplit

from lakesweep.domain.storage_options import StorageOptions

VERSION = "2021-12-02"


def authorised_get(
    url: str, account: str, options: StorageOptions
) -> tuple[str, dict[str, str]] | None:
    """The address and the headers of a GET; None without an account key and a SAS token."""
    return _authorised("GET", url, account, options, "")


def authorised_delete(
    url: str, account: str, options: StorageOptions, etag: str
) -> tuple[str, dict[str, str]] | None:
    """The address and the headers of a DELETE of one version; None without an account key and a SAS token."""
    found = _authorised("DELETE", url, account, options, etag)
    return None if found is None else (found[0], {**found[1], "If-Match": etag})


def _authorised(
    method: str, url: str, account: str, options: StorageOptions, if_match: str
) -> tuple[str, dict[str, str]] | None:
    headers = {"x-ms-version": VERSION}
    key = options.azure_account_key
    if key:
        headers["x-ms-date"] = format_datetime(datetime.now(UTC), usegmt=True)
        headers["Authorization"] = shared_key(method, url, account, headers, key, if_match)
        return url, headers
    if options.azure_sas_token:
        joined = "&" if "?" in url else "?"
        return f"{url}{joined}{options.azure_sas_token.lstrip('?')}", headers
    return None


def shared_key(
    method: str, url: str, account: str, headers: Mapping[str, str], key: str, if_match: str = ""
) -> str:
    """The value of `Authorization` for a request without a body."""
    own = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    address = urlsplit(url)
    query = sorted(parse_qsl(address.query, keep_blank_values=True))
    resource = f"/{account}{address.path}" + "".join(f"\n{name}:{value}" for name, value in query)
    # The method, eleven standard headers of which If-Match is the eighth and the only one that we send, then ours.
    signed = method + "\n" * 8 + if_match + "\n" * 4 + own + resource
    digest = hmac.digest(base64.b64decode(key), signed.encode(), hashlib.sha256)
    return f"SharedKey {account}:{base64.b64encode(digest).decode()}"
