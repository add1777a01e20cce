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
    headers = {"x-ms-version": VERSION}
    if options.azure_account_key:
        headers["x-ms-date"] = format_datetime(datetime.now(UTC), usegmt=True)
        headers["Authorization"] = shared_key(url, account, headers, options.azure_account_key)
        return url, headers
    if options.azure_sas_token:
        return f"{url}&{options.azure_sas_token.lstrip('?')}", headers
    return None


def shared_key(url: str, account: str, headers: Mapping[str, str], key: str) -> str:
    """The value of `Authorization` for a GET without a body."""
    own = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    address = urlsplit(url)
    query = sorted(parse_qsl(address.query, keep_blank_values=True))
    resource = f"/{account}{address.path}" + "".join(f"\n{name}:{value}" for name, value in query)
    # The method, eleven standard headers that we don't send, then ours.
    signed = "GET" + "\n" * 12 + own + resource
    digest = hmac.digest(base64.b64decode(key), signed.encode(), hashlib.sha256)
    return f"SharedKey {account}:{base64.b64encode(digest).decode()}"
