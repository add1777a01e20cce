"""The same contract on real servers: MinIO, Azurite and the GCS emulator."""

from __future__ import annotations

import dataclasses
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.domain.location import Location
from lakesweep.domain.storage_options import PlaceOptions
from lakesweep.errors import StorageError
from lakesweep.storage import DeleteStatus, ObjectStore, StorageOptions, open_store
from lakesweep.storage.clocks import store_time
from lakesweep.storage.values import DeleteTerms
from lakesweep_testing.servers import AzuriteServer, FakeGcsServer, MinIOServer
from lakesweep_testing.store_contract import (
    DeletingContract,
    DenialContract,
    FullContract,
    ListingContract,
    PutObject,
    ReadingContract,
    RefusalContract,
    keys_of,
)

pytestmark = pytest.mark.real


ODD_KEYS = ["n//x", "n/./x", "n/../x", "n/x/", "n/tab\tx", "n/x/ /"]
PLAIN_KEYS = ["m/1", "n/a b", "n/x", "n/é"]


def assert_listed_whole(store: ObjectStore) -> None:
    """Every key once, the odd ones told apart, those of one folder, and the folders of one level."""
    listed = [(row["key"], row["is_odd"]) for batch in store.list() for row in batch.to_pylist()]
    assert sorted(listed) == sorted(
        [*((k, True) for k in ODD_KEYS), *((k, False) for k in PLAIN_KEYS)]
    )
    assert keys_of(store, "n//") == ["n//x"]
    folder = store.list_folder("n/")
    assert set(folder.folders) == {"n//", "n/./", "n/../", "n/x/"}
    assert set(folder.objects.column("key").to_pylist()) == {"n/tab\tx", "n/a b", "n/x", "n/é"}
    [row] = [row for batch in store.list("n/a") for row in batch.to_pylist()]
    assert row["etag"] == store.stat("n/a b").etag
    assert row["last_modified"] == store.stat("n/a b").last_modified


def _new_name() -> str:
    return f"t{uuid.uuid4().hex[:20]}"


def _minio_options(minio: MinIOServer) -> StorageOptions:
    return StorageOptions.from_environment(minio.aws_environment)


def _azurite_options(azurite: AzuriteServer) -> StorageOptions:
    return StorageOptions(azure_account_key=azurite.account_key)


@pytest.fixture
def other_store() -> ObjectStore:
    """A store of another kind, to copy from."""
    return open_store(Location.parse(f"mem://{uuid.uuid4()}/other"), StorageOptions())


@pytest.fixture(scope="module")
def minio_bucket(minio: MinIOServer) -> Location:
    return Location.parse(minio.make_bucket(_new_name()))


@pytest.fixture(scope="module")
def azurite_container(azurite: AzuriteServer) -> Location:
    return Location.parse(azurite.make_container(_new_name()))


@pytest.fixture(scope="module")
def gcs_bucket(fake_gcs: FakeGcsServer) -> Location:
    return Location.parse(fake_gcs.make_bucket(_new_name()))


class TestMinIO(FullContract, RefusalContract, DenialContract):
    """S3 keeps the contract."""

    @pytest.fixture
    def store(self, minio: MinIOServer, minio_bucket: Location) -> ObjectStore:
        return open_store(minio_bucket.child(_new_name()), _minio_options(minio))

    @pytest.fixture
    def put_object(self, store: ObjectStore) -> PutObject:
        return store.write

    @pytest.fixture
    def store_without_container(self, minio: MinIOServer) -> ObjectStore:
        return open_store(Location.parse(f"s3://{_new_name()}/r"), _minio_options(minio))

    @pytest.fixture
    def store_denied(self, minio: MinIOServer, minio_bucket: Location) -> ObjectStore:
        options = dataclasses.replace(_minio_options(minio), s3_secret_access_key="not-the-secret")
        return open_store(minio_bucket, options)

    def test_keys_with_a_trailing_slash_or_control_character_stay_apart(
        self, minio: MinIOServer, store: ObjectStore
    ) -> None:
        """`n/x/` is listed as itself, marked odd, and the rest of the prefix is listed with it."""
        base = store.root.key
        for key in ["n/x", "n/x/", "n/a\tb"]:
            minio.client().put_object(Bucket=store.root.container, Key=f"{base}/{key}", Body=b"")
        (batch,) = store.list("n/")
        odd = dict(
            zip(batch.column("key").to_pylist(), batch.column("is_odd").to_pylist(), strict=True)
        )
        assert odd == {"n/a\tb": True, "n/x": False, "n/x/": True}

    def test_copies_between_buckets_are_made_by_the_server(
        self, minio: MinIOServer, store: ObjectStore
    ) -> None:
        """Another bucket on the same server is not a reason to stream."""
        target = open_store(Location.parse(minio.make_bucket(_new_name())), _minio_options(minio))
        store.write("a b", b"bytes")
        assert target.backend.copy_from(store.backend, "a b", "c")
        assert target.read("c") == b"bytes"


class TestAzurite(FullContract, RefusalContract, DenialContract):
    """Azure keeps the contract."""

    @pytest.fixture
    def store(self, azurite: AzuriteServer, azurite_container: Location) -> ObjectStore:
        return open_store(azurite_container.child(_new_name()), _azurite_options(azurite))

    @pytest.fixture
    def put_object(self, store: ObjectStore) -> PutObject:
        return store.write

    @pytest.fixture
    def store_without_container(self, azurite: AzuriteServer) -> ObjectStore:
        root = Location.parse(f"{azurite.endpoint}/{_new_name()}/r")
        return open_store(root, _azurite_options(azurite))

    @pytest.fixture
    def store_denied(self, azurite_container: Location) -> ObjectStore:
        return open_store(azurite_container, StorageOptions(azure_account_key="bm90LXRoZS1rZXk="))

    def test_only_the_version_that_was_looked_at_is_deleted(self, store: ObjectStore) -> None:
        """The etag goes with the delete, for odd-looking names, too; an absent blob is told."""
        keys = ["a b+%c", "ä/ö~(1).parquet", "same"]
        etags = {key: store.write(key, b"1").etag or "" for key in keys}
        store.write("a b+%c", b"2")
        store.write("plain", b"1")
        terms = DeleteTerms(etags={**etags, "absent": '"0x1"'})
        outcomes = store.backend.delete([*keys, "plain", "absent"], terms)
        assert [o.status for o in outcomes] == [
            DeleteStatus.CHANGED,
            DeleteStatus.GONE,
            DeleteStatus.GONE,
            DeleteStatus.GONE,
            DeleteStatus.ALREADY_ABSENT,
        ]
        assert keys_of(store) == ["a b+%c"]

    def test_odd_keys_are_listed_unchanged_and_told_apart(
        self, azurite: AzuriteServer, store: ObjectStore
    ) -> None:
        """obstore gives up at the first of them; all come out as they are, and so do the folders."""
        for key in [*ODD_KEYS, *PLAIN_KEYS]:
            azurite.put_blob(store.root.container, f"{store.root.key}/{key}", b"1")
        assert_listed_whole(store)


class TestGcsEmulator(ListingContract, ReadingContract, DeletingContract):
    """Google Cloud Storage lists, reads and deletes by the contract; the emulator takes no writes from obstore."""

    @pytest.fixture
    def store(self, fake_gcs: FakeGcsServer, gcs_bucket: Location) -> ObjectStore:
        return open_store(gcs_bucket.child(_new_name()), StorageOptions(gcs_endpoint=fake_gcs.url))

    @pytest.fixture
    def put_object(self, fake_gcs: FakeGcsServer, store: ObjectStore) -> PutObject:
        def put(key: str, data: bytes) -> None:
            fake_gcs.put_object(store.root.container, f"{store.root.key}/{key}", data)

        return put

    def test_slashes_that_obstore_drops_are_put_back(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """`n/x/` is listed as itself beside `n/x`, marked odd."""
        for key, data in [("m/y/", b""), ("n/x", b"1"), ("n/x-a", b"1"), ("n/x/", b"22")]:
            put_object(key, data)
        listed = {row["key"]: row["is_odd"] for batch in store.list() for row in batch.to_pylist()}
        assert listed == {"m/y/": True, "n/x": False, "n/x-a": False, "n/x/": True}

    def test_odd_keys_are_listed_unchanged_and_told_apart(
        self, store: ObjectStore, put_object: PutObject
    ) -> None:
        """obstore gives up at the first of them; all come out as they are, and so do the folders."""
        for key in [*ODD_KEYS, *PLAIN_KEYS]:
            put_object(key, b"1")
        assert_listed_whole(store)

    def test_a_missing_bucket_is_an_error(self, fake_gcs: FakeGcsServer) -> None:
        """It is never taken for an empty one. (The emulator answers 500 where the real one answers 404.)"""
        options = StorageOptions(gcs_endpoint=fake_gcs.url, transient_retries=1)
        with pytest.raises(StorageError):
            keys_of(open_store(Location.parse(f"gs://{_new_name()}/r"), options))


def test_an_azure_account_has_an_address_and_a_key_of_its_own(
    azurite: AzuriteServer, azurite_container: Location
) -> None:
    """As `adls.connection-string.ACCOUNT` gives them: a location in Azure's words is reached at that address."""
    own = PlaceOptions(
        "azure",
        azurite.account,
        (("azure_endpoint", azurite.endpoint), ("azure_account_key", azurite.account_key)),
    )
    open_store(azurite_container, _azurite_options(azurite)).write("t/file", b"content")
    named = f"abfss://{azurite_container.container}@{azurite.account}.dfs.core.windows.net/t"
    store = open_store(Location.parse(named), StorageOptions(places=(own,)))
    assert store.read("file") == b"content"


def test_azure_and_google_date_their_answers(
    azurite_container: Location, azurite: AzuriteServer, fake_gcs: FakeGcsServer
) -> None:
    """No credentials are needed for it: a refusal has a date, too."""
    google = open_store(Location.parse("gs://lake"), StorageOptions(gcs_endpoint=fake_gcs.url))
    for store in (open_store(azurite_container, StorageOptions()), google):
        time = store_time(store)
        assert time is not None
        assert abs(time - datetime.now(UTC)) < timedelta(minutes=5)
