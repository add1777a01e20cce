"""What time it is by an object store's own clock, which dates its objects."""

from __future__ import annotations

from datetime import datetime

from lakesweep.domain.durations import parse_http_date
from lakesweep.storage.store import ObjectStore

__all__ = ["store_time"]


def store_time(store: ObjectStore) -> datetime | None:
    """The date of an answer that changes nothing; None of a store that is not asked over S3's protocol."""
    if store.root.kind != "s3":
        return None
    from lakesweep.storage.s3_client import s3_client

    what = f"asking {store.root.uri} for the time"
    query = {"list-type": "2", "max-keys": "1", "prefix": store.root.key}
    client = s3_client(store.root.container, store.options)
    return parse_http_date(client.request("GET", what, query=query).headers.get("date"))
