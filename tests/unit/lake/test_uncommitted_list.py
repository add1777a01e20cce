"""Prepare uncommitted: nothing that is live may be missing, whatever goes on meanwhile."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from lakesweep.errors import FormatError
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.tables import UNCOMMITTED_SCHEMA, read_uncommitted
from lakesweep.lake.collection import staged_scan
from lakesweep.lake.errors import InvalidRequestError
from lakesweep.lake.staging.staged_values import encode_staged
from lakesweep_testing.few_of_many import few_of
from lakesweep_testing.lakes import LakeRepo


@pytest.fixture
def repo() -> LakeRepo:
    return LakeRepo().create()


@pytest.fixture
def paged(monkeypatch: pytest.MonkeyPatch) -> LakeRepo:
    """A repository whose lists have one entry to a page."""
    monkeypatch.setattr("lakesweep.lake.collection.uncommitted_list._SCAN_ROWS", 1)
    return LakeRepo(prepare_max_file_bytes=0).create()


def test_empty_repository_has_an_empty_list(repo: LakeRepo) -> None:
    """Nothing staged: no file, no location, a total of none."""
    page = repo.lake.uncommitted_list.prepare(repo.record)
    assert (page.location, page.rows_written, page.total_rows) == ("", 0, 0)
    assert page.continuation_token is None


def test_everything_staged_on_every_branch_is_listed(repo: LakeRepo) -> None:
    """Current and sealed tokens, hidden branches; not tombstones, not what lies outside."""
    expected = [repo.put("a"), repo.put("b")]
    repo.lake.refs.create_branch(repo.record, "dev", "main", is_hidden=True)
    expected.append(repo.put("c", branch="dev"))
    repo.lake.committing._staging.seal(repo.record, "dev")
    expected.append(repo.put("d", branch="dev"))
    repo.lake.linking.stage_outside(
        repo.record, "main", "out", "s3://elsewhere/x", checksum="c", size_bytes=1
    )
    repo.lake.objects.delete(repo.record, "main", "b")
    expected.pop(1)
    assert sorted(repo.uncommitted()) == sorted(expected)


def test_long_tokens_are_listed_to_their_end(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is read in batches, from its beginning, however far the one before it went."""
    monkeypatch.setattr("lakesweep.lake.collection.uncommitted_list._SCAN_ROWS", 2)
    expected = {repo.put(f"{number}") for number in range(5)}
    repo.lake.committing._staging.seal(repo.record, "main")
    expected |= {repo.put(f"{number}") for number in range(3)}
    assert set(repo.uncommitted()) == expected


def test_tracked_copies_are_listed_to_their_end(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though nothing else has their addresses by then."""
    monkeypatch.setattr("lakesweep.lake.collection.uncommitted_list._SCAN_ROWS", 2)
    expected = {repo.put(f"{number}") for number in range(5)}
    for number in range(5):
        repo.lake.copying.copy(repo.record, "main", f"copy-{number}", f"{number}")
    repo.lake.objects.delete_many(repo.record, "main", repo.paths())
    assert set(repo.uncommitted()) == expected


def test_an_address_far_behind_in_a_token_is_found(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is staged there refers to its object, whatever stands before it."""
    monkeypatch.setattr(staged_scan, "_SCAN_ROWS", 2)
    addresses = [repo.put(f"{number}") for number in range(5)]
    token = repo.lake.branches.head(repo.record, "main").staging_token
    found = staged_scan.staged_among(
        repo.lake.uncommitted_list._context, repo.record, token, addresses
    )
    assert found == set(addresses)


def test_file_is_as_the_real_server_writes_it(repo: LakeRepo) -> None:
    """Gzip Parquet of address and seconds under the run's folder, whose location the page tells."""
    address = repo.put("a")
    page = repo.lake.uncommitted_list.prepare(repo.record)
    folder = f"_lakefs/retention/gc/uncommitted/{page.run_id}/uncommitted/"
    assert page.location == f"{repo.namespace}/{folder}"
    (key,) = [key for batch in repo.store.list(folder) for key in batch["key"].to_pylist()]
    table = read_uncommitted(repo.store.read(key))
    assert table.schema.equals(UNCOMMITTED_SCHEMA)
    assert table.to_pylist() == [
        {"physical_address": address, "creation_date": int(repo.clock.now.timestamp())}
    ]


def test_identical_reupload_over_a_committed_path_is_listed(repo: LakeRepo) -> None:
    """The staged entry is what readers get, though a commit would keep the old one."""
    old = repo.put("a", b"same")
    repo.commit()
    new = repo.put("a", b"same")
    assert new != old
    assert repo.uncommitted() == [new]
    assert repo.address("a") == new


def test_pages_tell_their_rows_and_the_last_the_total(paged: LakeRepo) -> None:
    """Each page one file; a page without rows still tells the run's location."""
    for n in range(3):
        paged.put(f"{n}")
    pages = [paged.lake.uncommitted_list.prepare(paged.lake.writable(paged.id))]
    while pages[-1].continuation_token is not None:
        pages.append(
            paged.lake.uncommitted_list.prepare(
                paged.lake.writable(paged.id), pages[-1].continuation_token
            )
        )
    assert [page.rows_written for page in pages] == [1, 1, 1, 0]
    assert [page.total_rows for page in pages] == [None, None, None, 3]
    assert len({page.location for page in pages}) == len({page.run_id for page in pages}) == 1
    assert pages[-1].location


def test_page_ends_with_its_time(repo: LakeRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow store makes more pages, each with some progress."""
    monkeypatch.setattr("lakesweep.lake.collection.uncommitted_list._SCAN_ROWS", 2)
    addresses = [repo.put(f"{n}") for n in range(5)]
    page_of = repo.kv.page

    def slow_page(*arguments: object, **how: object) -> object:
        repo.clock.advance(minutes=2)
        return page_of(*arguments, **how)

    monkeypatch.setattr(repo.kv, "page", slow_page)
    assert repo.uncommitted() == addresses


@pytest.mark.parametrize(
    "token",
    [
        "nonsense",
        base64.b64encode(b"[]").decode(),
        base64.b64encode(b"[" * 3000).decode(),
        base64.b64encode(json.dumps({"run_id": "../../x"}).encode()).decode(),
        base64.b64encode(
            json.dumps(
                {
                    "run_id": "../../../data/x/yyyyyyyy",
                    "branch": "b",
                    "token": "t",
                    "key": "",
                    "rows": 0,
                }
            ).encode()
        ).decode(),
        base64.b64encode(
            json.dumps(
                {
                    "run_id": "g3skk00f3g12lqg123jg",
                    "branch": "b",
                    "token": "t",
                    "key": "",
                    "rows": -1,
                }
            ).encode()
        ).decode(),
    ],
)
def test_foreign_continuation_token_is_refused(repo: LakeRepo, token: str) -> None:
    """A token becomes part of a key, so it is believed only when it has our shape."""
    with pytest.raises(InvalidRequestError):
        repo.lake.uncommitted_list.prepare(repo.record, token)


@pytest.mark.parametrize("kind", [AddressType.FULL, AddressType.BY_PREFIX_DEPRECATED])
def test_full_address_in_the_namespace_counts(repo: LakeRepo, kind: AddressType) -> None:
    """No call stages one, yet if one is there it is listed by its relative address; those elsewhere are not."""
    token = repo.lake.branches.head(repo.record, "main").staging_token
    addresses = (f"{repo.namespace}/data/s/inside", "s3://elsewhere/x", "unheard://of/x")
    for number, address in enumerate(addresses):
        entry = Entry(address, repo.clock.now, 1, "e", address_type=kind)
        repo.kv.set(token, b"%d" % number, encode_staged(entry))
    assert repo.uncommitted() == ["data/s/inside"]


def test_damaged_entry_ends_the_run(repo: LakeRepo) -> None:
    """Doubt keeps: no list is better than one with a hole."""
    repo.put("a")
    repo.kv.set(repo.lake.branches.head(repo.record, "main").staging_token, b"b", b"\x40damaged")
    with pytest.raises(FormatError):
        repo.lake.uncommitted_list.prepare(repo.record)


MEANWHILE: dict[str, Callable[[LakeRepo], object]] = {
    "commit": lambda r: r.commit(),
    "seal": lambda r: r.lake.committing._staging.seal(r.record, "main"),
    "commit and housekeeping": lambda r: (r.commit(), r.lake.housekeeping.run()),
    "other branch deleted": lambda r: r.lake.branches.delete(r.record, "aaa"),
    "this branch deleted": lambda r: r.lake.branches.delete(r.record, "zzz"),
    "reset": lambda r: r.lake.resetting.reset(r.record, "main", "reset"),
    "prefix reset": lambda r: r.lake.resetting.reset(r.record, "main", "common_prefix", "b"),
    "branch made": lambda r: r.lake.refs.create_branch(r.record, "mmm", "main"),
    "delete": lambda r: r.lake.objects.delete(r.record, "main", "c"),
    "merge": lambda r: (
        r.commit("zzz"),
        r.commit(),
        r.lake.merging.merge(r.record, "zzz", "main", committer="me"),
    ),
    "link": lambda r: r.lake.linking.link(
        r.record,
        "main",
        "linked",
        r.pending.physical_address,
        checksum="c",
        size_bytes=4,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("call", MEANWHILE.values(), ids=MEANWHILE.keys())
@pytest.mark.parametrize("place", few_of(range(10), 3))
def test_change_between_any_two_pages_hides_nothing_live(
    paged: LakeRepo, call: Callable[[LakeRepo], object], place: int
) -> None:
    """What is visible on a branch afterwards is in the list, or in a commit read after the list."""
    for branch in ("aaa", "zzz"):
        paged.lake.refs.create_branch(paged.lake.writable(paged.id), branch, "main")
        for path in (f"{branch}1", f"{branch}2"):
            paged.put(path, path.encode(), branch)
    for path in ("a", "b1", "b2", "c"):
        paged.put(path, path.encode())
    paged.pending = paged.lake.linking.issue(paged.lake.writable(paged.id), "main", "linked")  # type: ignore[attr-defined]
    paged.store.write(paged.relative(paged.pending.physical_address), b"1234")  # type: ignore[attr-defined]
    places = iter(range(100))

    def meanwhile() -> None:
        if next(places) == place:
            call(paged)

    live = set(paged.uncommitted(meanwhile)) | paged.committed()
    for branch in paged.branches():
        assert {paged.address(path, branch) for path in paged.paths(branch)} <= live


def test_token_dropped_while_it_is_read_stays_readable(repo: LakeRepo) -> None:
    """Housekeeping removes dropped tokens only after their life; until then a reader in the middle goes on."""
    repo.put("a")
    token = repo.lake.branches.head(repo.record, "main").staging_token
    repo.commit()
    repo.clock.advance(minutes=59)
    repo.lake.housekeeping.run()
    assert len(repo.kv.page(token)) == 1
    repo.clock.advance(minutes=2)
    repo.lake.housekeeping.run()
    assert repo.kv.page(token) == []
    assert repo.kv.page("cleanup-tokens") == []


def test_token_noted_as_dropped_but_attached_is_kept(repo: LakeRepo) -> None:
    """A server that died between noting and letting go does no harm."""
    repo.put("a", b"x")
    token = repo.lake.branches.head(repo.record, "main").staging_token
    dropped = repo.lake.housekeeping._dropped_tokens
    dropped.note(repo.record, "main", [token], repo.clock.now)
    repo.clock.advance(hours=2)
    repo.lake.housekeeping.run()
    assert repo.read("a") == b"x"
