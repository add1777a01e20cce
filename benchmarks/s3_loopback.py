"""A small asynchronous S3 server on the loopback interface, for benchmarks and tests.

Objects that are written are kept in memory; a `ComputedKeys` space adds millions of objects by arithmetic, so that the
client and not the server is measured. It answers ListObjectsV2, DeleteObjects, GET, HEAD, PUT, DELETE, copies and
multipart uploads. Signatures are not checked; the access key is, when one is given.

    python benchmarks/s3_loopback.py --slices 1 --objects 1000000      prints its address and serves until killed
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import heapq
import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any
from urllib.parse import quote_plus, unquote
from xml.sax.saxutils import escape, unescape

import numpy as np
import uvloop

from computed_keys import ComputedKeys
from loopback_http import Connection, Load, Request, Response, Trouble

_KEYS = re.compile(rb"<Key>(.*?)</Key>", re.DOTALL)
_PART_NUMBERS = re.compile(rb"<PartNumber>(\d+)</PartNumber>")
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


@dataclass(frozen=True, slots=True)
class Kept:
    data: bytes | memoryview
    etag: str
    modified_at: float
    size: int | None = None  # where there are no bytes, only their number

    def __len__(self) -> int:
        return len(self.data) if self.size is None else self.size


class Frozen:
    """Objects of one bucket that no request may change, many of them, found by their order."""

    def __init__(self, objects: dict[str, Kept]) -> None:
        self.objects = objects
        self._keys = sorted(objects)

    def keys(self, prefix: str, after: str, end: str | None = None) -> list[str]:
        """Keys below a prefix, after one and up to another."""
        first = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        last = bisect_left(self._keys, prefix + "\U0010ffff") if prefix else len(self._keys)
        if end is not None:
            last = min(last, bisect_right(self._keys, end))
        return self._keys[first:last]


def error(status: int, code: str, message: str = "") -> Response:
    body = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return Response(status, body.encode(), {"Content-Type": "application/xml"})


class LoopbackS3:
    """`with LoopbackS3() as server: server.url`, in a thread of its own.

    `intercept`, when set, sees every request first and may answer it: that is how tests make it throttle or fail.
    """

    def __init__(
        self,
        *,
        computed: ComputedKeys | None = None,
        buckets: tuple[str, ...] = ("lake",),
        access_key_id: str | None = None,
        clock: Callable[[], float] = time.time,
        trouble: Trouble | None = None,
    ) -> None:
        self.computed = computed
        self.frozen = Frozen({})
        self.refused: list[str] = []  # keys of frozen objects that somebody tried to change
        self.trouble = trouble or Trouble()
        self.buckets: dict[str, dict[str, Kept]] = {name: {} for name in buckets}
        self.access_key_id = access_key_id
        self.intercept: Callable[[Request], Response | None] | None = None
        self.requests = 0
        self._clock = clock
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._connections: set[Any] = set()
        self._started = threading.Event()
        # Compiled: on two cores, what the server takes is taken from its client.
        self._loop = uvloop.new_event_loop()
        self._looked_at = 0, 0.0, 0.0  # requests, CPU of the thread, time
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.port = 0

    def __enter__(self) -> LoopbackS3:
        self._thread.start()
        self._started.wait()
        self.take_load()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_server(self._connection, "127.0.0.1", 0)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        for transport in list(self._connections):
            transport.abort()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(server.wait_closed())

    def _connection(self) -> Connection:
        return Connection(self.answer, self._connections, self.trouble.latency_seconds)

    def take_load(self) -> Load:
        """How busy the server was since this was asked last, or since it began."""
        clock = time.pthread_getcpuclockid(self._thread.ident or 0)
        now = self.requests, time.clock_gettime(clock), time.perf_counter()
        requests, cpu_seconds, seconds = (a - b for a, b in zip(now, self._looked_at, strict=True))
        self._looked_at = now
        return Load(int(requests), cpu_seconds, seconds)

    def answer(self, request: Request) -> Response:
        """The reply to one request."""
        self.requests += 1
        # Clients of an API do not repeat what may have been done; its answers have no faults of their own.
        if request.bucket != "api" and (status := self.trouble.strike()) is not None:
            return error(status, "SlowDown" if status == 503 else "InternalError")
        if self.intercept is not None and (made := self.intercept(request)) is not None:
            return made
        if self.access_key_id and f"Credential={self.access_key_id}/" not in request.headers.get(
            "authorization", ""
        ):
            return error(403, "InvalidAccessKeyId", "unknown key")
        objects = self.buckets.get(request.bucket)
        if objects is None:
            return error(404, "NoSuchBucket", "The specified bucket does not exist")
        if request.key:
            return self._answer_object(request, objects)
        if request.method == "POST" and "delete" in request.query:
            return self._delete_objects(request, objects)
        if request.method == "GET" and request.query.get("list-type") == "2":
            return self._list(request, objects)
        return error(501, "NotImplemented", request.method)

    def _list(self, request: Request, objects: dict[str, Kept]) -> Response:
        query = request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        limit = min(1000, int(query.get("max-keys", "1000")))
        token = query.get("continuation-token")
        after = base64.urlsafe_b64decode(token).decode() if token else query.get("start-after", "")
        computed = self.computed
        if computed is not None and not delimiter and prefix.startswith(computed.prefix):
            rows, count, last, is_truncated = self._computed_page(objects, prefix, after, limit)
        else:
            names = self._names(objects, prefix, after, delimiter)
            page = list(islice(names, limit + 1))
            is_truncated, page = len(page) > limit, page[:limit]
            count, last = len(page), page[-1] if page else ""
            rows = b"".join(self._row(objects, name, delimiter, prefix) for name in page)
        next_token = ""
        if is_truncated:
            text = base64.urlsafe_b64encode(last.encode()).decode()
            next_token = f"<NextContinuationToken>{text}</NextContinuationToken>"
        head = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult {_NAMESPACE}><Name>{request.bucket}</Name>'
            f"<Prefix>{quote_plus(prefix, safe='/')}</Prefix><KeyCount>{count}</KeyCount><MaxKeys>{limit}</MaxKeys>"
            f"<EncodingType>url</EncodingType><IsTruncated>{str(is_truncated).lower()}</IsTruncated>{next_token}"
        )
        body = b"".join((head.encode(), rows, b"</ListBucketResult>"))
        return Response(200, body, {"Content-Type": "application/xml"})

    def _names(
        self, objects: dict[str, Kept], prefix: str, after: str, delimiter: str
    ) -> Iterator[str]:
        """Keys and common prefixes after `after`, in order."""
        kept = sorted(key for key in objects if key.startswith(prefix) and key > after)
        sources: list[Iterator[str]] = [iter(kept), iter(self.frozen.keys(prefix, after))]
        computed = self.computed
        if computed is not None:
            if delimiter:
                sources.append(_computed_folders(computed, prefix))
            else:
                first = max(
                    computed.first_at_or_after(after, is_after=True),
                    computed.first_at_or_after(prefix, is_after=False),
                )
                below = takewhile(lambda key: key.startswith(prefix), computed.keys_from(first))
                sources.append(below)
        last = after
        for key in heapq.merge(*sources):
            name = key
            if delimiter and (at := key.find(delimiter, len(prefix))) >= 0:
                name = key[: at + 1]
            if name > last and not (
                delimiter and last.endswith(delimiter) and key.startswith(last)
            ):
                last = name
                yield name

    def _computed_page(
        self, objects: dict[str, Kept], prefix: str, after: str, limit: int
    ) -> tuple[bytes, int, str, bool]:
        """(rows, how many, last key, whether more follow) of a page that is arithmetic, but for a few other keys."""
        computed = self.computed
        assert computed is not None
        first = computed.first_at_or_after(prefix, is_after=False)
        end = computed.first_at_or_after(prefix + "\U0010ffff", is_after=False)
        if after:
            first = max(first, computed.first_at_or_after(after, is_after=True))
        found = computed.alive_from(first, end, limit + 1)
        up_to = computed.key(int(found[-1])) if len(found) > limit else "\U0010ffff"
        others = [key for key in objects if key.startswith(prefix) and after < key < up_to]
        others = sorted([*others, *self.frozen.keys(prefix, after, up_to)])[: limit + 1]
        places = [
            int(np.searchsorted(found, computed.first_at_or_after(key, is_after=False)))
            for key in others
        ]
        among = [place for number, place in enumerate(places) if place + number < limit]
        page = found[: limit - len(among)]
        rows = computed.page_rows(page)
        last = computed.key(int(page[-1])) if len(page) else ""
        if among:
            width, pieces, done = len(rows) // max(1, len(page)), [], 0
            for key, place in zip(others, among, strict=False):
                row = self._row(objects, key, "", prefix)
                pieces += [rows[done * width : place * width], row]
                done = place
            rows = b"".join([*pieces, rows[done * width :]])
            last = max(last, others[len(among) - 1])
        return rows, len(page) + len(among), last, len(found) + len(others) > limit

    def _row(self, objects: dict[str, Kept], name: str, delimiter: str, prefix: str) -> bytes:
        text = quote_plus(name, safe="/")
        if delimiter and name.endswith(delimiter) and len(name) > len(prefix):
            return f"<CommonPrefixes><Prefix>{text}</Prefix></CommonPrefixes>".encode()
        kept = objects.get(name, self.frozen.objects.get(name))
        if kept is None:
            assert self.computed is not None
            index = self.computed.index_of(name)
            return self.computed.page_rows(np.array([index]))
        when = _iso(kept.modified_at)
        return (
            f"<Contents><Key>{text}</Key><LastModified>{when}</LastModified><ETag>{escape(kept.etag)}</ETag>"
            f"<Size>{len(kept)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        ).encode()

    def _delete_objects(self, request: Request, objects: dict[str, Kept]) -> Response:
        is_quiet = b"<Quiet>true</Quiet>" in request.body
        rows = b""
        is_done = is_quiet and self.computed is not None and self.computed.delete_in(request.body)
        if not is_done:
            raw = _KEYS.findall(request.body)
            if self.computed is not None:
                self.computed.delete(raw)
            for key in raw:
                self._remove(objects, unescape(key.decode(), {"&quot;": '"', "&apos;": "'"}))
            if not is_quiet:
                rows = b"".join(b"<Deleted><Key>" + key + b"</Key></Deleted>" for key in raw)
        body = b'<?xml version="1.0" encoding="UTF-8"?>\n<DeleteResult>' + rows + b"</DeleteResult>"
        return Response(200, body, {"Content-Type": "application/xml"})

    def _answer_object(self, request: Request, objects: dict[str, Kept]) -> Response:
        query, key = request.query, request.key
        if "uploads" in query or "uploadId" in query:
            return self._answer_upload(request, objects)
        if request.method == "PUT":
            return self._put(request, objects)
        if request.method == "DELETE":
            self._remove(objects, key)
            if self.computed is not None:
                self.computed.delete([key.encode()])
            return Response(204)
        kept = self._found(objects, key)
        if kept is None:
            return error(404, "NoSuchKey", "The specified key does not exist.")
        headers = {"ETag": kept.etag, "Last-Modified": _http_date(kept.modified_at)}
        return _ranged(request, kept, headers)

    def _remove(self, objects: dict[str, Kept], key: str) -> None:
        if objects.pop(key, None) is None and key in self.frozen.objects:
            self.refused.append(key)

    def _found(self, objects: dict[str, Kept], key: str) -> Kept | None:
        kept, computed = objects.get(key, self.frozen.objects.get(key)), self.computed
        if kept is not None or computed is None:
            return kept
        index = computed.index_of(key)
        if index is None or not computed.is_alive[index]:
            return None
        tag, at = f'"{computed.etag(index)}"', computed.modified_at(index)
        try:
            return Kept(computed.content(index), tag, at)
        except LookupError:
            return Kept(b"", tag, at, size=computed.size(index))

    def _put(self, request: Request, objects: dict[str, Kept]) -> Response:
        present = objects.get(request.key)
        if request.headers.get("if-none-match") == "*" and present is not None:
            return error(412, "PreconditionFailed")
        wanted = request.headers.get("if-match")
        if wanted is not None and present is None:
            return error(404, "NoSuchKey")
        if wanted is not None and present is not None and present.etag != wanted:
            return error(412, "PreconditionFailed")
        source = request.headers.get("x-amz-copy-source")
        if source is None:
            kept = self._keep(objects, request.key, request.body)
            return Response(200, b"", {"ETag": kept.etag})
        data = self._copy_source(source, None)
        if data is None:
            return error(404, "NoSuchKey", "The specified key does not exist.")
        kept = self._keep(objects, request.key, data)
        return Response(
            200, f"<CopyObjectResult><ETag>{escape(kept.etag)}</ETag></CopyObjectResult>".encode()
        )

    def _copy_source(self, source: str, byte_range: str | None) -> bytes | None:
        bucket, _, key = unquote(source).lstrip("/").partition("/")
        kept = self._found(self.buckets.get(bucket, {}), key)
        if kept is None:
            return None
        if byte_range is None:
            return kept.data
        start, end = byte_range.removeprefix("bytes=").split("-")
        return kept.data[int(start) : int(end) + 1]

    def _answer_upload(self, request: Request, objects: dict[str, Kept]) -> Response:
        query = request.query
        if "uploads" in query:
            upload_id = f"upload-{len(self._uploads)}"
            self._uploads[upload_id] = {}
            body = f"<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>{upload_id}</UploadId></InitiateMultipartUploadResult>"
            return Response(200, body.encode())
        parts = self._uploads.get(query["uploadId"])
        if parts is None:
            return error(404, "NoSuchUpload")
        if request.method == "DELETE":
            del self._uploads[query["uploadId"]]
            return Response(204)
        if request.method == "PUT":
            data = request.body
            if source := request.headers.get("x-amz-copy-source"):
                data = (
                    self._copy_source(source, request.headers.get("x-amz-copy-source-range")) or b""
                )
            parts[int(query["partNumber"])] = data
            etag = _etag(data)
            return Response(
                200,
                f"<CopyPartResult><ETag>{escape(etag)}</ETag></CopyPartResult>".encode(),
                {"ETag": etag},
            )
        numbers = [int(number) for number in _PART_NUMBERS.findall(request.body)]
        kept = self._keep(objects, request.key, b"".join(parts[number] for number in numbers))
        del self._uploads[query["uploadId"]]
        body = f"<CompleteMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><Location>l</Location><ETag>{escape(kept.etag)}</ETag></CompleteMultipartUploadResult>"
        return Response(200, body.encode())

    def _keep(self, objects: dict[str, Kept], key: str, data: bytes) -> Kept:
        kept = objects[key] = Kept(data, _etag(data), float(int(self._clock())))
        return kept


def _computed_folders(computed: ComputedKeys, prefix: str) -> Iterator[str]:
    if computed.prefix.startswith(prefix) and computed.prefix != prefix:
        yield computed.prefix
    elif prefix == computed.prefix:
        for part in range(computed.slices):
            first, end = computed.bounds(part)
            if computed.is_alive[first:end].any():
                yield computed.slice(part)


def _ranged(request: Request, kept: Kept, headers: dict[str, str]) -> Response:
    data = kept.data
    status = 200
    if kept.size is not None:
        if request.method != "HEAD":
            return error(501, "NotImplemented", "this object has no bytes")
        return Response(200, b"", headers | {"Content-Length": str(kept.size)})
    if wanted := request.headers.get("range"):
        start_text, _, end_text = wanted.removeprefix("bytes=").partition("-")
        start = int(start_text)
        end = min(int(end_text or len(data) - 1), len(data) - 1)
        if start >= len(data):
            return error(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
        data, status = data[start : end + 1], 206
    if request.method == "HEAD":
        return Response(status, b"", headers | {"Content-Length": str(len(data))})
    return Response(status, data, headers)


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


@lru_cache(maxsize=4096)
def _http_date(timestamp: float) -> str:
    return formatdate(timestamp, usegmt=True)


def _iso(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--prefix", default="repo/data/")
    parser.add_argument("--slices", type=int, default=1)
    parser.add_argument("--objects", type=int, default=1_000_000, help="in each slice")
    parser.add_argument("--size", type=int, default=1 << 20, help="bytes of each object")
    arguments = parser.parse_args()
    computed = ComputedKeys(
        arguments.prefix, arguments.slices, arguments.objects, size_bytes=arguments.size
    )
    with LoopbackS3(computed=computed) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
