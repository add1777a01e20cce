"""One boto3 script against the real lakeFS's gateway and the embedded lake's: the transcripts agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lakesweep.lake.server import LakeServer
from lakesweep_testing.gateway_script import (
    SCRIPT_REPOSITORY,
    GatewayUnderTest,
    run_gateway_script,
)
from lakesweep_testing.servers import MinIOServer, RealLakeFS

pytestmark = pytest.mark.real

DOCUMENT = Path(__file__).parents[3] / "docs" / "embedded-lake-differences.md"
# The steps whose answers differ, and the words under which the document gives the reason.
DIFFERENCES: Mapping[str, str] = {
    "put with wrong md5": "Content-MD5",
    "get if match fails": "Conditional reads",
    "get if none match": "Conditional reads",
    "get branch as key": "A key without a path",
    "put branch as key": "A key without a path",
    "put branch as folder": "A key without a path",
    "delete branch as key": "A key without a path",
    "list a missing ref": "Listing a ref that does not exist",
    "list v1 a missing ref": "Listing a ref that does not exist",
    "list after another ref": "start-after",
    "get replaced": "content type",
    "complete wrong part": "multipart upload that is wrong",
    "complete wrong order": "multipart upload that is wrong",
    "complete unknown": "multipart upload that is wrong",
    "part of unknown": "multipart upload that is wrong",
    "part after abort": "multipart upload that is wrong",
    "delete on missing branch": "Deleting on a branch that does not exist",
    "delete many, no branch": "Deleting on a branch that does not exist",
    "delete bucket": "501 with the operation's name",
    "get_bucket_acl": "501 with the operation's name",
    "get_bucket_policy": "501 with the operation's name",
    "get_bucket_lifecycle_configuration": "501 with the operation's name",
    "get_bucket_cors": "501 with the operation's name",
    "get_bucket_tagging": "501 with the operation's name",
    "list_object_versions": "501 with the operation's name",
    "get_object_acl": "501 with the operation's name",
    "get_object_retention": "501 with the operation's name",
    "put_object_tagging": "501 with the operation's name",
    "unknown access key": "InvalidAccessKeyId",
    "hard-deleted bytes": "410 Gone",
}


@pytest.fixture
def real_gateway(minio: MinIOServer, real_lakefs: RealLakeFS) -> GatewayUnderTest:
    minio.make_bucket(SCRIPT_REPOSITORY)

    def remove(address: str) -> None:
        bucket, _, key = address.removeprefix("s3://").partition("/")
        minio.client().delete_object(Bucket=bucket, Key=key)

    gateway = GatewayUnderTest(
        real_lakefs.url, real_lakefs.access_key_id, real_lakefs.secret_access_key, remove
    )
    gateway.create_repository(f"s3://{SCRIPT_REPOSITORY}/real")
    return gateway


@pytest.fixture
def embedded_gateway(tmp_path: Path) -> Iterator[GatewayUnderTest]:
    def remove(address: str) -> None:
        (tmp_path / address.removeprefix("local://")).unlink()

    with LakeServer(tmp_path) as server:
        gateway = GatewayUnderTest(
            server.url, server.access_key_id, server.secret_access_key, remove
        )
        gateway.create_repository(f"local://{SCRIPT_REPOSITORY}")
        yield gateway


def test_both_gateways_answer_alike(
    real_gateway: GatewayUnderTest, embedded_gateway: GatewayUnderTest
) -> None:
    """Step by step the answers agree, but for the differences that the document gives reasons for."""
    real, embedded = run_gateway_script(real_gateway), run_gateway_script(embedded_gateway)
    assert real.keys() == embedded.keys()
    differing = {
        step: (real[step], embedded[step]) for step in real if real[step] != embedded[step]
    }
    unexplained = {step: both for step, both in differing.items() if step not in DIFFERENCES}
    assert unexplained == {}
    assert set(DIFFERENCES) - set(differing) == set()


def test_every_difference_has_its_reason_in_the_document() -> None:
    """Nobody has to read a test to learn where the two gateways part."""
    section = DOCUMENT.read_text().partition("## S3 gateway")[2].partition("\n## ")[0]
    assert {words for words in DIFFERENCES.values() if words not in section} == set()
