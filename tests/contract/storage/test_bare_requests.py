"""Many reads and look-ups of one S3 store from one thread: in order, and with the whole care of single ones where needed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import (
    ObjectNotFoundError,
    StorageDeniedError,
    StorageError,
    UnsupportedStoreError,
)
from lakesweep.storage import KeyRange, ObjectStore, StorageOptions, open_store
from s3_loopback import LoopbackS3, Request, Response, error

KEYS = [f"n/{number:03d}" for number in range(150)]


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackS3]:
    with LoopbackS3(access_key_id="key") as server:
        yield server


def store_at(server: LoopbackS3, root: str, **changes: object) -> ObjectStore:
    options = StorageOptions(
        s3_endpoint=server.url,
        s3_access_key_id="key",
        s3_secret_access_key="secret-secret",
        s3_region="us-east-1",
        first_pause_seconds=0.01,
        throttle_patience_seconds=5.0,
        **changes,  # type: ignore[arg-type]
    )
    return open_store(Location.parse(f"s3://lake/{root}"), options)


@pytest.fixture
def store(server: LoopbackS3, request: pytest.FixtureRequest) -> Iterator[ObjectStore]:
    store = store_at(server, request.node.name)
    for key in KEYS:
        store.write(key, key.encode())
    yield store
    server.intercept = None


def content_of(keys: list[str]) -> list[tuple[str, bytes]]:
    return [(key, key.encode()) for key in keys]


def test_objects_come_in_the_order_of_their_keys(store: ObjectStore) -> None:
    """Also doubled ones, and out of their own order."""
    keys = [*reversed(KEYS), *KEYS[:7]]
    assert list(store.read_many(keys)) == content_of(keys)
    assert list(store.read_many(iter(keys))) == content_of(keys)


def test_look_ups_say_what_single_ones_say(store: ObjectStore) -> None:
    """Size, time and etag are the same, and None is said of what is not there."""
    keys = [*KEYS[:20], "n/none", *KEYS[20:40]]
    assert list(store.stat_many(keys)) == [(key, store.find(key)) for key in keys]
    assert dict(store.stat_many(keys))["n/none"] is None


def test_a_look_up_believes_success_alone(store: ObjectStore, server: LoopbackS3) -> None:
    """Whatever the headers of another answer say."""
    headers = {"Last-Modified": "Mon, 02 Jan 2023 00:00:00 GMT", "ETag": '"x"'}
    server.intercept = lambda request: (
        Response(404, b"", headers) if request.key.endswith("/007") else None
    )
    told = dict(store.stat_many(KEYS[:20]))
    assert [key for key, info in told.items() if info is None] == ["n/007"]


def test_a_missing_object_is_an_error_at_its_turn(store: ObjectStore) -> None:
    """What comes before it was told; it is not told as empty."""
    found = store.read_many([*KEYS[:10], "n/none", *KEYS[10:20]])
    assert [next(found) for _ in range(10)] == content_of(KEYS[:10])
    with pytest.raises(ObjectNotFoundError, match="n/none"):
        next(found)


def test_an_odd_key_is_refused_at_its_turn(store: ObjectStore) -> None:
    """As a single read refuses it."""
    found = store.read_many([*KEYS[:5], "n//x", *KEYS[5:10]])
    assert [next(found) for _ in range(5)] == content_of(KEYS[:5])
    with pytest.raises(UnsupportedStoreError):
        next(found)


@pytest.mark.parametrize("status", [500, 503])
def test_trouble_with_some_requests_is_tried_again(
    store: ObjectStore, server: LoopbackS3, status: int
) -> None:
    """Errors and throttling, as for a single request."""
    struck: set[str] = set()

    def strike(request: Request) -> Response | None:
        if request.method == "GET" and request.key.endswith("7") and request.key not in struck:
            struck.add(request.key)
            return error(status, "SlowDown" if status == 503 else "InternalError")
        return None

    server.intercept = strike
    assert list(store.read_many(KEYS)) == content_of(KEYS)
    assert len(struck) == 15


def test_throttling_makes_fewer_requests_at_once(server: LoopbackS3) -> None:
    """The window of the prefix is cut."""
    store = store_at(server, "throttled", max_requests_in_flight=40)
    for key in KEYS[:4]:
        store.write(key, key.encode())
    before = store.congestion.limit("n/")
    first = iter([503])

    def strike(request: Request) -> Response | None:
        return error(503, "SlowDown") if next(first, None) else None

    server.intercept = strike
    found = store.read_many(KEYS[:4])
    assert list(found) == content_of(KEYS[:4])
    server.intercept = None
    assert store.congestion.limit("n/") < before


def test_denied_is_an_error(server: LoopbackS3, store: ObjectStore) -> None:
    """Of the kind that a single read raises."""
    server.intercept = lambda request: error(403, "AccessDenied")
    with pytest.raises(StorageDeniedError):
        list(store.read_many(KEYS))
    with pytest.raises(StorageDeniedError):
        list(store.stat_many(KEYS))


def test_a_reader_may_ask_for_more_while_it_reads(server: LoopbackS3) -> None:
    """Requests that wait for their reader take no room from what the reader does meanwhile."""
    store = store_at(server, "nested", max_requests_in_flight=2)
    for key in KEYS:
        store.write(key, key.encode())
    read = 0
    for key, data in store.read_many(KEYS):
        store.write(f"copy/{key}", data)
        read += len(list(store.read_many(KEYS[:5])))
    assert read == 5 * len(KEYS)
    assert sorted(store.keys("copy/")) == [f"copy/{key}" for key in KEYS]


def test_who_leaves_early_leaves_nothing_behind(store: ObjectStore) -> None:
    """The next reading starts afresh, and finds its own answers."""
    found = store.read_many(KEYS)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert list(store.read_many(KEYS)) == content_of(KEYS)


def test_no_request_has_more_under_way_than_is_allowed(
    server: LoopbackS3,
) -> None:
    """The setting bounds the connections."""
    store = store_at(server, "bounded", max_requests_in_flight=3)
    for key in KEYS[:50]:
        store.write(key, key.encode())
    before = len(server._connections)
    assert list(store.read_many(KEYS[:50])) == content_of(KEYS[:50])
    assert len(server._connections) - before <= 3


@pytest.fixture
def folders(store: ObjectStore, server: LoopbackS3) -> list[KeyRange]:
    """Ranges of keys that lie in two folders of more than a page, one of less, and one of nothing."""
    for number in range(2_500):
        key = f"{store.root.key}/f{number % 2}/{number:05d}"
        server._keep(server.buckets["lake"], key, b"x")
    return [KeyRange("f0/"), KeyRange("f1/"), KeyRange("n/"), KeyRange("none/")]


def listed(store: ObjectStore, ranges: list[KeyRange]) -> list[str]:
    """All keys, sorted, so that a doubled one shows."""
    pages = (batch for _, batch in store.list_ranges(ranges))
    return sorted(key for batch in pages for key in batch.column("key").to_pylist())


def test_listings_of_many_folders_have_each_key_once(
    store: ObjectStore, folders: list[KeyRange]
) -> None:
    """What single listings tell, page after page."""
    expected = [key for folder in ("f0/", "f1/", "n/") for key in store.keys(folder)]
    assert listed(store, folders) == expected
    parts = [
        KeyRange("f0/", end_at="f0/00100"),
        KeyRange("f0/", start_after="f0/00100"),
        KeyRange("n/", "n/003", "n/010"),
    ]
    assert listed(store, parts) == [*store.keys("f0/"), *KEYS[4:11]]
    limited = listed(store, [KeyRange("f0/", most=10)])
    assert limited == list(store.keys("f0/"))[: len(limited)]
    assert 10 <= len(limited) < 1_250


def test_a_token_alone_says_where_a_listing_goes_on(
    store: ObjectStore, server: LoopbackS3, folders: list[KeyRange]
) -> None:
    """A server may make of both what it likes."""
    asked: list[dict[str, str]] = []

    def note(request: Request) -> None:
        asked.append(request.query)

    server.intercept = note
    assert listed(store, [KeyRange("f0/", start_after="f0/00100"), KeyRange("f1/")])
    assert any("start-after" in query for query in asked)
    assert sum("continuation-token" in query for query in asked) >= 2
    assert not any({"start-after", "continuation-token"} <= query.keys() for query in asked)


@pytest.mark.parametrize("status", [500, 503])
def test_listings_go_on_after_trouble(
    store: ObjectStore, server: LoopbackS3, folders: list[KeyRange], status: int
) -> None:
    """Every other page fails, first ones and later ones: each key comes once all the same."""
    expected = listed(store, folders)
    failing = itertools.cycle((True, False))

    def strike(request: Request) -> Response | None:
        name = "SlowDown" if status == 503 else "InternalError"
        return error(status, name) if "list-type" in request.query and next(failing) else None

    server.intercept = strike
    assert listed(store, folders) == expected


def test_a_listing_that_is_denied_is_an_error(
    store: ObjectStore, server: LoopbackS3, folders: list[KeyRange]
) -> None:
    """It does not just end."""
    server.intercept = lambda request: (
        error(403, "AccessDenied") if request.query.get("prefix", "").endswith("/f1/") else None
    )
    with pytest.raises(StorageDeniedError):
        listed(store, folders)


def page_of(store: ObjectStore, keys: list[str], token: str) -> Response:
    rows = "".join(
        f"<Contents><Key>{store.root.key}/{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>x</ETag><Size>1</Size></Contents>"
        for key in keys
    )
    text = (
        f"<ListBucketResult><KeyCount>{len(keys)}</KeyCount><IsTruncated>{str(bool(token)).lower()}</IsTruncated>"
        f"<NextContinuationToken>{token}</NextContinuationToken>{rows}</ListBucketResult>"
    )
    return Response(200, text.encode(), {"Content-Type": "application/xml"})


def test_a_listing_of_another_order_does_not_go_on(store: ObjectStore, server: LoopbackS3) -> None:
    """After an error, keys that sort before the last one could be lost."""

    def backwards(request: Request) -> Response | None:
        if "continuation-token" in request.query:
            return error(500, "InternalError")
        keys = [] if "start-after" in request.query else ["n/2", "n/1"]
        return page_of(store, keys, "t" if keys else "")

    server.intercept = backwards
    with pytest.raises(StorageError, match="another order"):
        listed(store, [KeyRange("n/")])


@pytest.mark.timeout(20)
def test_a_page_that_is_its_own_successor_is_refused(
    store: ObjectStore, server: LoopbackS3
) -> None:
    """It would come for ever."""
    asked = itertools.count()

    def same(request: Request) -> Response | None:
        return page_of(store, [f"n/{next(asked):06d}"], "t")

    server.intercept = same
    with pytest.raises(StorageError, match="its own successor"):
        listed(store, [KeyRange("n/")])


def test_bytes_are_read_where_they_are_and_told_absent_where_they_are_not(
    store: ObjectStore,
) -> None:
    """`read_present` and `ask_many` raise nothing for what is missing."""
    keys = [*KEYS[:5], "n/none", *KEYS[5:9]]
    present = dict(store.read_present(keys))
    assert present.pop("n/none") is None
    assert list(present.items()) == content_of(KEYS[:9])
    assert [info is None for _, info in store.ask_many(keys)] == [key == "n/none" for key in keys]
