"""The contract of S3 on the loopback server, which takes the keys that real servers refuse."""

from __future__ import annotations

import base64
import dataclasses
import uuid
from collections.abc import Iterator

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import ObjectNotFoundError, StorageError, ThrottledError
from lakesweep.storage import DeleteStatus, ObjectStore, StorageOptions, open_store
from lakesweep.storage.s3.client import S3Client
from lakesweep_testing.store_contract import (
    DenialContract,
    FullContract,
    PutObject,
    RefusalContract,
    keys_of,
)
from s3_loopback import LoopbackS3, Request, Response, error

ODD_KEYS = ["n//x", "n/./x", "n/../x", "n/x/", "n/tab\tx", "n/new\nline", "/n/lead", "n/x/ /"]


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackS3]:
    with LoopbackS3(buckets=("lake", "other"), access_key_id="key") as server:
        yield server


@pytest.fixture
def options(server: LoopbackS3) -> StorageOptions:
    return StorageOptions(
        s3_endpoint=server.url,
        s3_access_key_id="key",
        s3_secret_access_key="secret-secret",
        s3_region="us-east-1",
        transient_retries=3,
        throttle_patience_seconds=0.5,
        first_pause_seconds=0.01,
    )


@pytest.fixture
def store(options: StorageOptions) -> ObjectStore:
    return open_store(Location.parse(f"s3a://lake/{uuid.uuid4()}"), options)


@pytest.fixture
def put_object(store: ObjectStore) -> PutObject:
    return store.write


@pytest.fixture
def intercept(server: LoopbackS3) -> Iterator[LoopbackS3]:
    """The server, which forgets its interception afterwards."""
    yield server
    server.intercept = None


def put_raw(server: LoopbackS3, store: ObjectStore, key: str) -> None:
    """An object under any key, past every client."""
    server._keep(server.buckets["lake"], f"{store.root.key}/{key}", b"x")


class TestS3(FullContract, RefusalContract, DenialContract):
    """S3 keeps the contract."""

    @pytest.fixture
    def other_store(self) -> ObjectStore:
        return open_store(Location.parse(f"mem://{uuid.uuid4()}/other"), StorageOptions())

    @pytest.fixture
    def store_without_container(self, options: StorageOptions) -> ObjectStore:
        return open_store(Location.parse("s3://nobody/r"), options)

    @pytest.fixture
    def store_denied(self, options: StorageOptions) -> ObjectStore:
        denied = dataclasses.replace(options, s3_access_key_id="wrong")
        return open_store(Location.parse("s3://lake/r"), denied)


def test_odd_keys_are_listed_unchanged_and_told_apart(
    server: LoopbackS3, store: ObjectStore
) -> None:
    """Every odd key comes out as itself, beside the plain ones, and stops nothing."""
    for key in [*ODD_KEYS, "n/x", "n/plain"]:
        put_raw(server, store, key)
    listed = {row["key"]: row["is_odd"] for batch in store.list() for row in batch.to_pylist()}
    assert listed == {**dict.fromkeys(ODD_KEYS, True), "n/x": False, "n/plain": False}
    assert keys_of(store) == sorted(listed)


def test_odd_keys_survive_a_bulk_delete(server: LoopbackS3, store: ObjectStore) -> None:
    """Deleting everything that was listed leaves exactly the odd keys."""
    for key in [*ODD_KEYS, "n/x"]:
        put_raw(server, store, key)
    outcomes = {outcome.key: outcome.status for outcome in store.delete_many(keys_of(store))}
    assert outcomes == {**dict.fromkeys(ODD_KEYS, DeleteStatus.FAILED), "n/x": DeleteStatus.GONE}
    assert keys_of(store) == sorted(ODD_KEYS)


def test_one_denied_key_does_not_hide_the_others(intercept: LoopbackS3, store: ObjectStore) -> None:
    """In a batch with a denied key, each key has its own outcome."""
    base = store.root.key

    def deny_b(request: Request) -> Response | None:
        if "delete" not in request.query:
            return None
        return Response(
            200,
            f"<DeleteResult><Deleted><Key>{base}/a</Key></Deleted><Error><Key>{base}/b</Key><Code>AccessDenied</Code>"
            f"<Message>no</Message></Error><Error><Key>{base}/c</Key><Code>MethodNotAllowed</Code></Error>"
            "</DeleteResult>".encode(),
        )

    intercept.intercept = deny_b
    outcomes = store.delete_many(["a", "b", "c", "d"])
    assert [outcome.status for outcome in outcomes] == [
        DeleteStatus.GONE,
        DeleteStatus.DENIED,
        DeleteStatus.FAILED,
        DeleteStatus.GONE,
    ]
    assert "AccessDenied" in outcomes[1].detail


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<DeleteResult>",
        b"<html>a proxy's page</html>",
        b"<DeleteResult><Error><Key>stranger</Key><Code>AccessDenied</Code></Error></DeleteResult>",
    ],
)
def test_an_answer_that_is_not_one_makes_no_key_gone(
    intercept: LoopbackS3, store: ObjectStore, body: bytes
) -> None:
    """A 200 that is no whole answer to this question is a failure of every key."""
    intercept.intercept = lambda request: Response(200, body)
    outcomes = store.delete_many(["a", "b"])
    assert {outcome.status for outcome in outcomes} == {DeleteStatus.FAILED}


def test_throttled_keys_are_tried_again_until_they_are_gone(
    intercept: LoopbackS3, store: ObjectStore
) -> None:
    """`SlowDown` for some keys of a batch is no failure."""
    calls = []

    def throttle_twice(request: Request) -> Response | None:
        calls.append(request)
        if len(calls) > 2:
            return None
        rows = f"<Error><Key>{store.root.key}/a</Key><Code>SlowDown</Code></Error>"
        return Response(200, f"<DeleteResult>{rows}</DeleteResult>".encode())

    intercept.intercept = throttle_twice
    (outcome,) = store.delete_many(["a"])
    assert outcome.status is DeleteStatus.GONE
    assert len(calls) == 3


def test_a_store_that_keeps_throttling_gives_throttled(
    intercept: LoopbackS3, store: ObjectStore
) -> None:
    """When patience ends, the outcome says throttled, and other calls raise so."""
    intercept.intercept = lambda request: error(503, "SlowDown", "Please reduce your request rate.")
    (outcome,) = store.delete_many(["a"])
    assert outcome.status is DeleteStatus.THROTTLED
    with pytest.raises(ThrottledError):
        keys_of(store)
    with pytest.raises(ThrottledError):
        store.read("a")


def test_a_listing_goes_on_after_a_page_that_failed(
    intercept: LoopbackS3, store: ObjectStore
) -> None:
    """Errors half-way cost time, never keys."""
    expected = [f"k{number:04}" for number in range(2500)]
    for key in expected:
        put_raw(intercept, store, key)
    calls = []

    def fail_every_other(request: Request) -> Response | None:
        calls.append(request)
        return error(500, "InternalError") if len(calls) % 2 == 0 else None

    intercept.intercept = fail_every_other
    assert keys_of(store) == expected


def test_a_listing_that_can_not_be_finished_raises(
    intercept: LoopbackS3, store: ObjectStore
) -> None:
    """A page that never comes ends the listing with an error, after the keys before it."""
    for number in range(1500):
        put_raw(intercept, store, f"k{number:04}")

    def fail_second_page(request: Request) -> Response | None:
        is_later = "continuation-token" in request.query or "start-after" in request.query
        return error(500, "InternalError") if is_later else None

    intercept.intercept = fail_second_page
    with pytest.raises(StorageError):
        keys_of(store)


def _empty_first_page(request: Request) -> Response | None:
    """What a versioned bucket answers where many deleted objects stand before those that are there."""
    if "list-type" not in request.query or "continuation-token" in request.query:
        return None
    token = base64.urlsafe_b64encode(b"0").decode()
    return Response(
        200,
        "<ListBucketResult><KeyCount>0</KeyCount><IsTruncated>true</IsTruncated>"
        f"<NextContinuationToken>{token}</NextContinuationToken></ListBucketResult>".encode(),
    )


def test_an_empty_page_that_has_a_successor_is_not_the_end(
    intercept: LoopbackS3, store: ObjectStore
) -> None:
    """The first key is looked for until a page says that it is the last."""
    store.write("k", b"x")
    intercept.intercept = _empty_first_page
    assert keys_of(store) == ["k"]
    assert store.first_key() == "k"
    assert store.first_key("zzz") is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<ListBucketResult><IsTruncated>false</IsTruncated>",
        b"<ListBucketResult></ListBucketResult>",
        b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        b"<ListBucketResult><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>",
        b"<html>a proxy's page</html>",
    ],
)
def test_a_page_that_is_not_whole_raises(
    intercept: LoopbackS3, store: ObjectStore, body: bytes
) -> None:
    """A 200 that is no whole page is never taken for the end of a listing."""
    intercept.intercept = lambda request: Response(200, body)
    with pytest.raises(StorageError):
        keys_of(store)


def test_large_objects_are_copied_in_parts(server: LoopbackS3, store: ObjectStore) -> None:
    """Above the limit of one copy, parts are copied by range and put together."""
    from lakesweep.storage.s3.copy_object import copy_object

    store.write("big", bytes(range(250)) * 100)
    copy_object(
        store.backend._client,  # type: ignore[attr-defined]
        f"lake/{store.root.key}/big",
        25_000,
        f"{store.root.key}/copy",
        largest_single_copy=10_000,
        part_bytes=7_000,
    )
    assert store.read("copy") == bytes(range(250)) * 100


@pytest.mark.parametrize("parts", [1, 3])
def test_a_copy_that_failed_half_way_is_a_failure(
    intercept: LoopbackS3, store: ObjectStore, parts: int
) -> None:
    """S3 has begun its answer by then: a 200 that holds an error."""
    from lakesweep.storage.s3.copy_object import copy_object

    def fail(request: Request) -> Response | None:
        is_last = "uploadId" in request.query and request.method == "POST"
        is_whole = parts == 1 and "x-amz-copy-source" in request.headers
        if not (is_last or is_whole):
            return None
        return Response(
            200, b"<Error><Code>InternalError</Code><Message>try again</Message></Error>"
        )

    store.write("a", b"bytes")
    intercept.intercept = fail
    with pytest.raises(StorageError, match="InternalError"):
        copy_object(
            store.backend._client,  # type: ignore[attr-defined]
            f"lake/{store.root.key}/a",
            5,
            f"{store.root.key}/b",
            largest_single_copy=5 if parts == 1 else 0,
            part_bytes=2,
        )


def test_buckets_of_one_server_copy_without_the_client(
    server: LoopbackS3, store: ObjectStore, options: StorageOptions
) -> None:
    """The bytes of a copy between buckets do not pass through here."""
    target = open_store(Location.parse("s3://other/backup"), options)
    store.write("a b+é", b"bytes")
    before = server.requests
    target.copy_from(store, "a b+é", "c")
    assert server.requests - before == 1
    assert target.read("c") == b"bytes"


@pytest.mark.parametrize("is_large", [True, False])
def test_copy_that_is_refused_for_its_size_is_made_in_parts(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    """S3 copies no more than 5 GiB in one request; any other refusal stays one."""
    from lakesweep.storage.s3 import backend as s3
    from lakesweep.storage.s3 import copy_object as s3_copy

    def refuse(client: S3Client, source: str, target_key: str) -> None:
        raise StorageError("copying failed: 400 InvalidRequest")

    def in_parts(client: S3Client, source: str, size: int, target_key: str) -> None:
        s3_copy.copy_object(client, source, size, target_key, largest_single_copy=0, part_bytes=9)

    store.write("big", b"more than nine bytes")
    monkeypatch.setattr(s3, "copy_whole", refuse)
    monkeypatch.setattr(s3, "copy_object", in_parts)
    if is_large:
        monkeypatch.setattr(s3, "LARGEST_SINGLE_COPY", 10)
        store.copy("big", "copy")
        assert store.read("copy") == b"more than nine bytes"
    else:
        with pytest.raises(StorageError, match="InvalidRequest"):
            store.copy("big", "copy")


@pytest.mark.parametrize("key", ODD_KEYS)
def test_an_odd_key_is_read_exactly(server: LoopbackS3, store: ObjectStore, key: str) -> None:
    """A table in a folder with `//` in its name must be readable, or nobody knows what it refers to."""
    put_raw(server, store, key)
    assert store.read_exactly(key) == b"x"


def test_an_odd_key_that_is_not_there_is_not_found(store: ObjectStore) -> None:
    """And not some other object."""
    store.write("n/x", b"another")
    with pytest.raises(ObjectNotFoundError):
        store.read_exactly("n//x")


def test_version_that_was_looked_at_goes_with_the_delete(
    intercept: LoopbackS3, store: ObjectStore
) -> None:
    """S3 is told the etag of each expected object, and a version that does not match is kept."""
    base = store.root.key
    expected = {}
    for key in ("a&b", "b", "c"):
        store.write(key, key.encode())
        expected[key] = store.stat(key)
    del expected["c"]
    bodies: list[str] = []

    def refuse(request: Request) -> Response | None:
        if "delete" not in request.query:
            return None
        bodies.append(request.body.decode())
        return Response(
            200,
            f"<DeleteResult><Error><Key>{base}/b</Key><Code>PreconditionFailed</Code></Error>"
            f"<Error><Key>{base}/c</Key><Code>NoSuchKey</Code></Error></DeleteResult>".encode(),
        )

    intercept.intercept = refuse
    outcomes = store.delete_many(["a&b", "b", "c"], expected=expected)
    assert [o.status for o in outcomes] == [
        DeleteStatus.GONE,
        DeleteStatus.CHANGED,
        DeleteStatus.GONE,
    ]
    (body,) = bodies
    assert f"<Key>{base}/a&amp;b</Key><ETag>{expected['a&b'].etag}</ETag></Object>" in body
    assert f"<Key>{base}/c</Key></Object></Delete>" in body
