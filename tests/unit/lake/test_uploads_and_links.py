"""Uploads: slices, issued addresses and their tokens, multipart uploads, and what protects them while they last."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import md5

import pytest

from lakesweep.domain.addresses import is_candidate
from lakesweep.errors import ObjectNotFoundError
from lakesweep.formats.xid import descending_xid_time, is_xid
from lakesweep.lake.errors import (
    ConflictError,
    GoneError,
    InvalidAddressError,
    InvalidRequestError,
    LakeError,
    MissingError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
    RefStoreError,
    TooManyTriesError,
)
from lakesweep.lake.staging.staging_area import Staging
from lakesweep.lake.values import ByteRange, StagingLocation, UploadedPart
from lakesweep_testing.lakes import LakeRepo


@pytest.fixture
def repo() -> LakeRepo:
    return LakeRepo(slice_max_size=3).create()


def _issue(repo: LakeRepo, path: str = "p", content: bytes | None = b"12345") -> StagingLocation:
    at = repo.lake.linking.issue(repo.record, "main", path)
    if content is not None:
        repo.store.write(repo.relative(at.physical_address), content)
    return at


def _link(repo: LakeRepo, address: str, path: str = "p", size: int = 5, **how: object) -> str:
    branch = str(how.pop("branch", "main"))
    stats = repo.lake.linking.link(
        repo.record, branch, path, address, checksum='"c"', size_bytes=size, **how
    )
    return repo.relative(stats.physical_address)


def _slice(address: str) -> str:
    return address.split("/")[1]


class TestSlices:
    def test_objects_lie_in_slices_that_a_collector_knows(self, repo: LakeRepo) -> None:
        """An address is `data/<slice>/<object>`, and the slice tells when it began."""
        address = repo.put("a")
        assert is_candidate(address)
        assert is_xid(_slice(address))
        assert descending_xid_time(_slice(address)) == repo.clock.now

    def test_slice_is_full_after_its_size(self, repo: LakeRepo) -> None:
        """The fourth object of a slice of three begins a new one."""
        slices = [_slice(repo.put(f"{n}")) for n in range(4)]
        assert slices[0] == slices[1] == slices[2] != slices[3]

    def test_new_slice_every_hour_sorts_before_the_old(self, repo: LakeRepo) -> None:
        """Newest first, so that a listing meets young slices at once."""
        first = _slice(repo.put("a"))
        repo.clock.advance(minutes=59)
        assert _slice(repo.put("b")) == first
        repo.clock.advance(minutes=1)
        assert _slice(repo.put("c")) < first

    def test_two_servers_never_share_a_slice(self, repo: LakeRepo) -> None:
        """Each process writes slices of its own, whatever the ref store."""
        other = repo.server()
        stats = other.objects.upload(repo.record, "main", "b", [b""])
        assert _slice(repo.put("a")) != _slice(repo.relative(stats.physical_address))

    def test_many_threads_stay_within_the_size(self) -> None:
        """Counting holds under threads."""
        repo = LakeRepo(slice_max_size=7).create()
        with ThreadPoolExecutor(8) as pool:
            addresses = list(pool.map(lambda n: repo.put(f"{n}"), range(50)))
        counts = [sum(_slice(a) == s for a in addresses) for s in {_slice(a) for a in addresses}]
        assert max(counts) <= 7
        assert len(set(addresses)) == 50


class TestUpload:
    def test_checksum_is_the_md5_of_the_content(self, repo: LakeRepo) -> None:
        """Also when the body comes in chunks."""
        stats = repo.lake.objects.upload(
            repo.record,
            "main",
            "a",
            iter([b"he", b"llo"]),
            content_type="text/plain",
            metadata={"k": "v"},
        )
        assert stats.checksum == md5(b"hello", usedforsecurity=False).hexdigest()
        assert (stats.size_bytes, stats.content_type, stats.metadata) == (
            5,
            "text/plain",
            {"k": "v"},
        )
        assert repo.lake.objects.stat(repo.record, "main", "a") == stats

    @pytest.mark.parametrize("path", ["", "x" * 1025, "\ud800"])
    def test_impossible_paths_are_refused(self, repo: LakeRepo, path: str) -> None:
        """Nothing is stored for a path that can't be."""
        with pytest.raises(InvalidRequestError):
            repo.put(path)
        assert repo.uncommitted() == []

    def test_absent_branch_takes_no_upload(self, repo: LakeRepo) -> None:
        """The branch is looked up before a byte is stored."""
        with pytest.raises(MissingError):
            repo.put("a", branch="no")
        assert not list(repo.store.list("data/"))

    def test_long_upload_is_protected_from_its_first_byte(self, repo: LakeRepo) -> None:
        """Its store may date it to its beginning, so it counts as pending until its entry is staged."""
        seen: list[list[str]] = []

        def body() -> Iterator[bytes]:
            yield b"x" * (9 << 20)
            seen.append(repo.uncommitted())
            yield b"end"

        stats = repo.lake.objects.upload(repo.record, "main", "big", body())
        address = repo.relative(stats.physical_address)
        assert seen == [[address]]
        assert repo.uncommitted() == [address]
        assert stats.size_bytes == (9 << 20) + 3

    def test_upload_longer_than_a_token_stays_protected(self, repo: LakeRepo) -> None:
        """The record of a stream is kept alive while bytes come."""
        seen: list[int] = []

        def body() -> Iterator[bytes]:
            yield b"x" * (9 << 20)
            for _ in range(4):
                repo.clock.advance(hours=13)
                repo.lake.housekeeping.run()
                seen.append(len(repo.uncommitted()))
                yield b"more"

        repo.lake.objects.upload(repo.record, "main", "big", body())
        assert seen == [1, 1, 1, 1]

    def test_failed_upload_stages_nothing(self, repo: LakeRepo) -> None:
        """A body that breaks off leaves no entry."""

        def body() -> Iterator[bytes]:
            yield b"x" * (9 << 20)
            raise ConnectionError

        with pytest.raises(ConnectionError):
            repo.lake.objects.upload(repo.record, "main", "big", body())
        assert repo.paths() == []

    def test_of_racing_creators_one_wins(self, repo: LakeRepo) -> None:
        """`If-None-Match: *` from many at once lets exactly one through."""
        barrier = threading.Barrier(6)

        def create(n: int) -> str:
            barrier.wait()
            try:
                return repo.put("one", b"%d" % n, if_absent=True)
            except PreconditionFailedError:
                return ""

        with ThreadPoolExecutor(6) as pool:
            won = [address for address in pool.map(create, range(6)) if address]
        assert won == [repo.address("one")]

    def test_absent_means_absent_from_the_branch(self, repo: LakeRepo) -> None:
        """A committed path exists; one whose deletion is staged does not."""
        repo.put("a", b"1")
        repo.commit()
        with pytest.raises(PreconditionFailedError):
            repo.put("a", b"2", if_absent=True)
        repo.lake.objects.delete(repo.record, "main", "a")
        repo.put("a", b"2", if_absent=True)
        assert repo.read("a") == b"2"


class TestRead:
    @pytest.mark.parametrize(
        ("asked", "expected"),
        [
            (ByteRange(0, 0), b"0"),
            (ByteRange(3), b"3456789"),
            (ByteRange(8, 99), b"89"),
            (ByteRange(suffix=3), b"789"),
            (ByteRange(suffix=99), b"0123456789"),
        ],
    )
    def test_ranges(self, repo: LakeRepo, asked: ByteRange, expected: bytes) -> None:
        """The bytes that HTTP's rules mean."""
        repo.put("a", b"0123456789")
        content = repo.lake.objects.open(repo.record, "main", "a", asked)
        assert b"".join(content.chunks) == expected
        assert (content.length, content.is_partial) == (len(expected), True)

    @pytest.mark.parametrize("asked", [ByteRange(10), ByteRange(suffix=0), ByteRange(5, 4)])
    def test_bytes_that_are_not_there(self, repo: LakeRepo, asked: ByteRange) -> None:
        """Unsatisfiable ranges say how long the object is."""
        repo.put("a", b"0123456789")
        with pytest.raises(RangeNotSatisfiableError) as refused:
            repo.lake.objects.open(repo.record, "main", "a", asked)
        assert refused.value.size_bytes == 10

    @pytest.mark.parametrize("content", [b"", b"data"])
    def test_deleted_bytes_are_gone_and_commits_stay(self, repo: LakeRepo, content: bytes) -> None:
        """Reading says gone, before any chunk; stat and list still answer; so for empty objects."""
        repo.put("a", content)
        commit = repo.commit()
        repo.store.delete_many([repo.address("a")])
        with pytest.raises(GoneError):
            repo.lake.objects.open(repo.record, "main", "a")
        assert repo.lake.objects.stat(repo.record, commit, "a").size_bytes == len(content)
        assert repo.paths(commit) == ["a"]
        with pytest.raises(GoneError):
            repo.lake.copying.copy(repo.record, "main", "b", "a")


class TestLink:
    def test_linked_object_is_read(self, repo: LakeRepo) -> None:
        """The token is part of the key, and the checksum loses its quotes."""
        at = _issue(repo)
        assert at.physical_address.endswith("," + at.token)
        assert is_candidate(repo.relative(at.physical_address))
        _link(repo, at.physical_address)
        assert repo.read("p") == b"12345"
        assert repo.lake.objects.stat(repo.record, "main", "p").checksum == "c"

    def test_token_is_good_once(self, repo: LakeRepo) -> None:
        """A second link is refused, also after the first entry is gone."""
        at = _issue(repo)
        _link(repo, at.physical_address)
        repo.lake.objects.delete(repo.record, "main", "p", no_tombstone=True)
        with pytest.raises(InvalidAddressError):
            _link(repo, at.physical_address)

    def test_of_racing_links_one_wins(self, repo: LakeRepo) -> None:
        """Two servers, one token: exactly one of them stages it."""
        for number in range(5):
            at = _issue(repo, f"p{number}")
            servers = [repo.server() for _ in range(6)]
            barrier = threading.Barrier(6)

            def link(n: int, at=at, number=number, barrier=barrier, servers=servers) -> bool:
                barrier.wait()
                try:
                    servers[n].linking.link(
                        repo.record,
                        "main",
                        f"p{number}",
                        at.physical_address,
                        checksum=f"{n}",
                        size_bytes=5,
                    )
                except InvalidAddressError:
                    return False
                return True

            with ThreadPoolExecutor(6) as pool:
                won = list(pool.map(link, range(6)))
            assert sum(won) == 1
            checksum = repo.lake.objects.stat(repo.record, "main", f"p{number}").checksum
            assert checksum == f"{won.index(True)}"

    def test_wrong_uses_are_refused(self, repo: LakeRepo) -> None:
        """Another path, branch, repository, token, size; never uploaded; outside; not an address."""
        at = _issue(repo)
        good = at.physical_address
        repo.lake.refs.create_branch(repo.record, "dev", "main")
        other = LakeRepo(kv=repo.kv, repository_id="other", clock=repo.clock).create()
        relative = repo.relative(good)
        other.store.write(relative, b"12345")
        refused = [
            lambda: _link(repo, good, path="other"),
            lambda: _link(repo, good, branch="dev"),
            lambda: _link(other, f"{other.namespace}/{relative}"),
            lambda: _link(other, good),
            lambda: _link(repo, good, size=6),
            lambda: _link(repo, good.partition(",")[0]),
            lambda: _link(repo, good[:-1] + ("A" if good[-1] != "A" else "B")),
            lambda: _link(repo, _issue(repo, content=None).physical_address),
            lambda: _link(repo, "mem://elsewhere/data/x"),
            lambda: _link(repo, f"{repo.namespace}/data/../{relative}"),
            lambda: _link(repo, "nonsense"),
        ]
        for attempt in refused:
            with pytest.raises(InvalidAddressError):
                attempt()
        with pytest.raises(MissingError):
            _link(repo, good, branch="nowhere")
        assert repo.paths() == []
        _link(repo, good)

    def test_precondition_gives_the_token_back(self, repo: LakeRepo) -> None:
        """A link refused for the path's sake may be tried again."""
        at = _issue(repo)
        repo.put("p", b"there")
        with pytest.raises(PreconditionFailedError):
            _link(repo, at.physical_address, if_absent=True)
        _link(repo, at.physical_address)
        assert repo.read("p") == b"12345"

    def test_expired_token_is_refused_and_stops_protecting(self, repo: LakeRepo) -> None:
        """Until the token's life ends its address counts as live; from then on it can't be linked, and is garbage."""
        at = _issue(repo)
        address = repo.relative(at.physical_address)
        repo.clock.now = at.expires_at - timedelta(seconds=1)
        repo.lake.housekeeping.run()
        assert repo.uncommitted() == [address]
        repo.clock.now = at.expires_at
        with pytest.raises(InvalidAddressError):
            _link(repo, at.physical_address)
        assert repo.uncommitted() == []

    def test_link_overtaken_by_expiry_is_refused(self, repo: LakeRepo) -> None:
        """A link that looked in time and claims too late finds that the list has taken the record away."""
        at = _issue(repo)
        pending = repo.lake.linking._pending
        claim = pending.claim

        def late_claim(*claimed: object) -> object:
            repo.clock.now = at.expires_at
            assert repo.uncommitted() == []
            return claim(*claimed)

        pending.claim = late_claim  # type: ignore[method-assign]
        with pytest.raises(InvalidAddressError):
            _link(repo, at.physical_address)
        assert repo.paths() == []

    def test_link_at_work_is_protected_past_expiry(self, repo: LakeRepo) -> None:
        """Claimed in time and staged too late: the claim protects the address meanwhile."""
        at = _issue(repo)
        staging = repo.lake.linking._staging
        write = staging.write
        seen: list[list[str]] = []

        def late_write(*row: object, **how: object) -> None:
            repo.clock.advance(minutes=30)
            repo.lake.housekeeping.run()
            seen.append(repo.uncommitted())
            write(*row, **how)

        repo.clock.now = at.expires_at - timedelta(minutes=1)
        staging.write = late_write  # type: ignore[method-assign]
        address = _link(repo, at.physical_address)
        assert seen == [[address]]
        assert repo.uncommitted() == [address]

    @pytest.mark.parametrize("if_absent", [False, True])
    def test_link_that_slept_past_its_claim_stages_nothing(
        self, repo: LakeRepo, monkeypatch: pytest.MonkeyPatch, if_absent: bool
    ) -> None:
        """A server that was suspended between claim and staging wakes up when a collection has taken the object."""
        at = _issue(repo)
        _sleep_before_staging(repo, monkeypatch)
        with pytest.raises(InvalidAddressError, match=r"time was over.*Nothing was staged"):
            _link(repo, at.physical_address, if_absent=if_absent)
        assert repo.paths() == []

    def test_link_that_slept_past_its_claim_leaves_what_was_staged(
        self, repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What the link would have written over is still there."""
        repo.put("p", b"before")
        at = _issue(repo)
        _sleep_before_staging(repo, monkeypatch)
        with pytest.raises(InvalidAddressError):
            _link(repo, at.physical_address)
        assert repo.read("p") == b"before"


def _sleep_before_staging(repo: LakeRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the claim of an upload and its entry two days go by, and a collection asks what is live."""
    write = Staging.write

    def late_write(*row: object, **how: object) -> None:
        repo.clock.advance(days=2)
        repo.uncommitted()
        write(*row, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Staging, "write", late_write)


class TestMultipart:
    def test_completion_that_slept_past_its_claim_stages_nothing(
        self, repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its parts are gone by then, and its object may be."""
        upload = repo.lake.multipart.create(repo.record, "main", "m")
        part = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 1, [b"1"])
        _sleep_before_staging(repo, monkeypatch)
        with pytest.raises(MissingError, match="nothing was staged"):
            repo.lake.multipart.complete(repo.record, upload.upload_id, [part])
        assert repo.paths() == []

    def test_parts_become_one_object(self, repo: LakeRepo) -> None:
        """Joined in order; the etag is S3's, the checksum its part before the dash."""
        upload = repo.lake.multipart.create(
            repo.record, "main", "m", content_type="text/x", metadata={"k": "v"}
        )
        parts = [
            repo.lake.multipart.upload_part(
                repo.record, upload.upload_id, number, [b"%d" % number, b"!"]
            )
            for number in (3, 1, 2)
        ]
        listed = repo.lake.multipart.list_parts(repo.record, upload.upload_id)
        assert [part.part_number for part in listed] == [1, 2, 3]
        done = repo.lake.multipart.complete(
            repo.record, upload.upload_id, sorted(parts, key=lambda part: part.part_number)
        )
        assert repo.read("m") == b"1!2!3!"
        digests = b"".join(md5(b"%d!" % n, usedforsecurity=False).digest() for n in (1, 2, 3))
        assert done.etag == md5(digests, usedforsecurity=False).hexdigest() + "-3"
        assert done.stats.checksum + "-3" == done.etag
        assert (done.stats.content_type, done.stats.metadata) == ("text/x", {"k": "v"})
        assert not list(repo.store.list("_lakefs/multipart/"))
        with pytest.raises(MissingError):
            repo.lake.multipart.get(repo.record, upload.upload_id)

    def test_upload_under_way_is_protected_while_parts_come(self, repo: LakeRepo) -> None:
        """Its address counts as live from the beginning, for a token's life after the last part."""
        upload = repo.lake.multipart.create(repo.record, "main", "m")
        address = repo.relative(upload.physical_address)
        for number in range(1, 4):
            assert repo.uncommitted() == [address]
            repo.clock.advance(hours=20)
            repo.lake.housekeeping.run()
            repo.lake.multipart.upload_part(repo.record, upload.upload_id, number, [b"x"])
        repo.clock.advance(hours=24)
        assert repo.uncommitted() == []
        repo.lake.housekeeping.run()
        assert not list(repo.store.list("_lakefs/multipart/"))
        with pytest.raises(MissingError):
            repo.lake.multipart.upload_part(repo.record, upload.upload_id, 4, [b"x"])
        assert not list(repo.store.list("_lakefs/multipart/"))

    def test_wrong_parts_complete_nothing(self, repo: LakeRepo) -> None:
        """Unknown number, other etag, wrong order, none at all, number out of range."""
        upload = repo.lake.multipart.create(repo.record, "main", "m")
        one = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 1, [b"1"])
        two = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 2, [b"2"])
        for parts in (
            [],
            [two, one],
            [one, one],
            [UploadedPart(3, one.etag)],
            [UploadedPart(1, two.etag)],
        ):
            with pytest.raises(InvalidRequestError):
                repo.lake.multipart.complete(repo.record, upload.upload_id, parts)
        for number in (0, 10_001):
            with pytest.raises(InvalidRequestError):
                repo.lake.multipart.upload_part(repo.record, upload.upload_id, number, [b"x"])
        repo.lake.multipart.complete(repo.record, upload.upload_id, [two])
        assert repo.read("m") == b"2"

    def test_part_sent_again_replaces_the_first(self, repo: LakeRepo) -> None:
        """The last one sent is the one that counts."""
        upload = repo.lake.multipart.create(repo.record, "main", "m")
        old = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 1, [b"old"])
        new = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 1, [b"new"])
        with pytest.raises(InvalidRequestError):
            repo.lake.multipart.complete(repo.record, upload.upload_id, [old])
        repo.lake.multipart.complete(repo.record, upload.upload_id, [new])
        assert repo.read("m") == b"new"

    def test_aborted_upload_leaves_nothing(self, repo: LakeRepo) -> None:
        """Parts and record go; completing is refused."""
        upload = repo.lake.multipart.create(repo.record, "main", "m")
        part = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 1, [b"x"])
        repo.lake.multipart.abort(repo.record, upload.upload_id)
        assert repo.uncommitted() == []
        assert not list(repo.store.list("_lakefs/multipart/"))
        for call in (
            lambda: repo.lake.multipart.complete(repo.record, upload.upload_id, [part]),
            lambda: repo.lake.multipart.abort(repo.record, upload.upload_id),
            lambda: repo.lake.multipart.list_parts(repo.record, upload.upload_id),
        ):
            with pytest.raises(MissingError):
                call()

    def test_part_that_outlives_its_upload_leaves_nothing(self, repo: LakeRepo) -> None:
        """Aborted while a part's bytes still come: the part is refused, and removed."""
        upload = repo.lake.multipart.create(repo.record, "main", "m")

        def body() -> Iterator[bytes]:
            yield b"x"
            repo.lake.multipart.abort(repo.record, upload.upload_id)

        with pytest.raises(MissingError):
            repo.lake.multipart.upload_part(repo.record, upload.upload_id, 1, body())
        assert not list(repo.store.list("_lakefs/multipart/"))
        assert repo.kv.page(f"{repo.id}-{_uid(repo)}", prefix=b"parts/") == []

    def test_completion_onto_an_existing_path_can_be_refused(self, repo: LakeRepo) -> None:
        """`If-None-Match: *`, also when the path came to be while the parts were joined; the upload goes on."""
        upload = repo.lake.multipart.create(repo.record, "main", "m")
        part = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 1, [b"1"])
        staging = repo.lake.multipart._staging
        look = staging.assert_absent

        def look_then_lose(*arguments: object) -> None:
            look(*arguments)
            repo.put("m", b"first")

        staging.assert_absent = look_then_lose  # type: ignore[method-assign]
        with pytest.raises(PreconditionFailedError):
            repo.lake.multipart.complete(repo.record, upload.upload_id, [part], if_absent=True)
        assert repo.read("m") == b"first"
        repo.lake.multipart.complete(repo.record, upload.upload_id, [part])
        assert repo.read("m") == b"1"

    def test_completion_is_not_aborted_half_way(self, repo: LakeRepo) -> None:
        """While an upload is being completed it can be neither aborted nor completed with other parts."""
        upload = repo.lake.multipart.create(repo.record, "main", "m")
        one = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 1, [b"1"])
        two = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 2, [b"2"])
        staging = repo.lake.multipart._staging
        write = staging.write
        refusals: list[type[LakeError]] = []

        def busy_write(*row: object, **how: object) -> None:
            staging.write = write  # type: ignore[method-assign]
            for call in (
                lambda: repo.lake.multipart.abort(repo.record, upload.upload_id),
                lambda: repo.lake.multipart.complete(repo.record, upload.upload_id, [two]),
            ):
                with pytest.raises(ConflictError) as refused:
                    call()
                refusals.append(type(refused.value))
            write(*row, **how)

        staging.write = busy_write  # type: ignore[method-assign]
        repo.lake.multipart.complete(repo.record, upload.upload_id, [one, two])
        assert len(refusals) == 2
        assert repo.read("m") == b"12"

    @pytest.mark.parametrize("error", [RefStoreError, TooManyTriesError])
    def test_completion_that_may_have_staged_takes_no_other_parts(
        self, repo: LakeRepo, monkeypatch: pytest.MonkeyPatch, error: type[LakeError]
    ) -> None:
        """The entry is staged though its answer got lost, and committed: other parts would change what was committed."""
        upload = repo.lake.multipart.create(repo.record, "main", "m")
        one = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 1, [b"one"])
        two = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 2, [b"two"])
        staging = repo.lake.multipart._staging
        write = staging.write

        def write_and_lose_the_answer(*row: object, **how: object) -> None:
            write(*row, **how)
            raise error("whether it was staged is not known")

        with monkeypatch.context() as patched:
            patched.setattr(staging, "write", write_and_lose_the_answer)
            with pytest.raises(error):
                repo.lake.multipart.complete(repo.record, upload.upload_id, [one])
        committed = repo.commit()

        with pytest.raises(ConflictError):
            repo.lake.multipart.complete(repo.record, upload.upload_id, [two])
        assert repo.read("m", committed) == b"one"
        repo.lake.multipart.complete(repo.record, upload.upload_id, [one])
        assert repo.read("m", committed) == repo.read("m") == b"one"

    def test_uploads_are_listed_by_prefix(self, repo: LakeRepo) -> None:
        """Pages of the uploads under way."""
        uploads = [
            repo.lake.multipart.create(repo.record, "main", f"{p}/x").upload_id for p in "aab"
        ]
        page = repo.lake.multipart.page(repo.record, prefix="a/", amount=1)
        assert (page.results[0].upload_id, page.has_more) == (uploads[0], True)
        rest = repo.lake.multipart.page(repo.record, prefix="a/", after=page.next_offset)
        assert [upload.upload_id for upload in rest.results] == [uploads[1]]

    def test_parts_are_gone_from_the_store_at_the_end(self, repo: LakeRepo) -> None:
        """A part read after completion is an unknown object."""
        upload = repo.lake.multipart.create(repo.record, "main", "m")
        part = repo.lake.multipart.upload_part(repo.record, upload.upload_id, 1, [b"x"])
        keys = [
            key
            for batch in repo.store.list("_lakefs/multipart/")
            for key in batch["key"].to_pylist()
        ]
        repo.lake.multipart.complete(repo.record, upload.upload_id, [part])
        with pytest.raises(ObjectNotFoundError):
            repo.store.read(keys[0])


def _uid(repo: LakeRepo) -> str:
    return repo.record.instance_uid


def test_a_stream_that_broke_off_is_under_way_no_more(repo: LakeRepo) -> None:
    """A client that tries again and again would leave as many uploads, each counted as live for a day."""

    def broken() -> Iterator[bytes]:
        yield b"x" * (9 * 1024 * 1024)
        raise ConnectionError("the client went away")

    with pytest.raises(ConnectionError):
        repo.lake.objects.upload(repo.record, "main", "a", broken())
    assert list(repo.lake.pending.all(repo.record)) == []
    assert repo.paths() == []
