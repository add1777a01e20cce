"""Where a listing is cut, or goes on after an error, a server that answers in another order is noticed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import StorageError
from lakesweep.storage import KeyRange, ObjectStore, StorageOptions, open_store
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.http_wire import Reply
from lakesweep.storage.memory import MemoryBackend, memory_container
from lakesweep.storage.s3.backend import S3Backend
from lakesweep.storage.translate import TRANSIENT

KEYS = [f"p/{number}" for number in range(6)]


class Backwards(MemoryBackend):
    """Lists two keys a page, the greatest first, as a server without an order may; one page may break off."""

    breaks_before_page = -1

    def scan(self, prefix: str, start_after: str | None) -> Iterator[pa.RecordBatch]:
        keys = self._keys(prefix, start_after)[::-1]
        for page, first in enumerate(range(0, len(keys), 2)):
            if page == self.breaks_before_page:
                self.breaks_before_page = -1
                raise StorageError("broken", kind=TRANSIENT)
            yield self._batch(keys[first : first + 2])


@pytest.fixture
def store() -> ObjectStore:
    name = uuid.uuid4().hex
    backend = Backwards(memory_container(name), "")
    options = StorageOptions(first_pause_seconds=0.0001)
    store = ObjectStore(Location.parse(f"mem://{name}"), backend, options, CongestionControl(2))
    for key in KEYS:
        store.write(key, b"x")
    return store


def listed(store: ObjectStore, part: KeyRange) -> list[str]:
    return [k for _, batch in store.list_ranges([part]) for k in batch.column("key").to_pylist()]


def test_whole_listing_needs_no_order(store: ObjectStore) -> None:
    """All keys come, in whatever order."""
    assert sorted(listed(store, KeyRange("p/"))) == KEYS


@pytest.mark.parametrize(
    "part",
    [KeyRange("p/", most=2), KeyRange("p/", end_at="p/2"), KeyRange("p/", start_after="p/2")],
)
def test_cut_listing_of_another_order_is_refused(store: ObjectStore, part: KeyRange) -> None:
    """What is left off at the one end may have come at the other."""
    with pytest.raises(StorageError, match="order"):
        listed(store, part)


def test_page_of_another_order_is_refused(store: ObjectStore) -> None:
    """It has not passed all that sorts before its last key."""
    with pytest.raises(StorageError, match="order"):
        store.list_page("p/", start_after="p/")


def test_listing_of_another_order_does_not_go_on_after_an_error(store: ObjectStore) -> None:
    """Keys that sort before the last one have not come yet."""
    assert isinstance(store.backend, Backwards)
    store.backend.breaks_before_page = 1
    with pytest.raises(StorageError, match="broken"):
        listed(store, KeyRange("p/"))


@pytest.fixture
def s3_store() -> ObjectStore:
    options = StorageOptions(
        s3_access_key_id="k", s3_secret_access_key="s", s3_endpoint="http://127.0.0.1:9"
    )
    return open_store(Location.parse("s3://bucket/lake"), options)


def test_folder_that_two_pages_name_is_one_folder(
    s3_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers begin a page with the folder that ended the one before; a listing would visit it twice, and refuse."""

    def request(method: str, what: str, *, query: dict[str, str]) -> Reply:
        is_last = "continuation-token" in query
        page = (
            f"<ListBucketResult><IsTruncated>{str(not is_last).lower()}</IsTruncated><NextContinuationToken>t"
            "</NextContinuationToken><CommonPrefixes><Prefix>lake/data/a/</Prefix></CommonPrefixes></ListBucketResult>"
        )
        return Reply(200, {}, page.encode())

    assert isinstance(s3_store.backend, S3Backend)
    monkeypatch.setattr(s3_store.backend._client, "request", request)
    assert s3_store.list_folder("data/").folders == ("data/a/",)


def test_listing_whose_page_is_its_own_successor_is_refused(
    s3_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that passes over continuation tokens gives its first page for ever."""
    page = (
        "<ListBucketResult><KeyCount>1</KeyCount><IsTruncated>true</IsTruncated><NextContinuationToken>t"
        "</NextContinuationToken><Contents><Key>lake/a</Key><Size>1</Size></Contents></ListBucketResult>"
    )
    asked: list[str] = []

    def request(method: str, what: str, **more: object) -> Reply:
        asked.append(what)
        assert len(asked) < 5, "the listing does not end"
        return Reply(200, {}, page.encode())

    assert isinstance(s3_store.backend, S3Backend)
    monkeypatch.setattr(s3_store.backend._client, "request", request)
    with pytest.raises(StorageError, match="its own successor"):
        list(s3_store.list(""))
