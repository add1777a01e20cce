"""Objects that are read and looked up many at a time, by requests that are nothing but signed paths."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal
from urllib.parse import quote

from lakesweep.storage.http_answer import Answer
from lakesweep.storage.multiplexer import Multiplexer
from lakesweep.storage.s3.client import S3Client
from lakesweep.storage.s3.sign import BareRequests
from lakesweep.storage.values import ObjectInfo

_SIGNED_FOR_SECONDS = 1.0
_HEADER = re.compile(
    rb"\r\n(content-length|last-modified|etag)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE
)


class _BareRequests:
    """Requests for keys below a root, signed anew each second, as a signature ages and credentials are renewed."""

    method: Literal["GET", "HEAD"]

    def __init__(self, client: S3Client, base: str) -> None:
        self._client, self._base = client, base
        self._path = client.address.path
        self._signed: BareRequests | None = None
        self._signed_at = 0.0

    def multiplexer(self) -> Multiplexer | None:
        """What carries the requests; None where nothing can."""
        return self._client.multiplexer()

    def request(self, key: str) -> bytes:
        """The request for a key, as all its bytes."""
        now = time.monotonic()
        if self._signed is None or now - self._signed_at >= _SIGNED_FOR_SECONDS:
            self._signed, self._signed_at = self._client.bare_requests(), now
        return self._signed.request(self.method, self._path + quote(self._base + key, safe="/~"))


class BareGets(_BareRequests):
    """Reads whole objects."""

    method = "GET"

    def result(self, key: str, answer: Answer) -> bytes | None:
        """The object; None for an answer that says anything else."""
        return answer.content if answer.status == 200 else None


class BareHeads(_BareRequests):
    """Looks objects up."""

    method = "HEAD"

    def result(self, key: str, answer: Answer) -> ObjectInfo | None:
        """What is said of the object; None for an answer that says anything else, or not all of it."""
        if answer.status != 200:
            return None
        told = {name.lower(): value.strip() for name, value in _HEADER.findall(answer.head)}
        size, when = told.get(b"content-length", b""), told.get(b"last-modified", b"")
        modified = _time(when.decode("latin-1"))
        if not size.isdigit() or modified is None:
            return None
        etag = told.get(b"etag")
        return ObjectInfo(
            key, int(size), modified, None if etag is None else etag.decode("latin-1")
        )


@lru_cache(maxsize=1024)
def _time(text: str) -> datetime | None:
    """The time of a header as servers write it; None for anything else."""
    try:
        return datetime.strptime(text, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    except ValueError:
        return None
