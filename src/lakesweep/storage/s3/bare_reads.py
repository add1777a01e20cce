"""Objects that are read, looked up and listed by many requests from one thread."""

from __future__ import annotations

import http
import re
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal
from urllib.parse import quote

from lakesweep.errors import LakesweepError
from lakesweep.storage.http_answer import Answer
from lakesweep.storage.keys import is_odd_key
from lakesweep.storage.multiplexer import Multiplexer
from lakesweep.storage.s3.client import S3Client
from lakesweep.storage.s3.pages import Page, checked_successor, page_query, read_page
from lakesweep.storage.s3.sign import BareRequests, canonical_query
from lakesweep.storage.values import ObjectInfo

_SIGNED_FOR_SECONDS = 1.0
_HEADER = re.compile(
    rb"\r\n(content-length|last-modified|etag)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE
)


class _BareRequests:
    """Requests for what lies below a root, signed anew each second, as a signature ages and credentials are renewed."""

    def __init__(self, client: S3Client, base: str) -> None:
        self._client, self._base = client, base
        self._path = client.address.path
        self._signer: BareRequests | None = None
        self._signed_at = 0.0

    def multiplexer(self) -> Multiplexer | None:
        """What carries the requests; None where nothing can."""
        return self._client.multiplexer()

    def _signed_request(self, method: str, path: str, query: str = "") -> bytes | None:
        """The request as all its bytes; None where credentials can't be had just now."""
        now = time.monotonic()
        if self._signer is None or now - self._signed_at >= _SIGNED_FOR_SECONDS:
            try:
                self._signer, self._signed_at = self._client.bare_requests(), now
            except LakesweepError:
                return None
        return self._signer.request(method, path, query)


class _KeyRequests(_BareRequests):
    method: Literal["GET", "HEAD"]

    def request(self, key: str) -> bytes | None:
        """The request for a key, as all its bytes; None for an odd key, and where it can't be signed just now."""
        if is_odd_key(key):
            return None
        return self._signed_request(self.method, self._path + quote(self._base + key, safe="/~"))


class BareGets(_KeyRequests):
    """Reads whole objects."""

    method = "GET"

    def result(self, key: str, answer: Answer) -> bytes | None:
        """The object; None for an answer that says anything else."""
        return answer.content if answer.status == http.HTTPStatus.OK else None


class BareLists(_BareRequests):
    """Lists, page by page."""

    def request(self, prefix: str, start_after: str | None, token: str | None) -> bytes | None:
        """The request for the first page after a key, or for the page that a token stands for; None where it can't be signed now."""
        query = page_query(self._base + prefix)
        if start_after is not None:
            query["start-after"] = self._base + start_after
        if token is not None:
            query["continuation-token"] = token
        return self._signed_request("GET", self._path, canonical_query(query))

    def page(self, answer: Answer, token: str | None) -> Page | None:
        """The page that was asked for, by a token or by none; None for an answer that says anything else."""
        if answer.status != http.HTTPStatus.OK:
            return None
        return checked_successor(read_page(answer.content, self._base), token)


class BareHeads(_KeyRequests):
    """Looks objects up."""

    method = "HEAD"

    def result(self, key: str, answer: Answer) -> ObjectInfo | None:
        """What is said of the object; None for an answer that says anything else, or not all of it."""
        if answer.status != http.HTTPStatus.OK:
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
