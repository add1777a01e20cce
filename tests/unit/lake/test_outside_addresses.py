"""StageObject and imports: nothing inside a namespace, however it is spelt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.lake.errors import ForbiddenError, InvalidAddressError, LakeError
from lakesweep.lake.values import ImportSource
from lakesweep_testing.lakes import LakeRepo


def _s3_repo(**settings: object) -> LakeRepo:
    """A repository on S3 that is never written to: bare, so that nothing needs the bucket."""
    repo = LakeRepo(namespace="s3://Bucket/team/ns", **settings)
    repo.lake.repositories.create(repo.id, repo.namespace, is_bare=True)
    repo.lake.repositories._create_first_branch(repo.record)
    return repo


def _stage(repo: LakeRepo, address: str) -> None:
    repo.lake.linking.stage_outside(repo.record, "main", "p", address, checksum="c", size_bytes=1)


@pytest.mark.parametrize(
    "address",
    [
        "s3://Bucket/team/ns/data/x/y",
        "s3a://Bucket/team/ns/data/x/y",
        "s3n://Bucket/team/ns/x",
        "S3://Bucket/team/ns/x",
        "s3://bucket/team/ns/x",
        "s3://BUCKET/team/ns/x",
        "s3://Bucket/team//ns/x",
        "s3://Bucket//team/ns/x",
        "s3://Bucket/team/./ns/x",
        "s3://Bucket/team/other/../ns/x",
        "s3://Bucket/other/../team/ns/x",
        "s3://Bucket/../Bucket/team/ns/x",
        "s3://Bucket/team/ns/../ns/x",
        "s3://Bucket/team%2Fns/x",
        "s3://Bucket/te%61m/ns/x",
        "s3://Bucket/team/%6e%73/x",
        "s3://Bucket/team/%256e%2573/x",
        "s3://%42ucket/team/ns/x",
        "s3://Bucket/team/x%2F..%2Fns/y",
        "s3://Bucket/team/%2e%2e/team/ns/y",
        "s3://Bucket\\team\\ns\\x",
        "s3://Bucket/team\\ns\\x",
        "s3://Bucket/team/ns",
        "s3://Bucket/team/ns/",
    ],
)
def test_namespace_in_any_spelling_is_refused(address: str) -> None:
    """Another scheme, dots, doubled slashes, percent signs, case of the bucket, backslashes."""
    repo = _s3_repo()
    with pytest.raises(InvalidAddressError):
        _stage(repo, address)
    assert repo.paths() == []


@pytest.mark.parametrize(
    "address",
    [
        "",
        "no scheme",
        "ftp://x/y",
        "s3://",
        "s3:///key",
        "s3://other/",
        "s3://other/a//b",
        "s3://other/../x",
        "s3://other/a\x00b",
        "http://127.0.0.1:9000/Bucket/team/ns/x",
        "https://Bucket.s3.amazonaws.com/team/ns/x",
        "https://example.com/x",
    ],
)
def test_address_that_is_not_plain_is_refused(address: str) -> None:
    """What can't be understood, or may be another name of the namespace's own server, is not staged."""
    with pytest.raises(InvalidAddressError):
        _stage(_s3_repo(), address)


@pytest.mark.parametrize(
    "address",
    [
        "s3://other/team/ns/x",
        "s3://Bucket/team/ns2/x",
        "s3://Bucket/team/nsx",
        "s3://Bucket/elsewhere/100%25/x",
        "gs://Bucket/team/ns/x",
        "https://account.blob.core.windows.net/container/x",
    ],
)
def test_address_outside_is_staged_as_it_is(address: str) -> None:
    """Objects elsewhere keep their full address."""
    repo = _s3_repo()
    _stage(repo, address)
    assert repo.lake.objects.stat(repo.record, "main", "p").physical_address == address


def test_other_repositories_namespaces_are_refused() -> None:
    """An entry of one repository may not hold on to, or read, another's objects."""
    repo = LakeRepo().create()
    other = LakeRepo(kv=repo.kv, repository_id="other").create()
    address = other.put("secret")
    with pytest.raises(InvalidAddressError):
        _stage(repo, f"{other.namespace}/{address}")


def test_local_files_are_served_from_named_folders_only(tmp_path: Path) -> None:
    """The server's own files (its ref store, /etc) can't be staged and read, nor through a link on disk."""
    allowed, secret = tmp_path / "allowed", tmp_path / "secret"
    for folder in (allowed, secret):
        folder.mkdir()
        (folder / "file").write_bytes(b"content")
    os.symlink(secret, allowed / "link")
    repo = LakeRepo(data_dir=tmp_path / "data", allow_imports=(f"file://{allowed}",)).create()
    for address in (f"file://{secret}/file", f"local://{allowed}/link/file", "local:///etc/passwd"):
        with pytest.raises(LakeError):
            _stage(repo, address)
    with pytest.raises(LakeError):
        _stage(repo, f"file://{allowed}/../secret/file")
    repo.lake.linking.stage_outside(
        repo.record, "main", "p", f"file://{allowed}/file", checksum="c", size_bytes=7
    )
    assert repo.read("p") == b"content"
    closed = LakeRepo(kv=repo.kv, clock=repo.clock, namespace=repo.namespace, allow_imports=())
    with pytest.raises(ForbiddenError):
        closed.read("p")


@pytest.mark.parametrize(
    "path",
    [
        "s3://Bucket/team/ns/",
        "s3://Bucket/team/",
        "s3://Bucket/",
        "s3a://bucket/team",
        "s3://Bucket/te%61m/",
    ],
)
def test_import_from_or_around_the_namespace_is_refused(path: str) -> None:
    """A prefix that holds the namespace would import the repository into itself."""
    repo = _s3_repo()
    with pytest.raises(InvalidAddressError):
        repo.lake.importing.start(
            repo.record,
            "main",
            [ImportSource("common_prefix", path, "to/")],
            committer="me",
            message="m",
        )
