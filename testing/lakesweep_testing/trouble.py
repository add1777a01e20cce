"""Trouble between a collector and what it works with: a store that is meddled with, a server that is.

Both sit where the real ones sit, so that retries, checks and messages are those of a real run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import httpx
import pyarrow as pa

from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.target import Target
from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage import ObjectStore
from lakesweep.storage.backend import Backend
from lakesweep.storage.signing import UrlSigner
from lakesweep.storage.values import NO_TERMS, DeleteOutcome, DeleteTerms, Folder, ObjectInfo

__all__ = [
    "POLL",
    "MeddledTarget",
    "MeddlingBackend",
    "MeddlingTransport",
    "Send",
    "as_a_real_server",
    "at_first",
    "edited_answer",
    "route_of",
    "through_store",
]

POLL = "GET gc/prepare_commits/status"

Wrap = Callable[[ObjectStore], ObjectStore]
Send = Callable[[httpx.Request], httpx.Response]

# Work functions travel pickled, and a wrapper can't: it stays here, and its number travels.
_WRAPS: dict[int, Wrap] = {}
_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class MeddledTarget(Target):
    """A target whose store is opened through a wrapper, for engines in this process."""

    wrap: int = 0

    def open(self) -> ObjectStore:
        """The store, with the trouble in between."""
        plain = Target(self.namespace, self.storage, self.namespace_root)
        return _WRAPS[self.wrap](plain.open())


def through_store(context: RunContext, wrap: Wrap) -> RunContext:
    """A run whose driver and tasks all reach the namespace through one wrapped store."""
    number = next(_NUMBERS)
    # One wrapped store for the whole run, so that it can count what is done with it.
    target = context.resources.target
    store = wrap(target.open())
    _WRAPS[number] = lambda _: store
    meddled = MeddledTarget(target.namespace, target.storage, target.namespace_root, number)
    return with_resources(context, target=meddled)


def with_resources(context: RunContext, **changes: Any) -> RunContext:
    """A run that works with another clock, engine or whatever else is named."""
    return replace(context, resources=replace(context.resources, **changes))


class MeddlingBackend:
    """A backend that tells `before` of every call, and gives what `change` makes of every object read.

    `change(key, data)` returns other bytes, or None for an object that is not there. Either may raise.
    """

    def __init__(
        self,
        inner: Backend,
        *,
        before: Callable[[str, str], None] = lambda operation, key: None,
        change: Callable[[str, bytes], bytes | None] = lambda key, data: data,
    ) -> None:
        self.inner = inner
        self._before = before
        self._change = change

    @classmethod
    def wrap(
        cls,
        before: Callable[[str, str], None] = lambda operation, key: None,
        change: Callable[[str, bytes], bytes | None] = lambda key, data: data,
    ) -> Wrap:
        """A wrapper for `through_store`."""

        def wrapped(store: ObjectStore) -> ObjectStore:
            backend = cls(store.backend, before=before, change=change)
            return ObjectStore(store.root, backend, store.options, store.congestion)

        return wrapped

    @property
    def delete_batch_size(self) -> int:
        return self.inner.delete_batch_size

    @property
    def is_key_ordered(self) -> bool:
        return self.inner.is_key_ordered

    @property
    def reads_odd_keys(self) -> bool:
        return self.inner.reads_odd_keys

    @property
    def signer(self) -> UrlSigner | None:
        return self.inner.signer

    def scan(self, prefix: str, start_after: str | None) -> Iterator[pa.RecordBatch]:
        self._before("list", prefix)
        return self.inner.scan(prefix, start_after)

    def folder(self, prefix: str) -> Folder:
        self._before("list", prefix)
        return self.inner.folder(prefix)

    def first_key(self, prefix: str, start_after: str | None) -> str | None:
        self._before("list", prefix)
        return self.inner.first_key(prefix, start_after)

    def bare_gets(self) -> None:
        """None: every request goes through this wrapper."""

    def bare_heads(self) -> None:
        """None: every request goes through this wrapper."""

    def bare_lists(self) -> None:
        """None: every request goes through this wrapper."""

    def get(self, key: str) -> bytes:
        self._before("read", key)
        data = self._change(key, self.inner.get(key))
        if data is None:
            raise ObjectNotFoundError(f"reading {key!r} failed: there is no such object.")
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)[start : start + length]

    def stream(self, key: str) -> Iterator[bytes]:
        yield self.get(key)

    def head(self, key: str) -> ObjectInfo:
        self._before("stat", key)
        return self.inner.head(key)

    def put(self, key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo:
        self._before("write", key)
        return self.inner.put(key, data, create=create, if_match=if_match)

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> ObjectInfo:
        self._before("write", key)
        return self.inner.put_stream(key, chunks)

    def copy_from(self, source: Backend, source_key: str, target_key: str) -> bool:
        self._before("copy", target_key)
        plain = source.inner if isinstance(source, MeddlingBackend) else source
        return self.inner.copy_from(plain, source_key, target_key)

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> Sequence[DeleteOutcome]:
        for key in keys:
            self._before("delete", key)
        return self.inner.delete(keys, terms)


def at_first(operation: str, prefix: str, do: Callable[[], None]) -> Wrap:
    """A wrapper for `through_store` that does something once, before the first such operation."""
    done: list[bool] = []

    def before(kind: str, key: str) -> None:
        if not done and kind == operation and key.startswith(prefix):
            done.append(True)
            do()

    return MeddlingBackend.wrap(before)


class MeddlingTransport(httpx.BaseTransport):
    """HTTP to a server, with somebody in between who may answer himself: `meddle(request, send)`.

    `routes` has what was asked so far: the method, and the path below the API or the repository.
    """

    def __init__(
        self, meddle: Callable[[httpx.Request, Send], httpx.Response] = lambda r, send: send(r)
    ) -> None:
        self._inner = httpx.HTTPTransport(verify=False)  # plain HTTP; certificates load for 50 ms
        self._meddle = meddle
        self.routes: list[str] = []

    @property
    def routes_without_polling(self) -> list[str]:
        """What was asked so far, without the questions whether a task is done: of those a slow day has more."""
        return [route for route in self.routes if route != POLL]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.routes.append(route_of(request))
        return self._meddle(request, self._send)

    def close(self) -> None:
        self._inner.close()

    def _send(self, request: httpx.Request) -> httpx.Response:
        response = self._inner.handle_request(request)
        response.read()
        return response


def route_of(request: httpx.Request) -> str:
    """`GET branches`, `POST gc/prepare_uncommited`: the method, and the path without API and repository."""
    path = request.url.path.partition("/api/v1/")[2]
    if path.startswith("repositories/"):
        path = path.removeprefix("repositories/").partition("/")[2] or "repository"
    return f"{request.method} {path}"


def edited_answer(response: httpx.Response, **changes: object) -> httpx.Response:
    """An answer with some fields of its JSON changed; None takes a field out."""
    values = {**response.json(), **changes}
    body = {name: value for name, value in values.items() if value is not None}
    headers = {"date": response.headers["date"]}
    return httpx.Response(response.status_code, json=body, headers=headers)


def as_a_real_server(
    meddle: Callable[[httpx.Request, Send], httpx.Response] = lambda r, send: send(r),
) -> MeddlingTransport:
    """The embedded lake without what only it promises: no features, no counts of rows."""

    def hide(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        route = route_of(request)
        if route == "GET config" and response.status_code == 200:
            # On local files a real server is refused; on any other store it lists what is linked.
            storage = {"blockstore_type": "mem"}
            return edited_answer(response, lakesweep=None, storage_config=storage)
        if route == "POST gc/prepare_uncommited" and response.status_code == 201:
            return edited_answer(response, rows_written=None, total_rows=None)
        return response

    # Whoever meddles gets what a real server says, and may break it.
    return MeddlingTransport(lambda request, send: meddle(request, partial(hide, send=send)))
