"""Copies, and renames that race a collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import pytest

from lakesweep.formats.tables import read_uncommitted
from lakesweep.lake.errors import MissingError, PreconditionFailedError
from lakesweep.lake.kv.interface import Change, Held
from lakesweep_testing.few_of_many import few_of
from lakesweep_testing.lakes import LakeRepo


@pytest.fixture
def repo() -> LakeRepo:
    return LakeRepo().create()


def _copy(repo: LakeRepo, dest: str, src: str, **how: object) -> str:
    branch = str(how.pop("branch", "main"))
    stats = repo.lake.copying.copy(repo.record, branch, dest, src, **how)
    return repo.relative(stats.physical_address)


def test_staged_object_copied_within_its_branch_shares_its_address(repo: LakeRepo) -> None:
    """Shallow, and tracked: the address is in the list once for each entry, and once for the copy."""
    address = repo.put("a", b"x", metadata={"k": "v"}, content_type="t")
    repo.clock.advance(seconds=5)
    stats = repo.lake.copying.copy(repo.record, "main", "b", "a")
    assert repo.relative(stats.physical_address) == address
    assert (stats.metadata, stats.content_type, stats.mtime) == ({"k": "v"}, "t", repo.clock.now)
    assert repo.uncommitted() == [address] * 3
    assert repo.read("b") == b"x"


def test_sealed_object_is_staged_still(repo: LakeRepo) -> None:
    """An entry of a commit under way is copied shallowly, too."""
    address = repo.put("a", b"x")
    staging = repo.lake.committing._staging
    staging.seal(repo.record, "main")
    assert _copy(repo, "b", "a") == address


@pytest.mark.parametrize("how", ["committed", "other branch", "commit", "other repository"])
def test_every_other_copy_gets_bytes_of_its_own(repo: LakeRepo, how: str) -> None:
    """Committed objects, other branches, commits, other repositories: a new address, the same content."""
    repo.put("a", b"x")
    repo.lake.refs.create_branch(repo.record, "dev", "main")
    arguments: dict[str, object] = {
        "committed": {},
        "other branch": {"branch": "dev", "src_ref": "main"},
        "commit": {"src_ref": "main@"},
        "other repository": {"src_ref": "main"},
    }[how]
    if how in ("committed", "commit"):
        repo.commit()
    if how == "other repository":
        other = LakeRepo(kv=repo.kv, repository_id="other").create()
        other.put("a", b"x")
        arguments["source_repository"] = other.record
    branch = str(arguments.get("branch", "main"))
    copied = _copy(repo, "b", "a", **arguments)
    assert copied != repo.address("a")
    assert repo.read("b", branch) == b"x"


def test_copy_may_replace_metadata(repo: LakeRepo) -> None:
    """As S3's REPLACE directive does; the bytes stay shared."""
    repo.put("a", b"x", metadata={"k": "v"}, content_type="t")
    stats = repo.lake.copying.copy(
        repo.record, "main", "b", "a", replace_metadata={"n": "w"}, replace_content_type="u"
    )
    assert (stats.metadata, stats.content_type) == ({"n": "w"}, "u")


def test_copy_of_nothing_or_onto_something(repo: LakeRepo) -> None:
    """An absent source is an error; an existing target is one when it has to be absent."""
    repo.put("a")
    repo.put("b")
    with pytest.raises(MissingError):
        _copy(repo, "c", "no")
    with pytest.raises(MissingError):
        _copy(repo, "c", "a", branch="no")
    with pytest.raises(PreconditionFailedError):
        _copy(repo, "b", "a", if_absent=True)
    assert _copy(repo, "a", "a") == repo.address("a")


def test_tracked_copies_are_forgotten_after_their_life(repo: LakeRepo) -> None:
    """Not before `copy_life`, and soon after."""
    address = repo.put("a")
    _copy(repo, "b", "a")
    repo.lake.resetting.reset(repo.record, "main", "reset")
    repo.clock.advance(days=13, hours=23)
    repo.lake.housekeeping.run()
    assert repo.uncommitted() == [address]
    repo.clock.advance(hours=1, seconds=5)
    repo.lake.housekeeping.run()
    assert repo.uncommitted() == []


def test_new_metadata_is_tracked_as_a_copy_is(repo: LakeRepo) -> None:
    """The entry is staged once more with the same address, which may have been committed."""
    address = repo.put("a", b"x")
    repo.commit()
    stats = repo.lake.copying.set_user_metadata(repo.record, "main", "a", {"k": "v"})
    assert repo.relative(stats.physical_address) == address
    assert stats.metadata == {"k": "v"}
    assert repo.uncommitted() == [address] * 2
    with pytest.raises(MissingError):
        repo.lake.copying.set_user_metadata(repo.record, "main", "no", {})


@pytest.mark.parametrize("is_committed", [False, True])
def test_metadata_takes_no_place_of_what_came_meanwhile(
    repo: LakeRepo, is_committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload that was answered is what gets the metadata, and a path that was deleted stays so."""
    repo.put("a", b"old")
    if is_committed:
        repo.commit()
    other = repo.server()
    written = {name: getattr(repo.kv, name) for name in ("write_over", "change_all")}

    def let_first(call: Callable[[], object]) -> None:
        def first(name: str) -> Callable[..., object]:
            def write(*how: object, **more: object) -> object:
                monkeypatch.undo()
                call()
                return written[name](*how, **more)

            return write

        for name in written:
            monkeypatch.setattr(repo.kv, name, first(name))

    let_first(lambda: other.objects.upload(repo.record, "main", "a", [b"new"]))
    stats = repo.lake.copying.set_user_metadata(repo.record, "main", "a", {"k": "v"})
    assert (repo.read("a"), stats.size_bytes, stats.metadata) == (b"new", 3, {"k": "v"})
    let_first(lambda: other.objects.delete(repo.record, "main", "a"))
    with pytest.raises(MissingError):
        repo.lake.copying.set_user_metadata(repo.record, "main", "a", {})
    assert repo.paths() == []


# A collection reads the staging area entry by entry; the page size of one makes every place between two entries a place
# where a user's call can come in between.


def _collection(repo: LakeRepo) -> Iterator[set[str]]:
    """A collection's reads, pausing after each; gives all it holds live in the end."""
    page = repo.lake.uncommitted_list.prepare(repo.record)
    while page.continuation_token is not None:
        yield set()
        page = repo.lake.uncommitted_list.prepare(repo.record, page.continuation_token)
    yield set()
    folder = f"_lakefs/retention/gc/uncommitted/{page.run_id}/uncommitted/"
    live = repo.committed()
    yield live | _addresses_in(repo, folder)


def _addresses_in(repo: LakeRepo, folder: str) -> set[str]:
    keys = [key for batch in repo.store.list(folder) for key in batch.column("key").to_pylist()]
    tables = [read_uncommitted(repo.store.read(key)) for key in keys]
    return {address for table in tables for address in table["physical_address"].to_pylist()}


def _tiny_pages(monkeypatch: pytest.MonkeyPatch) -> LakeRepo:
    monkeypatch.setattr("lakesweep.lake.collection.uncommitted_list._SCAN_ROWS", 1)
    return LakeRepo(prepare_max_file_bytes=0).create()


RENAMES: dict[str, list[Callable[[LakeRepo], object]]] = {
    "forwards": [
        lambda r: r.lake.copying.copy(r.record, "main", "z", "m"),
        lambda r: r.lake.objects.delete(r.record, "main", "m"),
    ],
    "backwards": [
        lambda r: r.lake.copying.copy(r.record, "main", "a", "m"),
        lambda r: r.lake.objects.delete(r.record, "main", "m"),
    ],
    "there and back": [
        lambda r: r.lake.copying.copy(r.record, "main", "a", "m"),
        lambda r: r.lake.objects.delete(r.record, "main", "m", no_tombstone=True),
        lambda r: r.lake.copying.copy(r.record, "main", "m", "a"),
        lambda r: r.lake.objects.delete(r.record, "main", "a"),
    ],
    "and committed": [
        lambda r: r.lake.copying.copy(r.record, "main", "a", "m"),
        lambda r: r.lake.objects.delete(r.record, "main", "m"),
        lambda r: r.commit(),
    ],
    "around a commit": [
        lambda r: r.lake.copying.copy(r.record, "main", "a", "m"),
        lambda r: r.commit(),
        lambda r: r.lake.objects.delete(r.record, "main", "m"),
    ],
    "over another": [
        lambda r: r.lake.copying.copy(r.record, "main", "b", "m"),
        lambda r: r.lake.objects.delete(r.record, "main", "m"),
    ],
    "by metadata": [
        lambda r: r.commit(),
        lambda r: r.lake.copying.set_user_metadata(r.record, "main", "m", {"k": "v"}),
        lambda r: r.commit(),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("calls", few_of(RENAMES.values(), 3), ids=RENAMES.keys())
def test_rename_racing_a_collection_loses_nothing(
    calls: list[Callable[[LakeRepo], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever call comes between whatever reads, the address that is live at the end is in the collection's live set."""
    every = list(_interleavings(len(calls), reads=8))
    for slots in every[:: max(1, len(every) // 60)]:  # all of them are schedules of `make safety`
        repo = _tiny_pages(monkeypatch)
        for path in ("b", "m", "y"):
            repo.put(path, path.encode())
        address = repo.address("m")
        waiting = list(zip(slots, calls, strict=True))
        live: set[str] = set()
        for position, read in enumerate(_collection(repo)):
            live = live or read
            while waiting and waiting[0][0] == position:
                waiting.pop(0)[1](repo)
        for _, call in waiting:
            call(repo)
        now_staged = {repo.address(path) for path in repo.paths()}
        assert address in now_staged
        assert now_staged <= live, slots


def _interleavings(calls: int, reads: int) -> Iterator[tuple[int, ...]]:
    """Every way to spread calls, in their order, over the places after reads."""
    for chosen in combinations(range(calls + reads - 1), calls):
        yield tuple(place - index for index, place in enumerate(chosen))


def test_copy_paused_between_tracking_and_staging_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The source goes away after it was read again and before the copy is staged, with a whole collection in between."""
    repo = LakeRepo().create()
    address = repo.put("m", b"x")
    context = repo.lake.copying._staging._context
    real_change = context.kv.change_all
    live: list[set[str]] = []

    def slow_change(changes: Sequence[Change], held: Sequence[Held]) -> bool:
        if any(change.key == b"a" for change in changes):
            monkeypatch.setattr(context.kv, "change_all", real_change)
            repo.lake.objects.delete(repo.record, "main", "m")
            live.append(set(repo.uncommitted()) | repo.committed())
        return real_change(changes, held)

    monkeypatch.setattr(context.kv, "change_all", slow_change)
    repo.lake.copying.copy(repo.record, "main", "a", "m")
    assert repo.read("a") == b"x"
    assert live == [{address}]


def test_source_reset_before_it_is_read_again_is_not_copied_shallowly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between tracking and reading again, a reset takes the source away: there is nothing to copy."""
    repo = LakeRepo().create()
    repo.put("m", b"x")
    copies = repo.lake.copying._copies
    track = copies.track

    def reset_after_tracking(*arguments: object) -> None:
        monkeypatch.undo()
        track(*arguments)
        repo.lake.resetting.reset(repo.record, "main", "object", "m")

    monkeypatch.setattr(copies, "track", reset_after_tracking)
    with pytest.raises(MissingError):
        repo.lake.copying.copy(repo.record, "main", "a", "m")
    assert repo.paths() == []
