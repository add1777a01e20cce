"""Presigned URLs and uploads over them, on a store in memory that signs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lakesweep.errors import LakesweepError, ObjectNotFoundError, StorageError
from lakesweep.lake.errors import (
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    MissingError,
    RefStoreError,
    UnsupportedOperationError,
)
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.values import NamedUpload
from lakesweep.storage.memory import MemoryBackend
from lakesweep.storage.signing import SignedMethod, SignedUrl
from lakesweep.storage.translate import TRANSIENT
from lakesweep_testing.asgi import AsgiLake
from lakesweep_testing.lakes import DyingKeyValueStore, LakeRepo, ProcessDiedError

EXPIRY = datetime(2026, 3, 1, 13, tzinfo=UTC)
PART = [(1, "etag-1")]


class SigningMemory:
    """What a store that signs adds to a store in memory. A part that was never put is one that can't be joined."""

    def __init__(self) -> None:
        self.uploads_under_way: dict[str, str] = {}
        self.refusals: list[LakesweepError] = []
        self.loses_answers = False
        self.backend: MemoryBackend | None = None

    def of(self, backend: MemoryBackend) -> SigningMemory:
        self.backend = backend
        return self

    @property
    def uploads(self) -> SigningMemory:
        return self

    def sign(
        self, method: SignedMethod, key: str, life: timedelta, *, file_name: str = ""
    ) -> SignedUrl:
        return SignedUrl(f"https://store.test/{key}?{method}&{life}&{file_name}", EXPIRY)

    def create(self, key: str) -> str:
        upload_id = f"upload-{len(self.uploads_under_way)}"
        self.uploads_under_way[upload_id] = key
        return upload_id

    def sign_part(self, key: str, upload_id: str, number: int, life: timedelta) -> SignedUrl:
        return SignedUrl(f"https://store.test/{key}?part={number}&upload={upload_id}", EXPIRY)

    def complete(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]]) -> None:
        assert self.backend is not None
        if self.refusals:
            raise self.refusals.pop()
        if upload_id not in self.uploads_under_way:
            raise ObjectNotFoundError("no such upload")
        self.backend.put_stream(self.uploads_under_way.pop(upload_id), [b"12345"])
        if self.loses_answers:
            raise StorageError("the answer got lost", kind=TRANSIENT)

    def abort(self, key: str, upload_id: str) -> None:
        self.uploads_under_way.pop(upload_id, None)


@pytest.fixture
def signing(monkeypatch: pytest.MonkeyPatch) -> SigningMemory:
    """Stores in memory sign from now on."""
    memory = SigningMemory()
    monkeypatch.setattr(MemoryBackend, "signer", property(memory.of))
    return memory


@pytest.fixture
def repo(signing: SigningMemory) -> LakeRepo:
    return LakeRepo(presigned_store="s3").create()


@pytest.fixture
def api(signing: SigningMemory) -> Iterator[AsgiLake]:
    with AsgiLake(presigned_store="s3") as lake:
        lake.create()
        yield lake


def begin(repo: LakeRepo, path: str = "big") -> tuple[str, str]:
    """(upload id, relative address) of a new upload."""
    upload = repo.lake.presigned_multipart.create(repo.record, "main", path)
    return upload.upload_id, repo.relative(upload.physical_address)


def complete(repo: LakeRepo, upload: tuple[str, str], parts: Any = PART, **how: Any) -> Any:
    upload_id, address = upload
    full = f"{repo.namespace}/{address}"
    lake = how.pop("lake", repo.lake)
    path, branch = how.pop("path", "big"), how.pop("branch", "main")
    named = NamedUpload(upload_id, branch, path, full)
    return lake.presigned_multipart.complete(repo.record, named, parts, **how)


def abort(repo: LakeRepo, upload: tuple[str, str]) -> None:
    upload_id, address = upload
    named = NamedUpload(upload_id, "main", "big", f"{repo.namespace}/{address}")
    repo.lake.presigned_multipart.abort(repo.record, named)


def test_upload_is_reported_to_a_collector_until_its_entry_is_staged(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its beginning to its end a collection finds the address, pending or staged, at every moment between."""
    upload = begin(repo)
    assert repo.uncommitted() == [upload[1]]
    seen: list[list[str]] = []
    write = Staging.write

    def see_and_write(*args: Any, **how: Any) -> None:
        seen.append(repo.uncommitted())
        write(*args, **how)
        seen.append(repo.uncommitted())

    monkeypatch.setattr(Staging, "write", see_and_write)
    stats = complete(repo, upload, content_type="text/csv", metadata={"k": "v"})
    assert [set(addresses) for addresses in seen] == [{upload[1]}, {upload[1]}]
    assert repo.uncommitted() == [upload[1]]
    assert (stats.size_bytes, stats.content_type, stats.metadata) == (5, "text/csv", {"k": "v"})
    assert repo.read("big") == b"12345"
    assert not list(repo.lake.pending.all(repo.record))


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("dies_at", [1, 2, 3])
def test_server_that_dies_while_it_completes_loses_nothing(
    repo: LakeRepo, dies_at: int, is_written: bool
) -> None:
    """At each of its writes; the address stays live, and the same request to another server ends the upload."""
    upload = begin(repo)
    dying = DyingKeyValueStore(repo.kv, dies_at, is_written=is_written)
    with pytest.raises(ProcessDiedError):
        complete(repo, upload, lake=repo.server(dying))
    assert upload[1] in repo.uncommitted()
    if (dies_at, is_written) != (3, True):  # the record is gone, and the entry staged
        complete(repo, upload)
    assert repo.read("big") == b"12345"
    assert repo.uncommitted() == [upload[1]]


def test_lost_answer_of_the_store_is_made_up_for(repo: LakeRepo, signing: SigningMemory) -> None:
    """The store completed the upload and its answer got lost; a second try finds the object and stages it."""
    upload = begin(repo)
    signing.loses_answers = True
    with pytest.raises(StorageError):
        complete(repo, upload)
    assert repo.uncommitted() == [upload[1]]
    complete(repo, upload)
    assert repo.read("big") == b"12345"


def test_refused_parts_leave_the_upload_under_way(repo: LakeRepo, signing: SigningMemory) -> None:
    """The client is told, nothing is staged, and it may try again with the right ones."""
    upload = begin(repo)
    signing.refusals = [StorageError("InvalidPart")]
    with pytest.raises(InvalidRequestError) as refused:
        complete(repo, upload)
    assert refused.value.kind == "invalid-part"
    assert repo.paths() == []
    complete(repo, upload, parts=[(1, "another")])
    assert repo.paths() == ["big"]


def test_staging_that_fails_gives_the_claim_back(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try need not name the same parts; the object is there already."""

    def fail(*_args: Any, **_how: Any) -> None:
        raise RefStoreError("away")

    upload = begin(repo)
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "write", fail)
        with pytest.raises(RefStoreError):
            complete(repo, upload)
    complete(repo, upload, parts=[(1, "another")])
    assert repo.paths() == ["big"]


@pytest.mark.parametrize("wrong", [{"path": "other"}, {"branch": "dev"}, {"address": "data/x/y"}])
def test_upload_is_good_for_what_it_was_begun_for(repo: LakeRepo, wrong: dict[str, str]) -> None:
    """Another path, branch or address is refused, and the upload stays."""
    repo.lake.branches.create(repo.record, "dev", "main")
    upload_id, address = begin(repo)
    address = wrong.pop("address", address)
    with pytest.raises(InvalidRequestError):
        complete(repo, (upload_id, address), **wrong)
    assert len(list(repo.lake.pending.all(repo.record))) == 1


def test_upload_of_no_parts_and_unknown_uploads_are_refused(repo: LakeRepo) -> None:
    """Also an address that was issued for one upload: it is no multipart upload."""
    upload = begin(repo)
    with pytest.raises(InvalidRequestError, match="no parts"):
        complete(repo, upload, parts=[])
    issued = repo.relative(repo.lake.linking.issue(repo.record, "main", "big").physical_address)
    repo.store.write(issued, b"put there by its client")
    for unknown in ("nobody", issued):
        with pytest.raises(MissingError):
            complete(repo, (unknown, issued))


def test_two_requests_do_not_complete_one_upload(repo: LakeRepo) -> None:
    """While one is at it, another with other parts, and an abort, are told so."""
    upload = begin(repo)
    found = repo.lake.pending.find(repo.record, upload[0])
    assert found is not None
    repo.lake.pending.claim(repo.record, found, "other parts")
    with pytest.raises(ConflictError):
        complete(repo, upload)
    with pytest.raises(ConflictError):
        abort(repo, upload)
    repo.clock.advance(hours=2)
    abort(repo, upload)
    assert repo.uncommitted() == []


def test_completion_that_slept_past_its_claim_stages_nothing(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was suspended between claim and staging wakes up when a collection has taken the object."""
    upload = begin(repo)
    write = Staging.write

    def late_write(*args: Any, **how: Any) -> None:
        repo.clock.advance(days=2)
        assert repo.uncommitted() == []
        write(*args, **how)

    monkeypatch.setattr(Staging, "write", late_write)
    with pytest.raises(MissingError, match="nothing was staged"):
        complete(repo, upload)
    assert repo.paths() == []


def test_aborted_upload_ends_in_the_store_too(repo: LakeRepo, signing: SigningMemory) -> None:
    """And is unknown from then on."""
    upload = begin(repo)
    abort(repo, upload)
    assert signing.uploads_under_way == {}
    assert repo.uncommitted() == []
    with pytest.raises(MissingError):
        complete(repo, upload)


def test_expired_upload_is_ended_by_upkeep(repo: LakeRepo, signing: SigningMemory) -> None:
    """It can't be completed any more, and its parts leave the store."""
    upload = begin(repo)
    repo.clock.advance(hours=25)
    with pytest.raises(MissingError):
        complete(repo, upload)
    repo.lake.housekeeping.run()
    assert signing.uploads_under_way == {}
    assert not list(repo.lake.pending.all(repo.record))


def test_collection_retires_an_expired_upload_before_it_stops_counting(repo: LakeRepo) -> None:
    """The record keeps its upload id for the upkeep, and can't be claimed."""
    begin(repo)
    repo.clock.advance(hours=25)
    assert repo.uncommitted() == []
    [found] = repo.lake.pending.all(repo.record)
    assert found.upload.state == "ending"


def test_store_without_uploads_says_so() -> None:
    """As does a lake whose operator did not ask for presigned URLs."""
    for settings in ({}, {"presigned_store": "s3"}):
        repo = LakeRepo(**settings).create()
        with pytest.raises(UnsupportedOperationError):
            begin(repo)
        assert not list(repo.lake.pending.all(repo.record))


def test_reads_are_redirected_to_the_store(api: AsgiLake) -> None:
    """GET answers 302; stat and listing have the URL and its end in place of the address."""
    api.send("POST", "/repositories/repo/branches/main/objects?path=f/a b", content=b"hello")
    query = {"path": "f/a b", "presign": "true"}
    objects = "/repositories/repo/refs/main/objects"
    plain = api.send("GET", objects + "/stat", params={"path": "f/a b"}).json()
    key = plain["physical_address"].partition("/ns/")[2]
    url = f"https://store.test/{key}?GET&0:15:00&a b"
    got = api.send("GET", objects, params=query)
    assert (got.status_code, got.headers["location"]) == (302, url)
    etag = {"If-None-Match": '"5d41402abc4b2a76b9719d911017c592"'}
    assert api.send("GET", objects, params=query, headers=etag).status_code == 304
    missing = api.send("GET", objects, params={"path": "no", "presign": "true"})
    assert missing.status_code == 404
    signed = {"physical_address": url, "physical_address_expiry": int(EXPIRY.timestamp())}
    assert api.send("GET", objects + "/stat", params=query).json() == {**plain, **signed}
    del plain["metadata"]
    for delimiter in ("", "/"):
        listed = {"presign": "true", "prefix": "f/", "delimiter": delimiter}
        assert api.send("GET", objects + "/ls", params=listed).json()["results"] == [
            {**plain, **signed}
        ]
    folders = api.send("GET", objects + "/ls", params={"presign": "true", "delimiter": "/"}).json()
    assert folders["results"][0]["physical_address"] == ""


def test_metaranges_are_redirected_to_the_store(api: AsgiLake) -> None:
    """As lakeFS does."""
    api.send("POST", "/repositories/repo/branches/main/objects?path=a", content=b"hello")
    commit = api.send("POST", "/repositories/repo/branches/main/commits", json={"message": "m"})
    place = f"/repositories/repo/metadata/object/meta_range/{commit.json()['meta_range_id']}"
    got = api.send("GET", place, params={"presign": "true"})
    assert got.status_code == 302
    assert got.headers["location"].startswith("https://store.test/_lakefs/")


def test_prepared_list_comes_with_a_url_where_there_are_any(
    api: AsgiLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once and as a task; a store without URLs gives the list all the same."""
    rules = {"default_retention_days": 7, "branches": []}
    api.send("PUT", "/repositories/repo/settings/gc_rules", json=rules).raise_for_status()
    prepare = "/repositories/repo/gc/prepare_commits"
    done = api.send("POST", prepare).json()
    key = done["gc_commits_location"].partition("/ns/")[2]
    assert done["gc_commits_presigned_url"] == f"https://store.test/{key}?GET&0:15:00&"
    task = api.send("POST", prepare + "/async").json()["id"]
    api.lake.tasks.close()
    status = api.send("GET", prepare + "/status", params={"id": task}).json()
    assert "/commits.csv?GET" in status["result"]["gc_commits_presigned_url"]
    monkeypatch.setattr(MemoryBackend, "signer", None)
    without = api.send("POST", prepare)
    assert without.status_code == 201
    assert "gc_commits_presigned_url" not in without.json()


def test_issued_address_comes_with_a_url_to_put_to(api: AsgiLake) -> None:
    """The URL's key is the whole address, token and all."""
    place = "/repositories/repo/branches/main/staging/backing"
    issued = api.send("GET", place, params={"path": "a", "presign": "true"}).json()
    key = issued["physical_address"].partition("/ns/")[2]
    assert issued["presigned_url"] == f"https://store.test/{key}?PUT&0:15:00&"
    assert issued["presigned_url_expiry"] == int(EXPIRY.timestamp())
    assert api.send("GET", place, params={"path": "a"}).json()["presigned_url"] is None


def test_uploads_over_the_api(api: AsgiLake) -> None:
    """Begun with two URLs, one more asked for, completed; another one aborted."""
    place = "/repositories/repo/branches/main/staging/pmpu"
    begun = api.send("POST", place, params={"path": "big", "parts": 2})
    assert begun.status_code == 201
    upload = begun.json()
    assert [url.partition("?")[2] for url in upload["presigned_urls"]] == [
        "part=1&upload=upload-0",
        "part=2&upload=upload-0",
    ]
    query, address = {"path": "big"}, {"physical_address": upload["physical_address"]}
    part = api.send("PUT", f"{place}/upload-0/parts/3", params=query, json=address)
    assert part.json()["presigned_url"].endswith("?part=3&upload=upload-0")
    for number in (0, 10_001):
        wrong = api.send("PUT", f"{place}/upload-0/parts/{number}", params=query, json=address)
        assert wrong.status_code == 400
    body = {**address, "parts": [{"part_number": 1, "etag": "e"}], "user_metadata": {"k": "v"}}
    done = api.send("PUT", f"{place}/upload-0", params=query, json=body)
    assert done.status_code == 200
    seen = api.send("GET", "/repositories/repo/refs/main/objects/stat", params=query).json()
    assert done.json() == seen
    assert api.send("PUT", f"{place}/upload-0", params=query, json=body).status_code == 404
    other = api.send("POST", place, params={"path": "b"}).json()
    assert "presigned_urls" not in other
    gone = {"params": {"path": "b"}, "json": {"physical_address": other["physical_address"]}}
    assert api.send("DELETE", f"{place}/{other['upload_id']}", **gone).status_code == 204
    assert api.send("POST", place, params={"path": "b", "parts": 10_001}).status_code == 400


def test_configuration_says_what_can_be_signed() -> None:
    """Multipart uploads on S3 alone, as in lakeFS; nothing unless the operator asks for it."""
    for kind, expected in {
        "": ("local", False, False),
        "s3": ("s3", True, True),
        "azure": ("azure", True, False),
        "gs": ("gs", True, False),
    }.items():
        with AsgiLake(presigned_store=kind) as lake:
            for path in ("/config", "/config/storage"):
                told = lake.send("GET", path).json()
                told = told.get("storage_config", told)
                signs = (told["pre_sign_support"], told["pre_sign_multipart_upload"])
                assert (told["blockstore_type"], *signs) == expected
                assert told["pre_sign_support_ui"] is False


def test_lake_that_was_not_asked_to_signs_nothing(signing: SigningMemory) -> None:
    """Though its store could: URLs carry the server's rights, which its operator gives away or not."""
    with AsgiLake() as lake:
        lake.create()
        lake.send("POST", "/repositories/repo/branches/main/objects?path=a", content=b"hello")
        query = {"path": "a", "presign": "true"}
        for path in ("refs/main/objects", "refs/main/objects/stat", "refs/main/objects/ls"):
            assert lake.send("GET", f"/repositories/repo/{path}", params=query).status_code == 400
        place = "/repositories/repo/branches/main/staging"
        assert lake.send("GET", place + "/backing", params=query).status_code == 400
        assert lake.send("POST", place + "/pmpu", params=query).status_code == 501
        assert not list(lake.lake.pending.all(lake.lake.repositories.get("repo")))


def test_entry_outside_is_signed_only_where_it_may_be_read(signing: SigningMemory) -> None:
    """The operator's list of places to import from holds for URLs, too."""
    repo = LakeRepo(presigned_store="s3").create()
    narrow = LakeRepo(kv=repo.kv, presigned_store="s3", allow_imports=("mem://elsewhere",))
    staged = {
        name: repo.lake.linking.stage_outside(
            repo.record, "main", name, uri, checksum="c", size_bytes=1
        )
        for name, uri in {"near": "mem://elsewhere/a", "far": "mem://far/a"}.items()
    }
    for name, stats in staged.items():
        url = repo.lake.signed_urls.sign_read(repo.record, stats).url
        assert url == f"https://store.test/a?GET&0:15:00&{name}"
    narrow.lake.signed_urls.sign_read(repo.record, staged["near"])
    with pytest.raises(ForbiddenError):
        narrow.lake.signed_urls.sign_read(repo.record, staged["far"])
