"""What time it is by an object store's own clock, which dates its objects."""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import datetime

from lakesweep.domain.durations import parse_http_date
from lakesweep.storage.store import ObjectStore
from lakesweep.storage.translate import connection_errors_translated

__all__ = ["store_time"]

_GOOGLE = "https://storage.googleapis.com"


def store_time(store: ObjectStore) -> datetime | None:
    """The date of an answer that changes nothing; None of a store that is not asked over HTTP."""
    root, what = store.root, f"asking {store.root.uri} for the time"
    if root.kind == "s3":
        from lakesweep.storage.s3.client import s3_client

        query = {"list-type": "2", "max-keys": "1", "prefix": root.key}
        client = s3_client(root.container, store.options)
        return parse_http_date(client.request("GET", what, query=query).headers.get("date"))
    if root.kind == "azure":
        address = store.options.azure_endpoint or root.endpoint
        return _date_of(address or f"https://{root.account}.blob.core.windows.net", what, store)
    if root.kind == "gs":
        address = store.options.gcs_endpoint or _GOOGLE
        return _date_of(address if "://" in address else f"http://{address}", what, store)
    return None


def _date_of(address: str, what: str, store: ObjectStore) -> datetime | None:
    """The date of whatever is answered at an address; no credentials are sent, and a refusal is dated too."""
    request = urllib.request.Request(address, method="HEAD")
    timeout = store.options.request_timeout_seconds
    with connection_errors_translated(what):
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                headers = reply.headers
        except urllib.error.HTTPError as error:
            headers = error.headers
            error.close()
    return parse_http_date(headers.get("date"))
