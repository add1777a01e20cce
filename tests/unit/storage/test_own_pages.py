"""Listings of Azure and Google with a key that obstore can't carry: read by ourselves, every key once and unchanged."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import StorageDeniedError, StorageError, UnsupportedStoreError
from lakesweep.storage import ObjectStore, StorageOptions, open_store
from lakesweep.storage.cloud import CloudBackend
from lakesweep.storage.cloud_tokens import Token
from lakesweep.storage.own_pages import read_azure_page

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
WHEN = "Fri, 02 Jan 2026 03:04:05 GMT"
SAME = "2026-01-02T03:04:05Z"


def blob(name: str, more: str = "", encoded: str = "", size: int = 3) -> str:
    return (
        f"<Blob><Name{encoded}>{name}</Name><Properties><Last-Modified>{WHEN}</Last-Modified><Etag>0x1</Etag>"
        f"<Content-Length>{size}</Content-Length><Content-Type>x</Content-Type>{more}</Properties></Blob>"
    )


def azure_page(*entries: str, marker: str = "") -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="c"><Blobs>'
        f"{''.join(entries)}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
    )


def google_page(*names: str, token: str = "") -> str:
    rows = "".join(
        f"<Contents><Key>{name}</Key><LastModified>{SAME}</LastModified><ETag>e</ETag><Size>3</Size></Contents>"
        for name in names
    )
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    said = "true" if token else "false"
    return (
        f"<ListBucketResult><KeyCount>{len(names)}</KeyCount><IsTruncated>{said}</IsTruncated>{rows}{more}"
        "</ListBucketResult>"
    )


@contextmanager
def answering(pages: dict[str, str], statuses: list[int]) -> Iterator[str]:
    """A server on loopback whose answer is the page of the marker asked for; `statuses` come first."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            asked = query.get("marker") or query.get("continuation-token") or [""]
            # obstore asks with a user agent of its own.
            is_ours = "object_store" not in self.headers.get("user-agent", "")
            status = statuses.pop(0) if statuses and is_ours else 200
            content = pages[asked[0]].encode() if status == 200 else b""
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    with served(Handler) as url:
        yield url


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """A server on loopback, and its address."""
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


# More than obstore gathers before it gives anything.
MANY = [f"n/a{number:04}" for number in range(1500)]
AZURE = {
    "": azure_page(*(blob(f"r/{n}") for n in MANY), marker="2"),
    "2": azure_page(blob("r/n//x")),
}
GOOGLE = {"": google_page(*(f"r/{n}" for n in MANY), token="2"), "2": google_page("r/n//x")}
WHOLE = [*((name, False) for name in MANY), ("n//x", True)]


@contextmanager
def opened(kind: str, statuses: list[int], **credentials: str) -> Iterator[ObjectStore]:
    quick = {"first_pause_seconds": 0.001, "transient_retries": 1}
    with answering(AZURE if kind == "azure" else GOOGLE, statuses) as url:
        if kind == "azure":
            given = credentials or {"azure_account_key": KEY}
            root = Location.parse(f"{url}/devstoreaccount1/c/r")
            yield open_store(root, StorageOptions(**given, **quick))  # type: ignore[arg-type]
        else:
            options = StorageOptions(gcs_endpoint=url, **quick)  # type: ignore[arg-type]
            yield open_store(Location.parse("gs://c/r"), options)


def rows(store: ObjectStore, prefix: str = "") -> list[tuple[str, bool]]:
    return [(r["key"], r["is_odd"]) for batch in store.list(prefix) for r in batch.to_pylist()]


@pytest.mark.parametrize("kind", ["azure", "gcs"])
def test_every_key_is_listed_once_when_obstore_gives_up_half_way(kind: str) -> None:
    """A part came from obstore, and is not given again."""
    with opened(kind, []) as store:
        assert rows(store) == WHOLE


@pytest.mark.parametrize("kind", ["azure", "gcs"])
def test_a_page_that_fails_for_a_moment_is_asked_for_again(kind: str) -> None:
    """The same patience as everywhere."""
    with opened(kind, [500, 200, 500]) as store:
        assert rows(store) == WHOLE


class _ResetOnce(BaseHTTPRequestHandler):
    """One page with one blob of no bytes; the first look-up of it finds its connection reset."""

    looked_up: ClassVar[list[str]]

    def do_GET(self) -> None:
        content = azure_page(blob("r/empty", size=0)).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_HEAD(self) -> None:
        self.looked_up.append(self.path)
        if len(self.looked_up) == 1:
            no_lingering = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_lingering)
            self.close_connection = True
            return
        self.send_response(200)
        for name, value in (("content-length", "0"), ("etag", '"0x1"'), ("last-modified", WHEN)):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


def test_a_look_up_inside_a_listing_is_repeated() -> None:
    """A listing looks up what may have lost its slash: a connection that breaks there does not end it."""
    _ResetOnce.looked_up = []
    with served(_ResetOnce) as url:
        root = Location.parse(f"{url}/devstoreaccount1/c/r")
        options = StorageOptions(azure_account_key=KEY, transient_retries=1)
        assert rows(open_store(root, options)) == [("empty", False)]
    assert _ResetOnce.looked_up == ["/devstoreaccount1/c/r/empty"] * 2


def test_a_refusal_is_told_as_one() -> None:
    """A listing never ends early."""
    with opened("azure", [200, 403]) as store, pytest.raises(StorageDeniedError):
        rows(store)


def test_a_sas_token_serves_as_well_as_a_key() -> None:
    """It is all that stands in the address."""
    with opened("azure", [], azure_sas_token="sv=1&sig=x") as store:
        assert rows(store) == WHOLE


def test_names_that_xml_can_not_carry_are_decoded() -> None:
    """They come percent-encoded, and say so; the others are taken as they are."""
    names = blob("r/a%0Ab", encoded=' Encoded="true"'), blob("r/a%0Ab")
    page = read_azure_page(azure_page(*names).encode(), "r/")
    assert page.objects.column("key").to_pylist() == ["a\nb", "a%0Ab"]
    assert page.objects.column("is_odd").to_pylist() == [True, False]


def test_directories_are_no_objects() -> None:
    """An account with a hierarchical namespace lists them among the blobs; prefixes come apart."""
    folder = "<BlobPrefix><Name>r/n//</Name></BlobPrefix>"
    directory = blob("r/d", "<ResourceType>directory</ResourceType>")
    page = read_azure_page(azure_page(folder, directory, blob("r/f")).encode(), "r/")
    assert page.folders == ("n//",)
    assert page.objects.column("key").to_pylist() == ["f"]


@pytest.mark.parametrize(
    "content",
    [
        azure_page(blob("r/a")).replace("<NextMarker></NextMarker>", ""),
        azure_page(blob("elsewhere/a")),
        azure_page(blob("r/a").replace("3", "three")),
        azure_page(blob("r/a").replace(WHEN, "yesterday")),
        azure_page(blob("r/a"))[:-10],
        "<Error/>",
    ],
)
def test_a_page_that_is_not_whole_is_refused(content: str) -> None:
    """What is not listed could be taken for garbage's absence; nothing is guessed."""
    with pytest.raises(StorageError):
        read_azure_page(content.encode(), "r/")


ODD = UnsupportedStoreError("n//x can't be carried", kind="odd-key")


def own_keys(store: ObjectStore) -> list[str]:
    backend = store.backend
    assert isinstance(backend, CloudBackend)
    pages = backend._own_pages(ODD, "", "")
    return [key for page in pages for key in page.objects.column("key").to_pylist()]


def test_pages_are_asked_for_with_a_token_where_there_is_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One token serves all pages."""
    asked: list[StorageOptions] = []

    def token(options: StorageOptions) -> Token:
        asked.append(options)
        return Token("token")

    monkeypatch.setattr("lakesweep.storage.azure.azure_token", token)
    monkeypatch.setattr("lakesweep.storage.gcs.google_token", token)
    with answering(AZURE, []) as url:
        root = Location.parse(f"{url}/devstoreaccount1/c/r")
        assert own_keys(open_store(root, StorageOptions())) == [*MANY, "n//x"]
    with answering(GOOGLE, []) as url:
        monkeypatch.setattr("lakesweep.storage.gcs._base_url", lambda _: url)
        assert own_keys(open_store(Location.parse("gs://c/r"), StorageOptions())) == [*MANY, "n//x"]
    assert len(asked) == 2
