"""Presigned URLs: the official SDK, wrapper and lakectl put and get bytes straight from MinIO, on both lakes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import lakefs
import lakefs_sdk as sdk
import pytest
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.exceptions import ApiException

from lakesweep.domain.location import Location
from lakesweep.errors import UnsupportedStoreError
from lakesweep.lake.server import LakeServer
from lakesweep.lake.values import LakeSettings
from lakesweep.storage import StorageOptions, open_store
from lakesweep_testing.real_parts import LAKEFS
from lakesweep_testing.servers import AzuriteServer, MinIOServer, RealLakeFS
from lakesweep_testing.servers.process import clean_environment

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

FIRST = b"1" * (5 << 20)
BIG = FIRST + b"tail"


@dataclass(frozen=True, slots=True)
class Signing:
    """A lake that signs, and a repository in it."""

    url: str
    access_key_id: str
    secret_access_key: str
    repo: str

    @property
    def client(self) -> LakeFSClient:
        return LakeFSClient(
            sdk.Configuration(
                host=f"{self.url}/api/v1",
                username=self.access_key_id,
                password=self.secret_access_key,
            )
        )


@pytest.fixture(scope="module", params=["lakeFS", "embedded"])
def signing(
    request: pytest.FixtureRequest, minio: MinIOServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Signing]:
    """Both lakes pass the same tests."""
    bucket = f"signed-{request.param.lower()}"
    minio.make_bucket(bucket)
    server: RealLakeFS | LakeServer = RealLakeFS(minio)
    if request.param == "embedded":
        folder = tmp_path_factory.mktemp("signing")
        storage = StorageOptions(
            s3_access_key_id=minio.access_key_id,
            s3_secret_access_key=minio.secret_access_key,
            s3_endpoint=minio.url,
            s3_region=minio.region,
        )
        settings = LakeSettings(
            folder, storage=storage, allow_namespaces=("s3://",), presigned_store="s3"
        )
        server = LakeServer(folder, settings=settings)
    with server:
        lake = Signing(server.url, server.access_key_id, server.secret_access_key, "signed")
        creation = sdk.RepositoryCreation(name="signed", storage_namespace=f"s3://{bucket}/ns")
        lake.client.repositories_api.create_repository(creation)
        yield lake


def test_reads_go_to_the_store(signing: Signing) -> None:
    """Redirect, stat and listing lead to the very bytes; the store's own URL serves ranges."""
    objects = signing.client.objects_api
    objects.upload_object(signing.repo, "main", "dir/ä b.txt", content=b"hello")
    assert bytes(objects.get_object(signing.repo, "main", "dir/ä b.txt", presign=True)) == b"hello"
    plain = objects.stat_object(signing.repo, "main", "dir/ä b.txt")
    stat = objects.stat_object(signing.repo, "main", "dir/ä b.txt", presign=True)
    [listed] = objects.list_objects(signing.repo, "main", prefix="dir/", presign=True).results
    for found in (stat, listed):
        assert found.physical_address_expiry - stat.mtime in range(890, 1000)
        got = httpx.get(found.physical_address, headers={"Range": "bytes=1-3"})
        assert (got.status_code, got.content) == (206, b"ell")
        assert "attachment" in got.headers["content-disposition"]
        assert found.checksum == plain.checksum
    assert plain.physical_address.startswith("s3://")


def test_wrapper_writes_and_reads_over_urls(signing: Signing) -> None:
    """The wrapper asks the configuration, and so signs without being told to."""
    client = lakefs.Client(
        host=signing.url, username=signing.access_key_id, password=signing.secret_access_key
    )
    assert client.storage_config.pre_sign_support
    target = lakefs.repository(signing.repo, client=client).branch("main").object("by/wrapper")
    info = target.upload(b"straight", content_type="text/plain").stat()
    assert (info.size_bytes, info.content_type) == (8, "text/plain")
    assert target.reader(mode="rb").read() == b"straight"


def test_parts_go_to_the_store(signing: Signing) -> None:
    """Two URLs from the beginning, one asked for; what the store joined is the object."""
    api = signing.client.experimental_api
    upload = api.create_presign_multipart_upload(signing.repo, "main", "big", parts=1)
    address = upload.physical_address
    second = api.upload_part(
        signing.repo,
        "main",
        upload.upload_id,
        "big",
        2,
        sdk.UploadPartFrom(physical_address=address),
    )
    parts = []
    for number, (url, data) in enumerate(
        [(upload.presigned_urls[0], FIRST), (second.presigned_url, b"tail")], start=1
    ):
        etag = httpx.put(url, content=data, timeout=60).headers["etag"]
        parts.append(sdk.UploadPart(part_number=number, etag=etag))
    done = sdk.CompletePresignMultipartUpload(
        physical_address=address, parts=parts, user_metadata={"k": "v"}, content_type="text/csv"
    )
    told = api.complete_presign_multipart_upload(
        signing.repo, "main", upload.upload_id, "big", complete_presign_multipart_upload=done
    )
    stat = signing.client.objects_api.stat_object(signing.repo, "main", "big")
    assert (told.size_bytes, told.checksum) == (stat.size_bytes, stat.checksum)
    assert (stat.size_bytes, stat.content_type, stat.metadata) == (len(BIG), "text/csv", {"k": "v"})
    assert stat.checksum.endswith("-2")
    got = signing.client.objects_api.get_object(signing.repo, "main", "big")
    assert bytes(got) == BIG


def test_aborted_upload_takes_no_more_parts(signing: Signing) -> None:
    """The URL that was given dies with its upload."""
    api = signing.client.experimental_api
    upload = api.create_presign_multipart_upload(signing.repo, "main", "dropped", parts=1)
    body = sdk.AbortPresignMultipartUpload(physical_address=upload.physical_address)
    api.abort_presign_multipart_upload(
        signing.repo, "main", upload.upload_id, "dropped", abort_presign_multipart_upload=body
    )
    assert httpx.put(upload.presigned_urls[0], content=b"late").status_code == 404
    with pytest.raises(ApiException):
        signing.client.objects_api.stat_object(signing.repo, "main", "dropped")


@pytest.mark.parametrize("size", [10, 12 << 20])
def test_lakectl_uploads_and_downloads_over_urls(
    signing: Signing, tmp_path: Path, size: int
) -> None:
    """In one request, and in parts, as it chooses by the size."""
    (tmp_path / "file").write_bytes(b"x" * size)

    def lakectl(*words: Any) -> None:
        environment = clean_environment(tmp_path) | {
            "LAKECTL_SERVER_ENDPOINT_URL": signing.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": signing.access_key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": signing.secret_access_key,
        }
        done = subprocess.run(
            [LAKEFS.file("lakectl"), *map(str, words)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    place = f"lakefs://{signing.repo}/main/ctl-{size}"
    lakectl("fs", "upload", "--pre-sign", "-s", tmp_path / "file", place)
    lakectl("fs", "download", "--pre-sign", place, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b"x" * size


def test_azure_signs_reads_and_writes(azurite: AzuriteServer) -> None:
    """Signed by obstore with the account's key; Azure wants the kind of blob in a header of every put."""
    root = Location.parse(azurite.make_container("signed"))
    store = open_store(root, StorageOptions(azure_account_key=azurite.account_key))
    put = store.sign_url("PUT", "data/a,b", timedelta(minutes=15))
    headers = {"x-ms-blob-type": "BlockBlob"}
    assert httpx.put(put.url, content=b"hello", headers=headers).status_code == 201
    got = httpx.get(store.sign_url("GET", "data/a,b", timedelta(minutes=15)).url)
    assert got.content == b"hello"
    assert store.signed_uploads is None
    with pytest.raises(UnsupportedStoreError, match="none was made"):
        store.sign_url("GET", "a b", timedelta(minutes=15))
