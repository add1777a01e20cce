"""The commit graph from a refs dump, and without the right to dump."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from lakesweep.catalogs.lakefs.graph import GraphSource, read_commit_graph
from lakesweep.domain.commits import (
    BranchHead,
    BranchId,
    Commit,
    CommitId,
    HeadMove,
    MetaRangeId,
    Tag,
    TagId,
)
from lakesweep.errors import CatalogError, UnsafeToSweepError
from lakesweep.formats.refs_dump import MANIFEST_KEY

START = datetime(2024, 5, 1, tzinfo=UTC)


def an_id(name: str) -> CommitId:
    return CommitId(hashlib.sha256(name.encode()).hexdigest())


def commit(name: str, *parents: str, day: int = 0) -> Commit:
    return Commit(
        id=an_id(name),
        committer="somebody",
        message=name,
        creation_date=START + timedelta(days=day),
        meta_range_id=MetaRangeId(""),
        parents=tuple(an_id(parent) for parent in parents),
        metadata={"k": "v"},
    )


@pytest.fixture
def history(fake):
    """main has three commits, dev forks off the second, and a commit dangles."""
    fake.commits = [
        commit("one", day=1),
        commit("two", "one", day=2),
        commit("three", "two", day=3),
        commit("dev", "two", day=4),
        commit("dangling", "dev", day=5),
    ]
    fake.branches = [
        BranchHead(BranchId("dev"), an_id("dev")),
        BranchHead(BranchId("main"), an_id("three"), hidden=True),
    ]
    fake.tags = [Tag(TagId("v1"), an_id("one"))]
    return fake


def refuse_dump(fake):
    fake.overrides["PUT", "refs/dump"] = lambda r: httpx.Response(401, json={"message": "no"})


def ids(graph) -> set[CommitId]:
    return set(graph.columns.ids.astype(str).tolist())


def facts(graph) -> dict[CommitId, tuple]:
    """What a history says of each commit."""
    return {
        graph.id(row): (graph.date(row), graph.parents(row), graph.main_parent(row))
        for row in range(len(graph))
    }


def test_a_dump_holds_every_commit_branch_and_tag(history, store):
    """Dangling commits too, which no other call lists."""
    refs = read_commit_graph(history.client(), store, "repo")
    assert refs.source is GraphSource.DUMP
    assert refs.complete
    assert facts(refs.graph) == {
        c.id: (c.creation_date, c.parents, c.main_parent) for c in history.commits
    }
    assert {refs.graph.meta_range_id(c.id) for c in history.commits} == {""}
    assert set(refs.heads) == set(history.branches)
    assert list(refs.tags) == history.tags
    assert refs.head_moves == ()


def test_an_earlier_manifest_is_put_back(history, store):
    """A user may want to restore from the dump that was there."""
    store.write(MANIFEST_KEY, b'{"the": "users"}')
    read_commit_graph(history.client(), store, "repo")
    assert store.read(MANIFEST_KEY) == b'{"the": "users"}'


def test_a_manifest_that_somebody_wrote_after_us_stays(history, store):
    """Then the newer one is theirs."""
    store.write(MANIFEST_KEY, b'{"the": "older"}')

    def dump_and_be_overtaken(request):
        answer = history.answer(request)
        store.write(MANIFEST_KEY, b'{"the": "newer"}')
        return answer

    history.overrides["PUT", "refs/dump"] = dump_and_be_overtaken
    read_commit_graph(history.client(), store, "repo")
    assert store.read(MANIFEST_KEY) == b'{"the": "newer"}'


def test_commits_made_while_the_dump_was_written_are_added(history, store):
    """A branch, a tag or a move may name a commit that the dump passed already; so may a merge, by each of its parents."""
    late = [
        commit("late", "three", day=6),
        commit("side", "three", day=6),
        commit("merge", "late", "side", day=7),
        commit("tagged", "three", day=6),
        commit("left", "three", day=6),
    ]

    def dump_too_early(request):
        history.branches[1] = BranchHead(BranchId("main"), an_id("merge"))
        history.tags.append(Tag(TagId("v2"), an_id("tagged")))
        answer = history.answer(request)
        history.commits.extend(late)
        return answer

    history.overrides["PUT", "refs/dump"] = dump_too_early
    history.head_moves = [HeadMove(BranchId("gone"), an_id("left"), START)]
    refs = read_commit_graph(history.client(), store, "repo", with_head_moves=True)
    assert ids(refs.graph) == {c.id for c in history.commits}


def test_a_head_that_the_server_does_not_have_is_refused(history, store):
    """Its objects are not known, so nothing may go."""
    history.branches.append(BranchHead(BranchId("broken"), an_id("nowhere")))
    with pytest.raises(UnsafeToSweepError) as caught:
        read_commit_graph(history.client(), store, "repo")
    assert caught.value.kind == "commit-graph-incomplete"


def test_a_dump_whose_files_are_missing_is_refused(history, store):
    """The server wrote them to another place than we look at."""
    answer = dict.fromkeys(
        ("commits_meta_range_id", "tags_meta_range_id", "branches_meta_range_id"), "0" * 64
    )
    history.overrides["PUT", "refs/dump"] = lambda r: httpx.Response(201, json=answer)
    with pytest.raises(UnsafeToSweepError) as caught:
        read_commit_graph(history.client(), store, "repo")
    assert caught.value.kind == "refs-dump-incomplete"


def test_a_failing_dump_is_not_a_missing_right(history, store):
    """Only a refusal leads to the logs, which leave dangling commits out."""
    history.overrides["PUT", "refs/dump"] = lambda r: httpx.Response(500)
    with pytest.raises(CatalogError):
        read_commit_graph(history.client(), store, "repo")


def test_without_the_right_to_dump_the_logs_are_read(history, store):
    """Dangling commits are missing, and the result says so."""
    refuse_dump(history)
    history.page_size = 2
    refs = read_commit_graph(history.client(), store, "repo")
    assert refs.source is GraphSource.LOGS
    assert not refs.complete
    assert ids(refs.graph) == {an_id(n) for n in ("one", "two", "three", "dev")}
    assert {head.id for head in refs.heads} == {"dev", "main"}


def test_shared_history_is_read_once(fake, store):
    """A thousand branches off one long history cost a page each, not the whole log each."""
    refuse_dump(fake)
    fake.page_size = 10
    fake.commits = [commit("c0")]
    fake.commits += [commit(f"c{n}", f"c{n - 1}", day=n) for n in range(1, 100)]
    fake.commits += [commit(f"b{n}", "c99", day=200) for n in range(20)]
    fake.branches = [BranchHead(BranchId("main"), an_id("c99"))]
    fake.branches += [BranchHead(BranchId(f"b{n}"), an_id(f"b{n}")) for n in range(20)]
    refs = read_commit_graph(fake.client(), store, "repo")
    assert len(refs.graph) == 120
    logs = [route for _, route in fake.requests if route.endswith("/commits")]
    assert len(logs) == 100 / 10 + 20


def test_a_log_that_ends_before_its_parents_is_refused(history, store):
    """A log cut short is not a short history."""
    refuse_dump(history)

    def cut(request):
        answer = history.answer(request).json()
        answer["results"] = answer["results"][:1]
        answer["pagination"].update(has_more=False, next_offset="", results=1)
        return httpx.Response(200, json=answer)

    history.overrides["GET", f"refs/{an_id('three')}/commits"] = cut
    history.branches = [BranchHead(BranchId("main"), an_id("three"))]
    with pytest.raises(UnsafeToSweepError) as caught:
        read_commit_graph(history.client(), store, "repo")
    assert caught.value.kind == "commit-graph-incomplete"


def test_head_moves_come_with_the_graph_when_the_server_keeps_them(history, store):
    """And they are read after the branches."""
    history.head_moves = [HeadMove(BranchId("gone"), an_id("dangling"), START)]
    refs = read_commit_graph(history.client(), store, "repo", with_head_moves=True)
    assert list(refs.head_moves) == history.head_moves
    routes = [route for _, route in history.requests]
    assert routes.index("refs/dump") < routes.index("gc/head_moves")


def test_a_commit_whose_date_no_calendar_has_is_read_from_answers(history, store):
    """A client may have told milliseconds where the server asks for seconds; the server answers with what it was told."""
    refuse_dump(history)

    def late(request):
        response = history.answer(request)
        page = response.json()
        page["results"][0]["creation_date"] = 1_700_000_000_000
        return httpx.Response(200, json=page)

    history.overrides["GET", f"refs/{an_id('three')}/commits"] = late
    graph = read_commit_graph(history.client(), store, "repo").graph
    assert graph.made_at(an_id("three")).year == 9999
