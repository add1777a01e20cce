"""One boto3 script of everything the S3 gateway does, to be run against any server that has one.

The transcripts of two servers can be compared: ids and times are left out, errors are told by code and status.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import boto3
import httpx
from botocore.config import Config
from botocore.exceptions import ClientError

__all__ = ["SCRIPT_REPOSITORY", "GatewayUnderTest", "run_gateway_script"]

SCRIPT_REPOSITORY = "gateway-script"

_PART = bytes(range(256)) * 20_480  # 5 MiB, the least that S3 takes for a part that is not the last
_ODD_PATHS = (
    *("a b", "a+b", "a%2Fb", "a%b", "ünï/cødé/☃", "quote\"'", "semi;colon&and=?#", "x//y"),
    "dots/../z",
)
_RANGES = (
    *("bytes=0-4", "bytes=7-", "bytes=-4", "bytes=7-1000", "bytes=11-", "bytes=-0", "bytes=5-2"),
    *("nonsense", "bytes=0-1,3-4"),
)
_UNSUPPORTED_OF_BUCKET = (
    *("get_bucket_acl", "get_bucket_policy", "get_bucket_lifecycle_configuration"),
    *("get_bucket_cors", "get_bucket_tagging", "list_object_versions"),
)
# Ids are each server's own, and the encoding of a listing is undone by boto3 before anyone sees it.
_NOT_COMPARED = {"ResponseMetadata", "UploadId", "EncodingType"}


@dataclass(frozen=True, slots=True)
class GatewayUnderTest:
    """A server with an S3 gateway beside lakeFS's REST API.

    `remove_bytes` deletes what lies at a physical address, as a collector would.
    """

    url: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    remove_bytes: Callable[[str], None]

    def client(self, **changes: str) -> Any:
        """A boto3 client that signs with version 4 and never tries twice."""
        keys = {
            "aws_access_key_id": self.access_key_id,
            "aws_secret_access_key": self.secret_access_key,
        }
        config = Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            retries={"total_max_attempts": 1},
            proxies={},
        )
        return boto3.session.Session().client(
            "s3", endpoint_url=self.url, region_name="us-east-1", config=config, **(keys | changes)
        )

    def create_repository(self, namespace: str) -> None:
        """The script's repository, with the branches main and side."""
        self._call("POST", "", json={"name": SCRIPT_REPOSITORY, "storage_namespace": namespace})
        self._call(
            "POST", f"/{SCRIPT_REPOSITORY}/branches", json={"name": "side", "source": "main"}
        )

    def physical_address(self, path: str) -> str:
        """Where the bytes of an object on main lie."""
        stat = f"/{SCRIPT_REPOSITORY}/refs/main/objects/stat"
        return str(self._call("GET", stat, params={"path": path}).json()["physical_address"])

    def _call(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        auth = (self.access_key_id, self.secret_access_key)
        with httpx.Client(trust_env=False, auth=auth) as http:
            reply = http.request(method, f"{self.url}/api/v1/repositories{path}", **arguments)
        return reply.raise_for_status()


def run_gateway_script(gateway: GatewayUnderTest) -> Mapping[str, Any]:
    """Run every step and give what each answered."""
    script = _Script(gateway)
    for part in (
        _buckets,
        _writes,
        _reads,
        _odd_keys,
        _listings,
        _pages,
        _copies,
        _multipart,
        _aborted_and_copied_parts,
        _deletes,
        _presigned,
        _unsupported,
        _credentials,
        _gone,
    ):
        part(script)
    return script.answers


class _Script:
    def __init__(self, gateway: GatewayUnderTest) -> None:
        self.gateway = gateway
        self.s3 = gateway.client()
        self.answers: dict[str, Any] = {}

    def step(
        self,
        name: str,
        operation: str,
        show: Callable[[Any], Any] | None = None,
        /,
        **arguments: Any,
    ) -> Any:
        """Call an operation (on the script's repository unless told) and write its answer down."""
        arguments = {"Bucket": SCRIPT_REPOSITORY} | arguments
        return self.note(name, lambda: getattr(self.s3, operation)(**arguments), show)

    def note(
        self, name: str, call: Callable[[], Any], show: Callable[[Any], Any] | None = None
    ) -> Any:
        try:
            reply = call()
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            self.answers[name] = f"{error.response['Error']['Code']} {status}"
            return None
        self.answers[name] = _comparable(show(reply) if show else reply)
        return reply


def _comparable(value: Any) -> Any:
    """The value without ids and times; names of metadata in lower case, for a header's case has no meaning."""
    if isinstance(value, dict):
        return {
            name: {key.lower(): text for key, text in inner.items()}
            if name == "Metadata"
            else _comparable(inner)
            for name, inner in value.items()
            if name not in _NOT_COMPARED
        }
    if isinstance(value, list | tuple):
        return [_comparable(inner) for inner in value]
    return "a time" if isinstance(value, datetime) else value


def _etag(reply: Any) -> Any:
    return reply["ETag"]


def _status(reply: Any) -> Any:
    return reply["ResponseMetadata"]["HTTPStatusCode"]


def _head(reply: Any) -> Any:
    names = ("ContentLength", "ContentRange", "ContentType", "ETag", "Metadata", "AcceptRanges")
    return {name: reply.get(name) for name in names}


def _content(reply: Any) -> Any:
    digest = hashlib.sha256(reply["Body"].read()).hexdigest()
    return _head(reply) | {"sha256": digest, "status": _status(reply)}


def _keys(page: Any) -> Any:
    return [item["Key"] for item in page.get("Contents", [])]


def _keys_and_folders(page: Any) -> Any:
    return _keys(page), [item["Prefix"] for item in page.get("CommonPrefixes", [])]


def _buckets(script: _Script) -> None:
    def names(reply: Any) -> Any:
        return SCRIPT_REPOSITORY in [bucket["Name"] for bucket in reply["Buckets"]]

    script.note("list buckets", script.s3.list_buckets, names)
    script.step("head bucket", "head_bucket", _status)
    script.step("head missing bucket", "head_bucket", Bucket="no-such-repo")
    script.step("create existing bucket", "create_bucket")
    script.step("create bucket", "create_bucket", Bucket="another-repo")
    script.step("delete bucket", "delete_bucket")
    script.step("location", "get_bucket_location")
    script.step("versioning", "get_bucket_versioning")


def _writes(script: _Script) -> None:
    key = "main/dir/hello.txt"
    labels = {"ContentType": "text/plain", "Metadata": {"Colour": "blue"}}
    wrong_md5 = base64.b64encode(hashlib.md5(b"other", usedforsecurity=False).digest()).decode()
    long = {"a": "v" * 2048}
    script.step("put", "put_object", _etag, Key=key, Body=b"hello, lake", **labels)
    script.step("put empty", "put_object", _etag, Key="main/empty", Body=b"")
    script.step("put without type", "put_object", _etag, Key="main/untyped", Body=b"x")
    script.step("put if absent, present", "put_object", Key=key, Body=b"o", IfNoneMatch="*")
    script.step("put if absent", "put_object", _etag, Key="main/n", Body=b"n", IfNoneMatch="*")
    script.step("put if none match tag", "put_object", Key=key, Body=b"o", IfNoneMatch='"abc"')
    script.step("put to missing branch", "put_object", Key="nobranch/a", Body=b"o")
    script.step("put to missing repo", "put_object", Bucket="no-such-repo", Key="main/a", Body=b"o")
    script.step("put too much metadata", "put_object", Key=key, Body=b"o", Metadata=long)
    script.step("put with wrong md5", "put_object", _etag, Key="side/m", ContentMD5=wrong_md5)
    script.step("put branch as key", "put_object", Key="main", Body=b"x")
    script.step("put branch as folder", "put_object", Key="main/", Body=b"x")
    snow = {"a": "=?utf-8?b?4piD?="}
    script.step("put unicode metadata", "put_object", _etag, Key="main/meta", Metadata=snow)
    script.step("head unicode metadata", "head_object", _head, Key="main/meta")


def _reads(script: _Script) -> None:
    key = "main/dir/hello.txt"
    script.step("get", "get_object", _content, Key=key)
    script.step("get untyped", "get_object", _content, Key="main/untyped")
    script.step("get empty", "get_object", _content, Key="main/empty")
    for asked in _RANGES:
        script.step(f"get {asked}", "get_object", _content, Key=key, Range=asked)
    script.step("get range of empty", "get_object", Key="main/empty", Range="bytes=0-")
    script.step("head", "head_object", _head, Key=key)
    script.step("head range", "head_object", _head, Key=key, Range="bytes=0-4")
    script.step("get missing key", "get_object", Key="main/nothing")
    script.step("head missing key", "head_object", Key="main/nothing")
    script.step("get missing ref", "get_object", Key="noref/nothing")
    script.step("get missing repo", "get_object", Bucket="no-such-repo", Key="main/a")
    script.step("get branch as key", "get_object", Key="main")
    etag = script.s3.head_object(Bucket=SCRIPT_REPOSITORY, Key=key)["ETag"]
    script.step("get if match", "get_object", _content, Key=key, IfMatch=etag)
    script.step("get if match fails", "get_object", _content, Key=key, IfMatch='"no"')
    script.step("get if none match", "get_object", _content, Key=key, IfNoneMatch=etag)


def _odd_keys(script: _Script) -> None:
    for path in _ODD_PATHS:
        key = f"main/odd/{path}"
        script.step(f"put {path}", "put_object", _etag, Key=key, Body=key.encode())
        script.step(f"get {path}", "get_object", _content, Key=key)
    script.step("list odd", "list_objects_v2", _keys, Prefix="main/odd/")
    script.step("list odd v1", "list_objects", _keys, Prefix="main/odd/")


def _listings(script: _Script) -> None:
    for number in range(25):
        key = f"main/many/{number // 5}/{number:03}"
        script.s3.put_object(Bucket=SCRIPT_REPOSITORY, Key=key, Body=b"")
    script.step("list root", "list_objects_v2")
    script.step("list root with delimiter", "list_objects_v2", Delimiter="/")
    script.step("list branches by prefix", "list_objects_v2", Prefix="ma", Delimiter="/")
    script.step("list missing branch", "list_objects_v2", Prefix="zzz", Delimiter="/")
    script.step("list v1 root", "list_objects", Delimiter="/")
    script.step("list a branch", "list_objects_v2", Prefix="main/", Delimiter="/")
    script.step("list v1 a branch", "list_objects", Prefix="main/", Delimiter="/")
    script.step("list a folder", "list_objects_v2", Prefix="main/many/", Delimiter="/")
    script.step("list inside a folder", "list_objects_v2", Prefix="main/many/3/", Delimiter="/")
    script.step("list a missing ref", "list_objects_v2", Prefix="noref/")
    script.step("list v1 a missing ref", "list_objects", Prefix="noref/")
    script.step("list a missing repo", "list_objects_v2", Bucket="no-such-repo")
    script.step("list nothing", "list_objects_v2", Prefix="main/nothing/")


def _pages(script: _Script) -> None:
    many = {"Prefix": "main/many/"}
    script.step("list all below", "list_objects_v2", _keys, **many)
    script.step("list after", "list_objects_v2", _keys, StartAfter="main/many/3/017", **many)
    script.step("list after another ref", "list_objects_v2", _keys, StartAfter="a/b", **many)
    script.step("list other delimiter", "list_objects_v2", _keys_and_folders, Delimiter="0", **many)
    for version in ("list_objects_v2", "list_objects"):
        for delimiter in ("", "/"):
            pages = script.s3.get_paginator(version).paginate(
                Bucket=SCRIPT_REPOSITORY,
                Delimiter=delimiter,
                PaginationConfig={"PageSize": 2},
                **many,
            )
            name = f"{version} in pages, delimiter {delimiter!r}"
            script.note(name, pages.build_full_result, _keys_and_folders)


def _copies(script: _Script) -> None:
    source = {"Bucket": SCRIPT_REPOSITORY, "Key": "main/dir/hello.txt"}
    odd = {"Bucket": SCRIPT_REPOSITORY, "Key": "main/odd/a+b"}
    changes = {
        "MetadataDirective": "REPLACE",
        "Metadata": {"shape": "round"},
        "ContentType": "text/css",
    }
    script.step("copy", "copy_object", Key="main/copied", CopySource=source)
    script.step("get copy", "get_object", _content, Key="main/copied")
    script.step("copy odd key", "copy_object", Key="main/copied odd", CopySource=odd)
    script.step("copy anew", "copy_object", Key="main/replaced", CopySource=source, **changes)
    script.step("get replaced", "get_object", _content, Key="main/replaced")
    script.step("copy to other branch", "copy_object", Key="side/copied", CopySource=source)
    script.step("get from other branch", "get_object", _content, Key="side/copied")
    for name, missing in (
        ("copy missing", f"{SCRIPT_REPOSITORY}/main/nothing"),
        ("copy from missing ref", f"{SCRIPT_REPOSITORY}/noref/a"),
        ("copy from missing repo", "no-such-repo/main/a"),
        ("copy from nonsense", "nonsense"),
    ):
        script.step(name, "copy_object", Key="main/c", CopySource=missing)
    script.step("copy to missing branch", "copy_object", Key="nobranch/c", CopySource=source)


def _multipart(script: _Script) -> None:
    def parts_of(reply: Any) -> Any:
        return [(p["PartNumber"], p["ETag"].strip('"'), p["Size"]) for p in reply["Parts"]]

    key: dict[str, Any] = {"Key": "main/multi"}
    labels = {"ContentType": "video/mp4", "Metadata": {"a": "b"}}
    unknown = key | {"UploadId": "unknown"}
    key["UploadId"] = script.step("create multipart", "create_multipart_upload", **key, **labels)[
        "UploadId"
    ]
    first = script.step("part 1", "upload_part", _etag, PartNumber=1, Body=_PART, **key)["ETag"]
    last = script.step("part 3", "upload_part", _etag, PartNumber=3, Body=b"tail", **key)["ETag"]
    script.step("list parts", "list_parts", parts_of, **key)
    script.step("get unfinished", "get_object", Key="main/multi")
    parts = [{"PartNumber": 1, "ETag": first}, {"PartNumber": 3, "ETag": last}]
    wrong = [{"PartNumber": 1, "ETag": f'"{"0" * 32}"'}]
    finish = "complete_multipart_upload"
    script.step("complete wrong part", finish, MultipartUpload={"Parts": wrong}, **key)
    script.step("complete wrong order", finish, MultipartUpload={"Parts": parts[::-1]}, **key)
    script.step("complete", finish, _etag, MultipartUpload={"Parts": parts}, **key)
    script.step("get multi", "get_object", _content, Key="main/multi")
    script.step("complete unknown", finish, MultipartUpload={"Parts": parts}, **unknown)
    script.step("part of unknown", "upload_part", PartNumber=1, Body=b"x", **unknown)
    script.step("multipart on missing branch", "create_multipart_upload", Key="nobranch/a")


def _aborted_and_copied_parts(script: _Script) -> None:
    def begin(key: str) -> dict[str, Any]:
        reply = script.s3.create_multipart_upload(Bucket=SCRIPT_REPOSITORY, Key=key)
        return {"Key": key, "UploadId": reply["UploadId"]}

    aborted = begin("main/aborted")
    script.step("part 1 of aborted", "upload_part", _etag, PartNumber=1, Body=b"x", **aborted)
    script.step("abort", "abort_multipart_upload", _status, **aborted)
    script.step("part after abort", "upload_part", PartNumber=1, Body=b"x", **aborted)
    script.step("get aborted", "get_object", Key="main/aborted")
    joined = begin("main/joined")
    parts = []
    for number, (source, asked) in enumerate(
        (("multi", {"CopySourceRange": f"bytes=0-{len(_PART) - 1}"}), ("dir/hello.txt", {})), 1
    ):
        copied = script.step(
            f"copied part {number}",
            "upload_part_copy",
            PartNumber=number,
            CopySource=f"{SCRIPT_REPOSITORY}/main/{source}",
            **asked,
            **joined,
        )
        parts.append({"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]})
    finish = {"MultipartUpload": {"Parts": parts}}
    script.step("complete joined", "complete_multipart_upload", _etag, **finish, **joined)
    script.step("get joined", "get_object", _content, Key="main/joined")


def _deletes(script: _Script) -> None:
    def errors(reply: Any) -> Any:
        return [(error["Key"], error["Code"]) for error in reply.get("Errors", [])]

    def batch(*keys: str) -> Any:
        return {"Objects": [{"Key": key} for key in keys]}

    many = batch(*(f"main/many/{n // 5}/{n:03}" for n in range(10)), "main/nothing")
    two = batch("main/replaced", "side/copied")
    script.step("delete", "delete_object", _status, Key="main/copied")
    script.step("get deleted", "get_object", Key="main/copied")
    script.step("delete missing", "delete_object", _status, Key="main/nothing")
    script.step("delete on missing branch", "delete_object", _status, Key="nobranch/a")
    script.step("delete branch as key", "delete_object", _status, Key="main")
    script.step("delete many", "delete_objects", Delete=many)
    script.step("delete many, quiet", "delete_objects", Delete=many | {"Quiet": True})
    script.step("delete on two branches", "delete_objects", Delete=two)
    script.step("delete many, no branch", "delete_objects", errors, Delete=batch("nobranch/a"))
    script.step("list after deletes", "list_objects_v2", _keys, Prefix="main/many/")


def _presigned(script: _Script) -> None:
    params = {"Bucket": SCRIPT_REPOSITORY, "Key": "main/pre signed+"}
    put_link = script.s3.generate_presigned_url("put_object", Params=params)
    get_link = script.s3.generate_presigned_url("get_object", Params=params)
    plain_link = f"{script.gateway.url}/{SCRIPT_REPOSITORY}/main/dir/hello.txt"
    with httpx.Client(trust_env=False) as http:
        script.answers["presigned put"] = http.put(put_link, content=b"by link").status_code
        got = http.get(get_link)
        script.answers["presigned get"] = (got.status_code, got.content)
        altered = http.get(get_link.replace("pre%20signed", "dir/hello"))
        script.answers["presigned and altered"] = altered.status_code
        unsigned = http.get(plain_link)
        script.answers["unsigned is served"] = unsigned.content == b"hello, lake"


def _unsupported(script: _Script) -> None:
    key = "main/dir/hello.txt"
    for operation in _UNSUPPORTED_OF_BUCKET:
        script.step(operation, operation)
    script.step("get_object_acl", "get_object_acl", Key=key)
    script.step("get_object_retention", "get_object_retention", Key=key)
    script.step("get_object_tagging", "get_object_tagging", Key=key)
    script.step("put_object_tagging", "put_object_tagging", Key=key, Tagging={"TagSet": []})


def _credentials(script: _Script) -> None:
    wrong = script.gateway.client(aws_secret_access_key="wrong")
    nobody = script.gateway.client(aws_access_key_id="AKIANOBODYHERE")
    script.note("wrong secret", wrong.list_buckets)
    script.note("unknown access key", nobody.list_buckets)
    late = (datetime.now(UTC) - timedelta(minutes=20)).replace(tzinfo=None)
    with mock.patch("botocore.auth.get_current_datetime", return_value=late):
        script.note("wrong clock", script.s3.list_buckets)


def _gone(script: _Script) -> None:
    script.s3.put_object(Bucket=SCRIPT_REPOSITORY, Key="main/gone", Body=b"soon gone")
    script.gateway.remove_bytes(script.gateway.physical_address("gone"))
    script.step("hard-deleted bytes", "get_object", Key="main/gone")
    script.step("head of hard-deleted bytes", "head_object", _head, Key="main/gone")
