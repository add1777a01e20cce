"""boto3 through the gateway: large and multipart uploads, and bodies that do not prove themselves."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from lakesweep.lake.server import LakeServer

Refusal = Callable[..., tuple[str, int]]

MIB = 1024 * 1024
PART = bytes(range(256)) * (5 * MIB // 256)


def data_files(server: LakeServer, repo: str) -> list[str]:
    """The objects under the repository's `data/`, relative to its namespace."""
    root = Path(server.lake.settings.data_dir) / repo
    return sorted(
        str(file.relative_to(root)) for file in (root / "data").rglob("*") if file.is_file()
    )


def test_fifty_megabytes_in_parts(s3: Any, repo: str, lake_server: LakeServer) -> None:
    """boto3's own transfer splits 50 MB into parts; the object is whole and lies at one address under data/."""
    body = hashlib.sha256(b"seed").digest() * (50 * MIB // 32)
    config = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB)
    s3.upload_fileobj(io.BytesIO(body), repo, "main/big", Config=config)
    sink = io.BytesIO()
    s3.download_fileobj(repo, "main/big", sink, Config=config)
    assert hashlib.sha256(sink.getvalue()).digest() == hashlib.sha256(body).digest()
    address = lake_server.lake.objects.stat(
        lake_server.lake.repositories.get(repo), "main", "big"
    ).physical_address
    (file,) = data_files(lake_server, repo)
    assert address.endswith(file)
    assert re.fullmatch(r"data/[0-9a-v]{20}/[0-9a-v]{20}", file)


def test_a_large_single_put(s3: Any, repo: str) -> None:
    """32 MiB in one request come back whole."""
    body = PART[:MIB] * 32
    s3.put_object(Bucket=repo, Key="main/big", Body=io.BytesIO(body))
    assert s3.get_object(Bucket=repo, Key="main/big")["Body"].read() == body


def test_parts_are_listed_replaced_and_joined_in_order(s3: Any, repo: str) -> None:
    """Parts may come in any order and twice; the object has them by number, with S3's ETag for it."""
    key = {"Bucket": repo, "Key": "main/multi"}
    upload = s3.create_multipart_upload(**key, ContentType="video/x", Metadata={"a": "b"})[
        "UploadId"
    ]
    last = s3.upload_part(**key, UploadId=upload, PartNumber=7, Body=b"tail")["ETag"]
    s3.upload_part(**key, UploadId=upload, PartNumber=2, Body=b"replaced")
    first = s3.upload_part(**key, UploadId=upload, PartNumber=2, Body=PART)["ETag"]
    listed = s3.list_parts(**key, UploadId=upload)["Parts"]
    assert [(p["PartNumber"], p["Size"], p["ETag"]) for p in listed] == [
        (2, len(PART), first),
        (7, 4, last),
    ]
    page = s3.list_parts(**key, UploadId=upload, MaxParts=1)
    assert (page["IsTruncated"], page["NextPartNumberMarker"]) == (True, 2)
    uploads = s3.list_multipart_uploads(Bucket=repo)["Uploads"]
    assert [(u["Key"], u["UploadId"]) for u in uploads] == [("main/multi", upload)]
    parts = [{"PartNumber": 2, "ETag": first}, {"PartNumber": 7, "ETag": last}]
    done = s3.complete_multipart_upload(**key, UploadId=upload, MultipartUpload={"Parts": parts})
    digests = hashlib.md5(PART).digest() + hashlib.md5(b"tail").digest()
    assert done["ETag"] == f'"{hashlib.md5(digests).hexdigest()}-2"'
    got = s3.get_object(**key)
    assert got["Body"].read() == PART + b"tail"
    assert (got["ContentType"], got["Metadata"]) == ("video/x", {"a": "b"})
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=repo)


def test_an_unfinished_or_aborted_upload_is_no_object(
    s3: Any, repo: str, lake_server: LakeServer, refusal: Refusal
) -> None:
    """Nothing is seen before completion, and nothing is left under data/ after an abort."""
    key = {"Bucket": repo, "Key": "main/multi"}
    upload = s3.create_multipart_upload(**key)["UploadId"]
    s3.upload_part(**key, UploadId=upload, PartNumber=1, Body=b"x")
    assert refusal(s3.get_object, **key) == ("NoSuchKey", 404)
    s3.abort_multipart_upload(**key, UploadId=upload)
    assert refusal(s3.upload_part, **key, UploadId=upload, PartNumber=1, Body=b"x") == (
        "NoSuchUpload",
        404,
    )
    assert data_files(lake_server, repo) == []


def test_wrong_completions_are_refused_and_can_be_repeated(
    s3: Any, repo: str, refusal: Refusal
) -> None:
    """A part that was not sent, parts out of order or none at all: refused, and the upload goes on."""
    key = {"Bucket": repo, "Key": "main/multi"}
    upload = s3.create_multipart_upload(**key)["UploadId"]
    etag = s3.upload_part(**key, UploadId=upload, PartNumber=1, Body=PART)["ETag"]
    second = s3.upload_part(**key, UploadId=upload, PartNumber=2, Body=b"x")["ETag"]
    good = [{"PartNumber": 1, "ETag": etag}, {"PartNumber": 2, "ETag": second}]
    for parts, expected in (
        ([{"PartNumber": 1, "ETag": f'"{"0" * 32}"'}], ("InvalidPart", 400)),
        ([{"PartNumber": 3, "ETag": etag}], ("InvalidPart", 400)),
        (good[::-1], ("InvalidPartOrder", 400)),
        ([], ("MalformedXML", 400)),
    ):
        assert (
            refusal(
                s3.complete_multipart_upload,
                **key,
                UploadId=upload,
                MultipartUpload={"Parts": parts},
            )
            == expected
        )
    s3.complete_multipart_upload(**key, UploadId=upload, MultipartUpload={"Parts": good})
    assert s3.head_object(**key)["ContentLength"] == len(PART) + 1


def test_an_upload_id_opens_its_own_key_alone(s3: Any, repo: str, refusal: Refusal) -> None:
    """The id of one upload can't write to, list, complete or abort at another key."""
    upload = s3.create_multipart_upload(Bucket=repo, Key="main/mine")["UploadId"]
    other = {"Bucket": repo, "Key": "main/other", "UploadId": upload}
    for call in (
        lambda: s3.upload_part(**other, PartNumber=1, Body=b"x"),
        lambda: s3.list_parts(**other),
        lambda: s3.abort_multipart_upload(**other),
    ):
        assert refusal(call) == ("NoSuchUpload", 404)


@pytest.mark.parametrize("number", [0, 10_001])
def test_part_numbers_have_bounds(s3: Any, repo: str, number: int, refusal: Refusal) -> None:
    """1 to 10,000, as in S3."""
    upload = s3.create_multipart_upload(Bucket=repo, Key="main/a")["UploadId"]
    assert refusal(
        s3.upload_part, Bucket=repo, Key="main/a", UploadId=upload, PartNumber=number, Body=b"x"
    ) == ("InvalidArgument", 400)


def test_parts_may_be_copied(s3: Any, repo: str) -> None:
    """A part can be an existing object or a range of one."""
    s3.put_object(Bucket=repo, Key="side/source", Body=PART + b"0123456789")
    key = {"Bucket": repo, "Key": "main/joined"}
    upload = s3.create_multipart_upload(**key)["UploadId"]
    etags = [
        s3.upload_part_copy(
            **key,
            UploadId=upload,
            PartNumber=number,
            CopySource=f"{repo}/side/source",
            CopySourceRange=asked,
        )["CopyPartResult"]["ETag"]
        for number, asked in (
            (1, f"bytes=0-{len(PART) - 1}"),
            (2, f"bytes={len(PART) + 3}-{len(PART) + 5}"),
        )
    ]
    parts = [{"PartNumber": at + 1, "ETag": etag} for at, etag in enumerate(etags)]
    s3.complete_multipart_upload(**key, UploadId=upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(**key)["Body"].read() == PART + b"345"


@pytest.mark.parametrize("asked", ["bytes=0-10", "bytes=10-10", "bytes=4-", "bytes=-4"])
def test_a_part_of_bytes_that_are_not_there_is_refused(
    s3: Any, repo: str, asked: str, refusal: Refusal
) -> None:
    """Whoever cuts an object into ranges by a size that it has no more gets no shorter object for it."""
    s3.put_object(Bucket=repo, Key="main/source", Body=b"0123456789")
    key = {"Bucket": repo, "Key": "main/joined"}
    upload = s3.create_multipart_upload(**key)["UploadId"]
    part = {"UploadId": upload, "PartNumber": 1, "CopySource": f"{repo}/main/source"}
    code, status = refusal(s3.upload_part_copy, **key, **part, CopySourceRange=asked)
    assert (code, status) in [("InvalidArgument", 400), ("InvalidRange", 416)]
    assert "Parts" not in s3.list_parts(**key, UploadId=upload)


def send_raw(server: LakeServer, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
    """A PUT with headers of our own, signed by botocore over exactly those."""
    request = AWSRequest(method="PUT", url=f"{server.url}{path}", headers=headers, data=b"")
    credentials = Credentials(server.access_key_id, server.secret_access_key)
    signer = S3SigV4Auth(credentials, "s3", "us-east-1")
    # botocore would hash its own body; the header names what we are about to send.
    signer.payload = lambda _: headers["x-amz-content-sha256"]
    signer.add_auth(request)
    with httpx.Client(trust_env=False) as http:
        return http.put(f"{server.url}{path}", content=body, headers=dict(request.headers.items()))


def test_a_body_that_does_not_match_its_hash_is_not_stored(
    s3: Any, repo: str, lake_server: LakeServer
) -> None:
    """A body altered on its way under a signed hash leaves no entry and no object."""
    headers = {"x-amz-content-sha256": hashlib.sha256(b"sent").hexdigest()}
    reply = send_raw(lake_server, f"/{repo}/main/a", b"SENT", headers)
    assert reply.status_code == 400
    assert "XAmzContentSHA256Mismatch" in reply.text
    with pytest.raises(ClientError):
        s3.head_object(Bucket=repo, Key="main/a")


def test_a_wrong_md5_or_checksum_is_not_stored(s3: Any, repo: str, refusal: Refusal) -> None:
    """A sum that came with the body and does not fit it stops the upload."""
    wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    assert refusal(s3.put_object, Bucket=repo, Key="main/a", Body=b"sent", ContentMD5=wrong) == (
        "BadDigest",
        400,
    )
    assert refusal(
        s3.put_object, Bucket=repo, Key="main/a", Body=b"sent", ChecksumCRC32="AAAAAA=="
    ) == ("BadDigest", 400)
    with pytest.raises(ClientError):
        s3.head_object(Bucket=repo, Key="main/a")


def test_sums_of_a_completion_are_those_of_the_object(s3: Any, repo: str, refusal: Refusal) -> None:
    """They are compared with all bytes or with the parts' sums, and never with the XML that names the parts."""
    key = {"Bucket": repo, "Key": "main/multi"}
    halves, whole = (b"first half", b"second half"), b"first halfsecond half"

    def complete(complete: Callable[..., Any], **said: Any) -> Any:
        upload = s3.create_multipart_upload(**key)["UploadId"]
        parts = [
            {
                "PartNumber": n,
                "ETag": s3.upload_part(**key, UploadId=upload, PartNumber=n, Body=half)["ETag"],
            }
            for n, half in enumerate(halves, 1)
        ]
        return complete(**key, UploadId=upload, MultipartUpload={"Parts": parts}, **said)

    def refused(**said: Any) -> tuple[str, int]:
        return complete(lambda **named: refusal(s3.complete_multipart_upload, **named), **said)

    crc = base64.b64encode(zlib.crc32(whole).to_bytes(4)).decode()
    of_halves = b"".join(hashlib.sha256(half).digest() for half in halves)
    composite = base64.b64encode(hashlib.sha256(of_halves).digest()).decode()
    other = base64.b64encode(hashlib.sha256(b"other").digest()).decode()
    assert refused(ChecksumCRC32="AAAAAA==") == ("BadDigest", 400)
    assert refused(ChecksumSHA256=other) == ("BadDigest", 400)
    assert refused(MpuObjectSize=len(whole) - 1) == ("InvalidRequest", 400)
    assert refusal(s3.head_object, **key)[1] == 404
    for said in (
        {"ChecksumCRC32": crc, "MpuObjectSize": len(whole)},
        {"ChecksumSHA256": composite},
        {"ChecksumSHA256": f"{composite}-2"},
    ):
        complete(s3.complete_multipart_upload, **said)
        assert s3.get_object(**key)["Body"].read() == whole


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_boto3s_checksums_are_accepted(s3: Any, repo: str, algorithm: str) -> None:
    """Every sum that boto3 computes by itself is checked and agrees."""
    s3.put_object(Bucket=repo, Key="main/a", Body=b"sent", ChecksumAlgorithm=algorithm)
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == b"sent"


@pytest.mark.parametrize("is_tampered", [False, True])
def test_signed_chunks_on_the_wire(
    s3: Any, repo: str, lake_server: LakeServer, is_tampered: bool
) -> None:
    """A chunked upload signed chunk by chunk is stored; with one byte of one chunk altered it is not."""
    data = b"0123456789" * 1000
    timestamp_of_request: dict[str, str] = {}

    class ChunkSigner(S3SigV4Auth):
        def payload(self, request: AWSRequest) -> str:
            return "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"

        def signature(self, string_to_sign: str, request: AWSRequest) -> str:
            timestamp_of_request["at"] = request.context["timestamp"]
            return str(super().signature(string_to_sign, request))

    credentials = Credentials(lake_server.access_key_id, lake_server.secret_access_key)
    signer = ChunkSigner(credentials, "s3", "us-east-1")
    url = f"{lake_server.url}/{repo}/main/chunked"
    request = AWSRequest(
        method="PUT",
        url=url,
        headers={"content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(len(data))},
        data=b"",
    )
    signer.add_auth(request)
    previous = request.headers["Authorization"].rpartition("Signature=")[2]
    body = b""
    empty = hashlib.sha256(b"").hexdigest()
    for chunk in (data[:8192], data[8192:], b""):
        text = "\n".join(
            (
                "AWS4-HMAC-SHA256-PAYLOAD",
                timestamp_of_request["at"],
                signer.credential_scope(request),
                previous,
                empty,
                hashlib.sha256(chunk).hexdigest(),
            )
        )
        previous = S3SigV4Auth.signature(signer, text, request)
        sent = chunk.replace(b"5", b"6", 1) if is_tampered else chunk
        body += b"%x;chunk-signature=%s\r\n" % (len(chunk), previous.encode()) + sent + b"\r\n"
    with httpx.Client(trust_env=False) as http:
        reply = http.put(url, content=body, headers=dict(request.headers.items()))
    if is_tampered:
        assert reply.status_code == 403
        assert "SignatureDoesNotMatch" in reply.text
        with pytest.raises(ClientError):
            s3.head_object(Bucket=repo, Key="main/chunked")
    else:
        assert reply.status_code == 200, reply.text
        assert s3.get_object(Bucket=repo, Key="main/chunked")["Body"].read() == data


def test_an_unsigned_trailer_upload_is_stored(s3: Any, repo: str, lake_server: LakeServer) -> None:
    """The form boto3 uses over TLS: unsigned chunks with a checksum in the trailer."""
    from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum

    wrapper = AwsChunkedWrapper(
        io.BytesIO(PART), checksum_cls=Crc32Checksum, checksum_name="x-amz-checksum-crc32"
    )
    headers = {
        "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "x-amz-trailer": "x-amz-checksum-crc32",
        "x-amz-decoded-content-length": str(len(PART)),
        "content-encoding": "aws-chunked",
    }
    reply = send_raw(lake_server, f"/{repo}/main/trailer", wrapper.read(), headers)
    assert reply.status_code == 200, reply.text
    assert s3.get_object(Bucket=repo, Key="main/trailer")["Body"].read() == PART
