"""boto3 through the gateway: objects, listings, copies, deletes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakesweep.lake.server import LakeServer

Refusal = Callable[..., tuple[str, int]]

ODD_PATHS = [
    "a b",
    "a+b",
    "a%2Fb",
    "100%",
    "ünï/☃",
    "q\"'<&>",
    ";&=?#",
    "x//y",
    "../up",
    "tab\there",
]


def keys_of(page: Any) -> list[str]:
    return [item["Key"] for item in page.get("Contents", [])]


def prefixes_of(page: Any) -> list[str]:
    return [item["Prefix"] for item in page.get("CommonPrefixes", [])]


def test_an_object_comes_back_as_it_was_put(s3: Any, repo: str) -> None:
    """Bytes, type, metadata, length and ETag survive; the ETag is the MD5."""
    put = s3.put_object(
        Bucket=repo,
        Key="main/a",
        Body=b"hello",
        ContentType="text/plain",
        Metadata={"colour": "blue"},
    )
    got = s3.get_object(Bucket=repo, Key="main/a")
    head = s3.head_object(Bucket=repo, Key="main/a")
    assert got["Body"].read() == b"hello"
    assert put["ETag"] == got["ETag"] == head["ETag"] == f'"{hashlib.md5(b"hello").hexdigest()}"'
    for reply in (got, head):
        assert reply["ContentLength"] == 5
        assert reply["ContentType"] == "text/plain"
        assert reply["Metadata"] == {"colour": "blue"}


@pytest.mark.parametrize("path", ODD_PATHS)
def test_any_path_can_be_a_key(s3: Any, repo: str, path: str) -> None:
    """Spaces, percent and plus signs, slashes and unicode are kept as they are, in every operation."""
    key = f"main/odd/{path}"
    s3.put_object(Bucket=repo, Key=key, Body=path.encode())
    assert s3.get_object(Bucket=repo, Key=key)["Body"].read() == path.encode()
    assert keys_of(s3.list_objects_v2(Bucket=repo, Prefix="main/odd/")) == [key]
    assert keys_of(s3.list_objects(Bucket=repo, Prefix=key)) == [key]
    s3.copy_object(Bucket=repo, Key="side/copy", CopySource={"Bucket": repo, "Key": key})
    assert s3.get_object(Bucket=repo, Key="side/copy")["Body"].read() == path.encode()
    deleted = s3.delete_objects(Bucket=repo, Delete={"Objects": [{"Key": key}]})
    assert [item["Key"] for item in deleted["Deleted"]] == [key]
    assert keys_of(s3.list_objects_v2(Bucket=repo, Prefix="main/")) == []


@pytest.mark.parametrize(
    ("asked", "expected", "content_range"),
    [
        ("bytes=0-4", b"01234", "bytes 0-4/10"),
        ("bytes=5-", b"56789", "bytes 5-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=8-99", b"89", "bytes 8-9/10"),
        ("bytes=9-9", b"9", "bytes 9-9/10"),
    ],
)
def test_ranged_reads(s3: Any, repo: str, asked: str, expected: bytes, content_range: str) -> None:
    """Exactly the bytes asked for come, with 206 and their place, on GET as on HEAD."""
    s3.put_object(Bucket=repo, Key="main/a", Body=b"0123456789")
    got = s3.get_object(Bucket=repo, Key="main/a", Range=asked)
    assert got["Body"].read() == expected
    assert got["ContentRange"] == content_range
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert s3.head_object(Bucket=repo, Key="main/a", Range=asked)["ContentLength"] == len(expected)


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=-0"])
def test_a_range_outside_the_object_is_refused(
    s3: Any, repo: str, asked: str, refusal: Refusal
) -> None:
    """No bytes are not a success."""
    s3.put_object(Bucket=repo, Key="main/a", Body=b"0123456789")
    assert refusal(s3.get_object, Bucket=repo, Key="main/a", Range=asked) == (
        "InvalidRange",
        416,
    )


@pytest.mark.parametrize("asked", ["bytes=5-2", "lines=1-2", "bytes=0-1,4-5"])
def test_what_is_no_single_range_gets_the_whole_object(s3: Any, repo: str, asked: str) -> None:
    """As HTTP has it, a range that can't be understood is not asked for."""
    s3.put_object(Bucket=repo, Key="main/a", Body=b"0123456789")
    got = s3.get_object(Bucket=repo, Key="main/a", Range=asked)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert got["Body"].read() == b"0123456789"


def test_conditional_reads(s3: Any, repo: str, refusal: Refusal) -> None:
    """A tag that matches, or does not, decides between the object, 304 and 412."""
    etag = s3.put_object(Bucket=repo, Key="main/a", Body=b"x")["ETag"]
    key = {"Bucket": repo, "Key": "main/a"}
    assert s3.get_object(**key, IfMatch=etag)["Body"].read() == b"x"
    assert s3.get_object(**key, IfNoneMatch='"other"')["Body"].read() == b"x"
    modified = s3.head_object(**key)["LastModified"]
    for operation in (s3.get_object, s3.head_object):
        for condition, status in (
            ({"IfMatch": '"other"'}, 412),
            ({"IfNoneMatch": etag}, 304),
            ({"IfModifiedSince": modified}, 304),
        ):
            assert refusal(operation, **key, **condition)[1] == status
            # Before the range is looked at: 416 tells a client that goes on with a download that it has all of it.
            assert refusal(operation, **key, **condition, Range="bytes=1-")[1] == status
        assert refusal(operation, **key, IfMatch=etag, Range="bytes=1-")[1] == 416


def test_put_if_absent(s3: Any, repo: str, refusal: Refusal) -> None:
    """`If-None-Match: *` creates once; other conditions on writes are not pretended."""
    s3.put_object(Bucket=repo, Key="main/a", Body=b"first", IfNoneMatch="*")
    assert refusal(s3.put_object, Bucket=repo, Key="main/a", Body=b"second", IfNoneMatch="*") == (
        "PreconditionFailed",
        412,
    )
    assert refusal(s3.put_object, Bucket=repo, Key="main/a", Body=b"second", IfMatch='"x"') == (
        "NotImplemented",
        501,
    )
    assert s3.get_object(Bucket=repo, Key="main/a")["Body"].read() == b"first"


def test_missing_things_are_named(s3: Any, repo: str, refusal: Refusal) -> None:
    """A key, a ref, a branch to write to and a repository that do not exist have the codes clients know."""
    expected = {
        "NoSuchKey": [
            lambda: s3.get_object(Bucket=repo, Key="main/nothing"),
            lambda: s3.get_object(Bucket=repo, Key="noref/a"),
            lambda: s3.get_object(Bucket=repo, Key="main"),
            lambda: s3.list_objects_v2(Bucket=repo, Prefix="noref/"),
            lambda: s3.copy_object(Bucket=repo, Key="main/c", CopySource=f"{repo}/main/nothing"),
            lambda: s3.copy_object(Bucket=repo, Key="main/c", CopySource="norepo/main/nothing"),
        ],
        "NoSuchBucket": [
            lambda: s3.put_object(Bucket=repo, Key="nobranch/a", Body=b""),
            lambda: s3.get_object(Bucket="norepo", Key="main/a"),
            lambda: s3.list_objects_v2(Bucket="norepo"),
            lambda: s3.create_multipart_upload(Bucket=repo, Key="nobranch/a"),
        ],
    }
    for code, calls in expected.items():
        for call in calls:
            assert refusal(call) == (code, 404)
    assert refusal(s3.head_bucket, Bucket="norepo") == ("404", 404)


def test_buckets_are_repositories(s3: Any, repo: str, refusal: Refusal) -> None:
    """They are listed and looked up; creating and deleting them is left to the REST API."""
    assert repo in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    page = s3.list_buckets(MaxBuckets=1)
    assert len(page["Buckets"]) == 1
    assert s3.head_bucket(Bucket=repo)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert s3.get_bucket_location(Bucket=repo)["LocationConstraint"] is None
    assert "Status" not in s3.get_bucket_versioning(Bucket=repo)
    for call, expected in (
        (lambda: s3.create_bucket(Bucket=repo), ("BucketAlreadyExists", 409)),
        (lambda: s3.create_bucket(Bucket="new-repo"), ("NotImplemented", 501)),
        (lambda: s3.delete_bucket(Bucket=repo), ("NotImplemented", 501)),
    ):
        assert refusal(call) == expected


def test_branches_look_like_folders(s3: Any, repo: str) -> None:
    """Above the refs a listing shows the branches, in pages if asked, and staged objects below each."""
    s3.put_object(Bucket=repo, Key="main/a/b", Body=b"")
    assert prefixes_of(s3.list_objects_v2(Bucket=repo)) == ["main/", "side/"]
    assert prefixes_of(s3.list_objects_v2(Bucket=repo, Prefix="ma", Delimiter="/")) == ["main/"]
    for version in ("list_objects", "list_objects_v2"):
        pages = s3.get_paginator(version).paginate(
            Bucket=repo, Delimiter="/", PaginationConfig={"PageSize": 1}
        )
        assert [prefixes_of(page) for page in pages] == [["main/"], ["side/"]]
    assert prefixes_of(s3.list_objects_v2(Bucket=repo, Prefix="main/", Delimiter="/")) == [
        "main/a/"
    ]
    assert keys_of(s3.list_objects_v2(Bucket=repo, Prefix="side/")) == []


@pytest.mark.parametrize("version", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("page_size", [1, 2, 3, 1000])
def test_listing_with_a_delimiter_in_pages(
    s3: Any, repo: str, version: str, page_size: int
) -> None:
    """However it is cut into pages, a listing shows every key and every folder once, in order."""
    for path in ["a", "b/1", "b/2", "b/c/3", "b0", "d/4", "e"]:
        s3.put_object(Bucket=repo, Key=f"main/{path}", Body=b"")
    pages = list(
        s3.get_paginator(version).paginate(
            Bucket=repo, Prefix="main/", Delimiter="/", PaginationConfig={"PageSize": page_size}
        )
    )
    assert [key for page in pages for key in keys_of(page)] == ["main/a", "main/b0", "main/e"]
    assert [prefix for page in pages for prefix in prefixes_of(page)] == ["main/b/", "main/d/"]
    assert all(len(keys_of(page)) + len(prefixes_of(page)) <= page_size for page in pages)
    flat = s3.get_paginator(version).paginate(
        Bucket=repo, Prefix="main/b", PaginationConfig={"PageSize": page_size}
    )
    assert [key for page in flat for key in keys_of(page)] == [
        *("main/b/1", "main/b/2", "main/b/c/3", "main/b0")
    ]


def test_start_after_and_max_keys(s3: Any, repo: str, refusal: Refusal) -> None:
    """A listing begins behind the key it is given, wherever that key lies, and counts what it shows."""
    for path in ["a", "b", "c"]:
        s3.put_object(Bucket=repo, Key=f"main/{path}", Body=b"")
    listing = {"Bucket": repo, "Prefix": "main/"}
    assert keys_of(s3.list_objects_v2(**listing, StartAfter="main/a")) == ["main/b", "main/c"]
    assert keys_of(s3.list_objects_v2(**listing, StartAfter="a/zzz")) == [
        "main/a",
        "main/b",
        "main/c",
    ]
    assert keys_of(s3.list_objects_v2(**listing, StartAfter="zzz")) == []
    page = s3.list_objects_v2(**listing, MaxKeys=2)
    assert (page["KeyCount"], page["IsTruncated"], page["MaxKeys"]) == (2, True, 2)
    assert s3.list_objects_v2(**listing, MaxKeys=0)["KeyCount"] == 0
    assert refusal(s3.list_objects_v2, **listing, ContinuationToken="not a token!") == (
        "InvalidArgument",
        400,
    )


def test_deleting_one_and_many(s3: Any, repo: str) -> None:
    """Deletes are repeatable, span branches, and report each key; a branch that is not there fails alone."""
    for key in ["main/a", "main/b", "main/c", "side/d"]:
        s3.put_object(Bucket=repo, Key=key, Body=b"")
    for _ in range(2):
        assert (
            s3.delete_object(Bucket=repo, Key="main/a")["ResponseMetadata"]["HTTPStatusCode"] == 204
        )
    keys = ["main/b", "main/never", "side/d", "nobranch/x", "main"]
    result = s3.delete_objects(Bucket=repo, Delete={"Objects": [{"Key": key} for key in keys]})
    assert [item["Key"] for item in result["Deleted"]] == ["main/b", "main/never", "side/d"]
    assert [(e["Key"], e["Code"]) for e in result["Errors"]] == [
        ("nobranch/x", "NoSuchBucket"),
        ("main", "NoSuchKey"),
    ]
    quiet = {"Objects": [{"Key": "main/c"}], "Quiet": True}
    assert "Deleted" not in s3.delete_objects(Bucket=repo, Delete=quiet)
    assert keys_of(s3.list_objects_v2(Bucket=repo, Prefix="main/")) == []


def test_a_delete_on_conditions_is_refused(s3: Any, repo: str, refusal: Refusal) -> None:
    """An object goes by its key alone; who names the one to go by more than that must not lose another."""
    key = {"Bucket": repo, "Key": "main/a"}
    s3.put_object(**key, Body=b"newer")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for said in ({"IfMatch": '"older"'}, {"IfMatchSize": 1}, {"IfMatchLastModifiedTime": at}):
        assert refusal(s3.delete_object, **key, **said)[1] == 501
    for said in ({"ETag": '"older"'}, {"Size": 1}, {"LastModifiedTime": at}):
        batch = {"Objects": [{"Key": "main/a", **said}]}
        assert refusal(s3.delete_objects, Bucket=repo, Delete=batch) == ("NotImplemented", 501)
    assert s3.get_object(**key)["Body"].read() == b"newer"


def test_a_thousand_keys_are_deleted_and_not_one_more(s3: Any, repo: str, refusal: Refusal) -> None:
    """The batch has S3's limit, and nothing of a larger one is done."""
    s3.put_object(Bucket=repo, Key="main/0", Body=b"")
    assert refusal(
        s3.delete_objects,
        Bucket=repo,
        Delete={"Objects": [{"Key": f"main/{n}"} for n in range(1001)]},
    ) == ("MalformedXML", 400)
    assert keys_of(s3.list_objects_v2(Bucket=repo, Prefix="main/")) == ["main/0"]
    result = s3.delete_objects(
        Bucket=repo, Delete={"Objects": [{"Key": f"main/{n}"} for n in range(1000)]}
    )
    assert len(result["Deleted"]) == 1000


def test_a_staged_object_copied_within_its_branch_is_shallow(
    s3: Any, repo: str, lake_server: LakeServer
) -> None:
    """The rule of the REST copy holds here: same branch and staged shares the address, all else has its own."""
    s3.put_object(
        Bucket=repo, Key="main/a", Body=b"data", Metadata={"k": "v"}, ContentType="text/x"
    )
    source = {"Bucket": repo, "Key": "main/a"}
    s3.copy_object(Bucket=repo, Key="main/shallow", CopySource=source)
    s3.copy_object(Bucket=repo, Key="side/full", CopySource=source)
    lake = lake_server.lake
    address = lake.objects.stat(lake.repositories.get(repo), "main", "a").physical_address
    assert (
        lake.objects.stat(lake.repositories.get(repo), "main", "shallow").physical_address
        == address
    )
    assert (
        lake.objects.stat(lake.repositories.get(repo), "side", "full").physical_address != address
    )
    for key in ("main/shallow", "side/full"):
        got = s3.get_object(Bucket=repo, Key=key)
        assert (got["Body"].read(), got["Metadata"], got["ContentType"]) == (
            b"data",
            {"k": "v"},
            "text/x",
        )


def test_copy_and_delete_is_a_rename(s3: Any, repo: str) -> None:
    """What Hadoop's rename does leaves the data readable under its new name alone."""
    s3.put_object(Bucket=repo, Key="main/old", Body=b"data")
    s3.copy_object(Bucket=repo, Key="main/new", CopySource=f"{repo}/main/old")
    s3.delete_object(Bucket=repo, Key="main/old")
    assert keys_of(s3.list_objects_v2(Bucket=repo, Prefix="main/")) == ["main/new"]
    assert s3.get_object(Bucket=repo, Key="main/new")["Body"].read() == b"data"


def test_a_copy_may_replace_metadata(s3: Any, repo: str) -> None:
    """`REPLACE` takes the request's metadata and type in place of the source's."""
    s3.put_object(
        Bucket=repo, Key="main/a", Body=b"", Metadata={"old": "1"}, ContentType="text/old"
    )
    s3.copy_object(
        Bucket=repo,
        Key="main/a",
        CopySource=f"{repo}/main/a",
        MetadataDirective="REPLACE",
        Metadata={"new": "2"},
        ContentType="text/new",
    )
    head = s3.head_object(Bucket=repo, Key="main/a")
    assert (head["Metadata"], head["ContentType"]) == ({"new": "2"}, "text/new")


def test_a_conditional_copy_of_another_object_is_refused(
    s3: Any, repo: str, refusal: Refusal
) -> None:
    """The source must be the one that the client read."""
    s3.put_object(Bucket=repo, Key="main/a", Body=b"x")
    assert refusal(
        s3.copy_object,
        Bucket=repo,
        Key="main/b",
        CopySource=f"{repo}/main/a",
        CopySourceIfMatch='"other"',
    ) == ("PreconditionFailed", 412)


def test_hard_deleted_bytes_are_gone(
    s3: Any, repo: str, lake_server: LakeServer, refusal: Refusal
) -> None:
    """GET answers 410 once the collector deleted the bytes; the entry is still listed and described."""
    s3.put_object(Bucket=repo, Key="main/a", Body=b"bytes")
    for folder, _, files in os.walk(Path(lake_server.lake.settings.data_dir) / repo / "data"):
        for file in files:
            (Path(folder) / file).unlink()
    for asked in ({}, {"Range": "bytes=0-1"}):
        assert refusal(s3.get_object, Bucket=repo, Key="main/a", **asked) == ("Gone", 410)
    assert s3.head_object(Bucket=repo, Key="main/a")["ContentLength"] == 5
    assert keys_of(s3.list_objects_v2(Bucket=repo, Prefix="main/")) == ["main/a"]


def test_commits_and_tags_are_read_and_never_written(
    s3: Any, repo: str, lake_server: LakeServer
) -> None:
    """Any ref can stand before the path in a read; a write needs a branch."""
    s3.put_object(Bucket=repo, Key="side/a", Body=b"one")
    commit = lake_server.lake.committing.commit(
        lake_server.lake.writable(repo), "side", "first", committer="tester"
    )
    s3.put_object(Bucket=repo, Key="side/a", Body=b"two")
    assert s3.get_object(Bucket=repo, Key=f"{commit.id}/a")["Body"].read() == b"one"
    assert s3.get_object(Bucket=repo, Key="side@/a")["Body"].read() == b"one"
    assert s3.get_object(Bucket=repo, Key="side/a")["Body"].read() == b"two"
    with pytest.raises(ClientError) as error:
        s3.put_object(Bucket=repo, Key=f"{commit.id}/a", Body=b"three")
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] in (400, 404)


@pytest.mark.parametrize(
    ("operation", "arguments", "name"),
    [
        ("get_bucket_acl", {}, "GetBucketAcl"),
        ("get_bucket_policy", {}, "GetBucketPolicy"),
        ("list_object_versions", {}, "ObjectVersions"),
        ("get_object_acl", {"Key": "main/a"}, "GetObjectAcl"),
        ("put_object_tagging", {"Key": "main/a", "Tagging": {"TagSet": []}}, "PutObjectTagging"),
        (
            "put_object",
            {"Key": "main/a", "ServerSideEncryption": "AES256"},
            "server-side-encryption",
        ),
        ("put_object", {"Key": "main/a", "StorageClass": "GLACIER"}, "x-amz-storage-class"),
        ("put_object", {"Key": "main/a", "Tagging": "a=b"}, "x-amz-tagging"),
        ("get_object", {"Key": "main/a", "VersionId": "v"}, "GetObjectVersion"),
    ],
)
def test_what_is_not_supported_says_so(
    s3: Any, repo: str, operation: str, arguments: dict[str, Any], name: str
) -> None:
    """501 with the operation's name, never a wrong 200."""
    with pytest.raises(ClientError) as error:
        getattr(s3, operation)(Bucket=repo, **arguments)
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501
    assert name in error.value.response["Error"]["Message"]


def test_metadata_may_be_unicode_and_has_a_limit(s3: Any, repo: str, refusal: Refusal) -> None:
    """What is not ASCII travels as RFC 2047 text; more than 2 KiB is refused."""
    s3.put_object(Bucket=repo, Key="main/a", Body=b"", Metadata={"snow": "=?utf-8?b?4piD?="})
    assert s3.head_object(Bucket=repo, Key="main/a")["Metadata"] == {
        "snow": "=?utf-8?q?=E2=98=83?="
    }
    assert refusal(
        s3.put_object, Bucket=repo, Key="main/b", Body=b"", Metadata={"k": "v" * 2048}
    ) == ("MetadataTooLarge", 400)
