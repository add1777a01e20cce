"""Small uploads that are stored together: each as if it came alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from lakesweep.lake.errors import InvalidRequestError, MissingError
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.uploads.together import SmallUpload
from lakesweep.lake.values import ObjectStats
from lakesweep_testing.lakes import LakeRepo
from lakesweep_testing.memory_kv import MemoryKeyValueStore


@pytest.fixture
def repo() -> LakeRepo:
    return LakeRepo().create()


def _small(repo: LakeRepo, path: str, body: bytes, branch: str = "main") -> SmallUpload:
    upload = repo.lake.small_uploads.prepare(
        repo.record, branch, path, [body], content_type="text/x", metadata={"k": "v"}
    )
    assert upload is not None
    return upload


def test_all_of_a_batch_are_stored(repo: LakeRepo) -> None:
    """On several branches, under addresses of their own, described as they were sent."""
    repo.lake.refs.create_branch(repo.record, "dev", "main")
    batch = [_small(repo, "a", b"1"), _small(repo, "b", b"2"), _small(repo, "a", b"3", "dev")]
    outcomes = repo.lake.small_uploads.store(batch)
    assert repo.contents("main") == {"a": b"1", "b": b"2"}
    assert repo.contents("dev") == {"a": b"3"}
    told = [outcome for outcome in outcomes if isinstance(outcome, ObjectStats)]
    assert [stats.path for stats in told] == ["a", "b", "a"]
    assert len({stats.physical_address for stats in told}) == 3
    assert told[0] == repo.lake.objects.stat(repo.record, "main", "a")
    assert (told[0].content_type, dict(told[0].metadata)) == ("text/x", {"k": "v"})
    alone = repo.lake.objects.upload(repo.record, "main", "alone", [b"1"])
    assert alone.checksum == told[0].checksum


def test_of_two_under_one_path_the_later_stays(repo: LakeRepo) -> None:
    """As if they had come one after the other."""
    repo.lake.small_uploads.store([_small(repo, "a", b"1"), _small(repo, "a", b"2")])
    assert repo.contents() == {"a": b"2"}


def test_one_that_fails_takes_no_other_with_it(repo: LakeRepo) -> None:
    """Its branch went away meanwhile; the others are stored, and only it is told."""
    repo.lake.refs.create_branch(repo.record, "dev", "main")
    batch = [_small(repo, "a", b"1"), _small(repo, "b", b"2", "dev"), _small(repo, "c", b"3")]
    repo.lake.branches.delete(repo.record, "dev")
    first, gone, last = repo.lake.small_uploads.store(batch)
    assert isinstance(gone, MissingError)
    assert isinstance(first, ObjectStats)
    assert isinstance(last, ObjectStats)
    assert repo.contents() == {"a": b"1", "c": b"3"}


class _WatchfulStore(MemoryKeyValueStore):
    """Calls back before values are set."""

    repo: LakeRepo
    seen: int = 0

    def set_many(self, partition: str, rows: Iterable[Row]) -> None:
        self.seen = len(list(self.repo.store.keys("data/")))
        super().set_many(partition, rows)


def test_bytes_are_stored_before_their_entries() -> None:
    """A reader who finds the entry finds the bytes; so does a server that starts after this one was killed."""
    kv = _WatchfulStore()
    repo = kv.repo = LakeRepo(kv=kv).create()
    repo.lake.small_uploads.store([_small(repo, "a", b"1"), _small(repo, "b", b"2")])
    assert kv.seen == 2


def test_what_is_refused_is_refused_before_it_is_stored(repo: LakeRepo) -> None:
    """No branch, no path, metadata without end."""
    prepare = repo.lake.small_uploads.prepare
    with pytest.raises(MissingError):
        prepare(repo.record, "none", "a", [b""])
    with pytest.raises(InvalidRequestError):
        prepare(repo.record, "main", "", [b""])
    with pytest.raises(InvalidRequestError):
        prepare(repo.record, "main", "a", [b""], metadata={"k": "v" * 3000})
    assert list(repo.store.keys("data/")) == []


def test_another_machines_store_is_asked_in_parallel(repo: LakeRepo) -> None:
    """There nothing is gained by waiting together; the body is left unread for whoever stores it."""
    elsewhere = replace(repo.record, storage_namespace="s3://bucket/repo")
    body = iter([b"1"])
    assert repo.lake.small_uploads.prepare(elsewhere, "main", "a", body) is None
    assert next(body) == b"1"
