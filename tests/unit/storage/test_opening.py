"""Opening stores: cheap, shared, and clear about what is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError, StorageError
from lakesweep.storage import StorageOptions, open_store

AWS_VARIABLES = [name for name in os.environ if name.startswith("AWS_")]


def test_opening_makes_no_request() -> None:
    """No host answers at these addresses, and nobody finds out until something is asked."""
    options = StorageOptions(
        s3_access_key_id="a", s3_secret_access_key="b", s3_endpoint="http://127.0.0.1:1"
    )
    for uri in ("s3://b/k", "gs://b/k", "https://acct.blob.core.windows.net/c", "file:///nowhere"):
        assert open_store(Location.parse(uri), options).root == Location.parse(uri)


def test_memory_stores_of_one_name_share_their_objects() -> None:
    """Seen from any root."""
    open_store(Location.parse("mem://shared-here/a")).write("b/c", b"x")
    assert open_store(Location.parse("mem://shared-here/a/b")).read("c") == b"x"


def test_stores_of_one_bucket_share_their_congestion_control() -> None:
    """The store's limits do not care about our roots."""
    options = StorageOptions()
    one, two = (open_store(Location.parse(f"s3://b/{name}"), options) for name in "xy")
    other = open_store(Location.parse("s3://c/x"), options)
    assert one.congestion is two.congestion
    assert one.congestion is not other.congestion


@pytest.fixture
def _no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in AWS_VARIABLES:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.mark.usefixtures("_no_aws")
def test_missing_credentials_are_named() -> None:
    """Reads and listings alike say what to set, at once."""
    options = StorageOptions(s3_endpoint="http://127.0.0.1:1", s3_region="us-east-1")
    store = open_store(Location.parse("s3://no-credentials/k"), options)
    for action in (
        lambda: store.read("x"),
        lambda: list(store.list()),
        lambda: store.delete_many(["x"]),
    ):
        with pytest.raises(ConfigError, match="AWS_ACCESS_KEY_ID"):
            action()


@pytest.mark.usefixtures("_no_aws")
def test_a_profile_gives_credentials_and_region(tmp_path: Path) -> None:
    """The AWS files work for both kinds of requests."""
    (tmp_path / "credentials").write_text(
        "[lake]\naws_access_key_id = id\naws_secret_access_key = key\n"
    )
    (tmp_path / "config").write_text("[profile lake]\nregion = eu-north-1\n")
    from lakesweep.storage.s3.client import S3Client

    client = S3Client("b", StorageOptions(s3_profile="lake"))
    assert client.address.region == "eu-north-1"
    assert client.credentials.for_obstore()["access_key_id"] == "id"


def test_an_unreachable_store_is_an_error() -> None:
    """After its few retries, and it says where it tried."""
    options = StorageOptions(
        s3_access_key_id="a",
        s3_secret_access_key="b",
        s3_endpoint="http://127.0.0.1:1",
        transient_retries=1,
        first_pause_seconds=0.0,
    )
    store = open_store(Location.parse("s3://b/k"), options)
    for action in (lambda: store.read("x"), lambda: list(store.list())):
        with pytest.raises(StorageError, match="s3://b/k"):
            action()
