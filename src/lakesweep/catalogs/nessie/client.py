"""A client of Nessie's REST API, version 2, that only reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Self, TypeVar

import httpx

from lakesweep.catalogs.nessie.client_properties import ClientProperties, read_client_properties
from lakesweep.catalogs.nessie.contents import read_content
from lakesweep.catalogs.nessie.transport import ReadOnlyTransport, nonsense
from lakesweep.catalogs.nessie.values import (
    CatalogConfig,
    CatalogContent,
    HistoryPage,
    LoggedCommit,
    Reference,
)
from lakesweep.catalogs.nessie.wire import (
    ConfigWire,
    EntriesWire,
    HistoryWire,
    LogEntryWire,
    PageWire,
    ReferencesWire,
)
from lakesweep.domain.cutoff_policies import parse_instant
from lakesweep.errors import CatalogError, CatalogNotFoundError, ConfigError

__all__ = ["NessieClient"]

Item = TypeVar("Item")

_ENTRIES_PAGE = 1000


class NessieClient:
    """Asks a Nessie server. It has no method that writes. Safe for many threads; close it, or use it in a `with`."""

    def __init__(
        self,
        uri: str,
        properties: Mapping[str, str] | ClientProperties | None = None,
        *,
        retries: int = 5,
        http_transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not isinstance(properties, ClientProperties):
            properties = read_client_properties(properties or {})
        self._checks_api = properties.flag("nessie.enable-api-compatibility-check", True)
        self._http = ReadOnlyTransport(
            uri, properties, retries=retries, sleep=sleep, http_transport=http_transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    @property
    def uri(self) -> str:
        """The API's address, without its closing slash."""
        return self._http.url

    def config(self) -> CatalogConfig:
        """What the server says of itself. One that does not speak version 2 is refused."""
        operation = "asking for the configuration"
        wire = self._http.ask(operation, ["config"], {}, ConfigWire)
        if self._checks_api and wire.max_supported_api_version < 2:
            raise CatalogError(
                f"{operation}: {self.uri} speaks the API up to version {wire.max_supported_api_version}, and lakesweep "
                "needs version 2. Nothing was read.",
                kind="catalog-version",
            )
        return CatalogConfig(wire.default_branch, wire.no_ancestor_hash, wire.spec_version)

    def server_time(self) -> datetime | None:
        """The server's clock, to the second; None when its answers do not say."""
        return self._http.server_time()

    def references(self) -> list[Reference]:
        """All branches and tags."""
        found = self._items("listing references", ["trees"], {"fetch": "MINIMAL"}, ReferencesWire)
        return [Reference(r.type, r.name, r.hash) for r in found]

    def history(
        self,
        reference: str | None,
        hash: str,
        *,
        page_size: int,
        page_token: str | None = None,
    ) -> HistoryPage:
        """A page of a commit log from a hash towards the root; with a reference's name the hash must lie on it."""
        name = reference or ""
        operation = f"reading the history of {name}@{hash[:12]}"
        params = {"fetch": "ALL", "max-records": str(page_size)}
        if page_token is not None:
            params["page-token"] = page_token
        path = ["trees", f"{name}@{hash}", "history"]
        wire = self._http.ask(operation, path, params, HistoryWire)
        token = _next_token(operation, wire, {page_token} if page_token else set())
        return HistoryPage(tuple(_commit(operation, entry) for entry in wire.items), token)

    def has_commit(self, hash: str) -> bool:
        """Whether the catalog knows a commit, on a reference or not."""
        try:
            self.history(None, hash, page_size=1)
        except CatalogNotFoundError:
            return False
        return True

    def entries(self, hash: str) -> Iterator[CatalogContent]:
        """All contents at a commit, namespaces left out."""
        operation = f"reading the contents at {hash[:12]}"
        params = {"content": "true", "max-records": str(_ENTRIES_PAGE)}
        path = ["trees", f"@{hash}", "entries"]
        for entry in self._items(operation, path, params, EntriesWire):
            content = read_content(operation, entry.name, entry.content)
            if content is not None:
                yield content

    def _items(
        self, operation: str, path: list[str], params: dict[str, str], model: type[PageWire[Item]]
    ) -> Iterator[Item]:
        asked: set[str] = set()
        page = self._http.ask(operation, path, params, model)
        while True:
            yield from page.items
            token = _next_token(operation, page, asked)
            if token is None:
                return
            asked.add(token)
            page = self._http.ask(operation, path, {**params, "page-token": token}, model)


def _next_token(operation: str, page: PageWire[Any], asked: set[str]) -> str | None:
    """Where the list goes on. A page that leads nowhere, or back, is an error and not the end of the list."""
    if not page.has_more:
        return None
    if not page.items:
        raise nonsense(operation, "a page says that there is more, but holds nothing")
    if not page.token or page.token in asked:
        raise nonsense(
            operation,
            "a page says that there is more, but its next page is one that was read before",
        )
    return page.token


def _commit(operation: str, entry: LogEntryWire) -> LoggedCommit:
    meta = entry.commit_meta
    try:
        time_made = parse_instant(meta.commit_time)
    except ConfigError as error:
        raise nonsense(operation, f"the commit {meta.hash} has no readable time") from error
    contents = []
    deleted = []
    for change in entry.operations or ():
        if change.type == "DELETE":
            deleted.append(tuple(change.key.elements))
        if change.type != "PUT":
            continue
        if change.content is None:
            raise nonsense(operation, f"the commit {meta.hash} puts a key without a content")
        content = read_content(operation, change.key, change.content)
        if content is not None:
            contents.append(content)
    parent = entry.parent_commit_hash
    return LoggedCommit(meta.hash, time_made, parent, tuple(contents), tuple(deleted))
