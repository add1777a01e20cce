"""Identify: what is live, how little is asked for it, and what ends it without a result."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.dropped import CollectDropped
from lakesweep.catalogs.nessie.history import FORK_PAGES, CommitHistory
from lakesweep.catalogs.nessie.identify import identify
from lakesweep.catalogs.nessie.values import LoggedCommit, TableState
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep.domain.live_sets import ContentKind, DroppedTable
from lakesweep.errors import CatalogDeniedError, CatalogError, CatalogNotFoundError
from lakesweep_testing.fake_nessie import FakeNessie, delta_table, table, udf, view

T = ("db", "t")
U = ("db", "u")


def place(number: int, name: str = "t") -> str:
    return f"s3://lake/db/{name}/metadata/{number}.json"


def run(nessie: FakeNessie, default: str = "NONE", pairs=(), **options):
    with nessie.client() as client:
        return identify(client, parse_policies(default, pairs, nessie.now), **options)


def rows(found) -> set[tuple[str, str]]:
    """Of each reference the commit and the metadata file's name."""
    return {(r.commit_id, "/".join(r.metadata_location.split("/")[4:])) for r in found.references}


def commits_sent(nessie: FakeNessie) -> int:
    """How many commits went over the wire."""
    sent = 0
    for _, path, query in nessie.requests:
        if path.endswith("/history"):
            start = query.get("page-token") or path.split("%40")[1].split("/")[0]
            length = sum(1 for _ in nessie.state.log(start))
            sent += min(length, int(query["max-records"]), nessie.page_cap)
    return sent


def test_a_catalog_without_commits_has_nothing_live():
    """Nothing found is a result: the heads are known, and no log was asked for."""
    nessie = FakeNessie()
    nessie.create_branch("empty")
    found = run(nessie)
    assert list(found.references) == []
    assert set(found.heads) == {"BRANCH main", "BRANCH empty"}
    assert (found.commits_read, found.commits_live, found.references_walked) == (0, 0, 2)
    assert [path for _, path, _ in nessie.requests] == ["/config", "/trees", "/trees"]


def test_the_head_is_live_under_every_policy():
    """Zero commits and a time in the future still leave the head, with its full state."""
    nessie = FakeNessie()
    nessie.commit("main", {T: table(place(1), 1), U: table(place(1, "u"), 1)})
    head = nessie.commit("main", {T: table(place(2), 2)})
    for policy in ("0", "-3", "2999-01-01T00:00:00Z"):
        assert rows(run(nessie, policy)) == {
            (head, "t/metadata/2.json"),
            (head, "u/metadata/1.json"),
        }


def test_live_are_the_puts_of_live_commits_and_the_state_at_the_last():
    """What an older commit wrote stays live as long as the last live commit still has it."""
    nessie = FakeNessie()
    nessie.commit("main", {T: table(place(1), 1), U: view(place(1, "u"), 5)})
    second = nessie.commit("main", {T: table(place(2), 2)})
    third = nessie.commit("main", {T: table(place(3), 3)})
    found = run(nessie, "2")
    assert rows(found) == {
        (third, "t/metadata/3.json"),
        (second, "t/metadata/2.json"),
        (second, "u/metadata/1.json"),
    }
    of_view = next(r for r in found.references if r.content_type is ContentKind.ICEBERG_VIEW)
    assert (of_view.content_key, of_view.snapshot_id) == (U, 5)
    assert (found.commits_read, found.commits_live) == (3, 2)


def test_a_commit_at_the_cut_off_time_is_live():
    """Equal is live; a microsecond later the commit is cut off."""
    nessie = FakeNessie()
    first_at = nessie.now
    first = nessie.commit("main", {T: table(place(1), 1)})
    second = nessie.commit("main", {T: table(place(2), 2)})
    at = {"2026-01-01T00:00:00Z": {first, second}, "2026-01-01T00:00:00.000001Z": {second}}
    assert first_at == datetime(2026, 1, 1, tzinfo=UTC)
    for policy, live in at.items():
        assert {r.commit_id for r in run(nessie, policy).references} == live


def test_the_walk_stops_at_the_first_commit_that_is_cut_off():
    """Clocks of servers differ: a younger commit below an older one is not live."""
    nessie = FakeNessie()
    nessie.now = datetime(2026, 5, 1, tzinfo=UTC)
    nessie.commit("main", {T: table(place(1), 1)})
    nessie.now = datetime(2026, 4, 1, tzinfo=UTC)
    nessie.commit("main", {T: table(place(2), 2)})
    nessie.now = datetime(2026, 6, 1, tzinfo=UTC)
    head = nessie.commit("main", {T: table(place(3), 3)})
    assert rows(run(nessie, "2026-04-15T00:00:00Z")) == {(head, "t/metadata/3.json")}


def test_the_state_at_the_cut_off_can_be_kept():
    """What readers saw at the cut-off time is live with the switch, and only for times."""
    nessie = FakeNessie()
    first = nessie.commit("main", {T: table(place(1), 1)})
    nessie.now += timedelta(days=1)
    second = nessie.commit("main", {T: table(place(2), 2)})
    live = {(second, "t/metadata/2.json")}
    kept = {(first, "t/metadata/1.json")}
    assert rows(run(nessie, "2026-01-01T12:00:00Z")) == live
    found = run(nessie, "2026-01-01T12:00:00Z", keep_state_at_cutoff=True)
    assert rows(found) == live | kept
    assert found.commits_live == 1
    assert rows(run(nessie, "1", keep_state_at_cutoff=True)) == live


def test_each_reference_has_its_own_policy():
    """A tag under NONE keeps its whole ancestry though the branch it was made from does not."""
    nessie = FakeNessie()
    hashes = [nessie.commit("main", {T: table(place(n), n)}) for n in range(4)]
    nessie.create_tag("v1", hash=hashes[1])
    found = run(nessie, "1", [("v.*", "NONE")])
    assert {r.commit_id for r in found.references} == {hashes[0], hashes[1], hashes[3]}
    assert found.heads == {"BRANCH main": hashes[3], "TAG v1": hashes[1]}


def test_merge_parents_are_not_followed():
    """A merge carries its contents in its own puts; the branch's commits are live while the branch is."""
    nessie = FakeNessie()
    nessie.commit("main", {T: table(place(1), 1)})
    nessie.create_branch("dev")
    nessie.commit("dev", {T: table(place(2), 2)})
    nessie.commit("dev", {T: table(place(3), 3)})
    merged = nessie.merge("dev")
    nessie.delete_reference("dev")
    found = run(nessie)
    assert {name for _, name in rows(found)} == {"t/metadata/1.json", "t/metadata/3.json"}
    assert (merged, "t/metadata/3.json") in rows(found)
    assert found.commits_read == 2


def test_a_renamed_table_is_one_table_and_a_dropped_one_is_named():
    """Dropped is an id that no live commit or state has, with its newest content."""
    nessie = FakeNessie()
    nessie.commit("main", {T: table(place(1), 1), U: table(place(1, "u"), 1)})
    gone = nessie.contents([U])[U]["id"]
    nessie.commit("main", {U: table(place(2, "u"), 2)})
    nessie.rename("main", T, ("db", "new"))
    nessie.commit("main", deletes=[U])
    assert run(nessie).dropped == ()
    found = run(nessie, "1")
    dropped_at = nessie.state.commits[nessie.heads()["main"]].time
    kind = ContentKind.ICEBERG_TABLE
    assert found.dropped == (DroppedTable(gone, U, kind, place(2, "u"), 2, dropped_at),)
    assert [r.content_key for r in found.references] == [("db", "new")]


def test_other_kinds_are_named_with_every_location_they_hold():
    """Delta tables, functions and kinds of tomorrow; namespaces have no files."""
    nessie = FakeNessie()
    odd = {"type": "ODD", "a": {"b": ["abfs://c@x/odd", 3]}, "sql": "SELECT 's3://lake/in text'"}
    nessie.commit("main", {("f",): udf("/lake/f"), ("odd",): odd})
    nessie.commit("main", {("d",): delta_table(["s3://lake/d/1"], last_checkpoint="s3://lake/cp")})
    nessie.commit("main", {("d",): delta_table(["s3://lake/d/2"])})
    found = {content.kind: content for content in run(nessie).others}
    assert set(found) == {"UDF", "ODD", "DELTA_LAKE_TABLE"}
    assert found["UDF"].locations == ("/lake/f",)
    assert found["ODD"].locations == ("abfs://c@x/odd", "s3://lake/in")
    assert set(found["DELTA_LAKE_TABLE"].locations) == {
        *("s3://lake/d/1", "s3://lake/d/2", "s3://lake/cp"),
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"files": {"s3://lake/v.lance": 1}},
        {"paths": "s3://lake/first,s3://lake/v.lance;s3://lake/last"},
        {"paths": "[file:/lake/first, s3://lake/v.lance]"},
        {"sql": "SELECT * FROM lance.`s3://lake/v.lance`"},
        {"sql": "SELECT * FROM read(s3://lake/v.lance)"},
        {"state": json.dumps({"inner": json.dumps({"path": "s3://lake/v.lance"})})},
    ],
    ids=["key", "list", "brackets", "backticks", "parentheses", "JSON in JSON"],
)
def test_locations_of_other_kinds_are_found_wherever_they_stand(fields):
    """What is found too much can only protect more."""
    nessie = FakeNessie()
    nessie.commit("main", {("v",): {"type": "LANCE_TABLE", **fields}})
    (found,) = run(nessie).others
    assert "s3://lake/v.lance" in found.locations


def test_one_id_under_two_keys_is_not_lost():
    """A live set has one row for an id and a commit, so the second metadata gets a commit id of its own."""
    nessie = FakeNessie()
    nessie.commit("main", {T: table(place(1), 1)})
    nessie.create_branch("dev")
    nessie.rename("dev", T, U)
    nessie.commit("dev", {U: table(place(2), 2)})
    nessie.commit("main", {T: table(place(3), 3)})
    merged = nessie.merge("dev", drop=[T])
    nessie.delete_reference("dev")
    assert rows(run(nessie, "1")) == {
        (merged, "t/metadata/2.json"),
        (f"{merged}#2", "t/metadata/3.json"),
    }


def test_nessie_is_only_asked_and_stays_as_it_was():
    """No request but GETs, and every reference at its hash."""
    with FakeNessie() as nessie:
        for number in range(5):
            nessie.commit("main", {T: table(place(number), number)})
        nessie.create_branch("feature/x")
        nessie.commit("feature/x", {U: table(place(1, "u"), 1)})
        nessie.create_tag("v1")
        before, commits = nessie.heads(), set(nessie.state.commits)
        with NessieClient(nessie.uri) as client:
            identify(client, parse_policies("2", [], nessie.now))
        assert {method for method, _, _ in nessie.requests} == {"GET"}
        assert nessie.heads() == before
        assert set(nessie.state.commits) == commits


def test_commits_that_references_share_come_once():
    """Tags on known commits cost nothing; a fork of n commits reads at most the rest of its last page in vain."""
    nessie = FakeNessie()
    for number in range(600):
        nessie.commit("main", {T: table(place(number), number)})
        if number % 60 == 0:
            nessie.create_tag(f"v{number}")
        if number % 100 == 0:
            nessie.create_branch(f"dev{number}")
    own = 3
    for number in range(0, 600, 100):
        for change in range(own):
            nessie.commit(f"dev{number}", {U: table(place(change, f"u{number}"), change)})
    found = run(nessie)
    forks = 6
    assert found.commits_read == 600 + forks * own
    # Per fork: its first page of ten holds its three own commits and seven that are known.
    assert commits_sent(nessie) <= 600 + forks * FORK_PAGES[0]
    asked = {
        path.split("/")[2].split("%40")[0] for _, path, _ in nessie.requests if "/history" in path
    }
    assert asked == {"main", *(f"dev{number}" for number in range(0, 600, 100))}


def test_a_fork_that_ends_with_its_page_reads_nothing_in_vain():
    """A page whose last commit has a known parent is the last one that is asked for."""
    nessie = FakeNessie()
    for number in range(100):
        nessie.commit("main", {T: table(place(number), number)})
    nessie.create_branch("dev", "main")
    for number in range(FORK_PAGES[0]):
        nessie.commit("dev", {U: table(place(number, "u"), number)})
    nessie.commit("main", {T: table(place(100), 100)})
    found = run(nessie)
    assert found.commits_read == commits_sent(nessie) == 101 + FORK_PAGES[0]
    assert found.commits_live == found.commits_read


def test_long_forks_with_a_history_of_their_own_share_it():
    """Branches of a branch join where they meet, also when they are read at the same time."""
    nessie = FakeNessie()
    nessie.commit("main", {T: table(place(0), 0)})
    nessie.create_branch("dev")
    for number in range(400):
        nessie.commit("dev", {U: table(place(number, "u"), number)})
        if number % 40 == 39:
            nessie.create_branch(f"dev{number}", "dev")
            nessie.commit(f"dev{number}", {T: table(place(1000 + number), number)})
    found = run(nessie, parallelism=4)
    references = 11
    assert found.commits_read == 1 + 400 + 10
    # Each fork's last page overlaps, and no page is longer than the longest.
    assert commits_sent(nessie) <= found.commits_read + references * (FORK_PAGES[-1] - 1)
    assert found.commits_live == found.commits_read


def test_the_state_at_a_commit_is_read_once():
    """Ten tags on one commit ask for its entries one time."""
    nessie = FakeNessie()
    nessie.commit("main", {T: table(place(1), 1)})
    for number in range(10):
        nessie.create_tag(f"v{number}")
    run(nessie, "1")
    assert sum("/entries" in path for _, path, _ in nessie.requests) == 1


def test_progress_is_told_in_commits():
    """What came in is told page by page."""
    nessie = FakeNessie(page_cap=4)
    for number in range(10):
        nessie.commit("main", {T: table(place(number), number)})
    told: list[int] = []
    run(nessie, on_progress=told.append)
    assert told == [4, 4, 2]


def test_pages_of_references_and_entries_are_all_read():
    """A server may send one item at a time."""
    nessie = FakeNessie(page_cap=1)
    nessie.commit("main", {("db", f"t{n}"): table(place(n, f"t{n}"), n) for n in range(5)})
    nessie.create_tag("v1")
    nessie.create_branch("a/b")
    found = run(nessie)
    assert found.references_walked == 3
    assert len(list(found.references)) == len(list(found.references)) == 5


@pytest.fixture
def busy() -> FakeNessie:
    """A catalog with a branch of its own history and several pages of everything."""
    nessie = FakeNessie(page_cap=2)
    for number in range(6):
        nessie.commit("main", {("db", f"t{number}"): table(place(number), number)})
    nessie.create_branch("dev")
    nessie.commit("dev", {U: table(place(1, "u"), 1)})
    return nessie


@pytest.mark.parametrize("after", [0, 1], ids=["before its first page", "between its pages"])
def test_a_reference_that_vanishes_is_live_as_it_was_listed(busy, after):
    """Jobs make branches and delete them all day: what one pointed at is read by its hash, and is live once more."""
    busy.commit("dev", {U: table(place(2, "u"), 2)})
    busy.commit("dev", {U: table(place(3, "u"), 3)})
    whole = rows(run(busy))
    busy.vanish("dev", path="/trees/dev%", after=after)
    assert rows(run(busy)) == whole


def test_a_reference_whose_commits_vanished_ends_it(busy):
    """Its data can't be told from garbage any more, so there is no result."""
    busy.fail("/trees/(dev)?%40", status=404, times=9)
    with pytest.raises(CatalogNotFoundError, match="history of @"):
        run(busy)


@pytest.mark.parametrize("path", ["/trees$", "/history", "/entries"])
def test_a_page_that_leads_back_ends_it(busy, path):
    """A list that never ends is not complete."""
    busy.create_tag("v1")
    busy.create_tag("v2")
    busy.repeat_token(path)
    with pytest.raises(CatalogError) as caught:
        run(busy, "1")
    assert caught.value.kind == "catalog-nonsense"


@pytest.mark.parametrize("path", ["/trees$", "/history", "/entries"])
def test_an_empty_page_that_says_there_is_more_ends_it(busy, path):
    """As the official client does."""
    busy.empty_page(path)
    with pytest.raises(CatalogError, match="holds nothing"):
        run(busy)


def test_a_reference_that_one_list_leaves_out_is_walked(busy):
    """A list may be cut short, or come from a replica that is behind."""
    whole = rows(run(busy))
    busy.page_cap = 250
    only_main = lambda said: [one for one in said["references"] if one["name"] == "main"]  # noqa: E731
    busy.tamper("/trees$", lambda request, said: {**said, "references": only_main(said)})
    assert rows(run(busy)) == whole


@pytest.mark.parametrize("left", [0, 1], ids=["an empty page", "a cut page"])
def test_a_state_that_leaves_a_table_out_ends_it(busy, left):
    """Nessie leaves out what a user may not view, without a word; the commits tell what must be there."""
    cut = lambda request, said: {**said, "entries": said["entries"][:left], "hasMore": False}  # noqa: E731
    busy.tamper("/entries", cut, times=100)
    with pytest.raises(CatalogError, match="db/t") as caught:
        run(busy, "1")
    assert caught.value.kind == "catalog-nonsense"


@pytest.mark.parametrize("path", ["/config", "/trees$", "/history", "/entries"])
def test_a_refusal_ends_it(busy, path):
    """403 says what to check; 500 is not tried again."""
    busy.fail(path, status=403)
    with pytest.raises(CatalogDeniedError, match="may view every"):
        run(busy)
    busy.fail(path, status=500)
    with pytest.raises(CatalogError) as caught:
        run(busy)
    assert caught.value.kind == "http-500"
    assert caught.value.exit_status == 3


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(busy, status):
    """Twice busy is not a reason to give up; always busy is."""
    busy.fail("/history", status=status, times=2)
    assert run(busy).commits_read == 7
    busy.fail("/entries", status=status, times=1000)
    with pytest.raises(CatalogError) as caught:
        run(busy)
    assert caught.value.kind == f"http-{status}"


def test_a_hidden_default_branch_ends_it(busy):
    """Nessie leaves out what a user may not view; the default branch is the one that must be there."""

    def without_main(request, said):
        return {**said, "references": [r for r in said["references"] if r["name"] != "main"]}

    busy.tamper("/trees", without_main)
    with pytest.raises(CatalogError, match="lists no branch main"):
        run(busy)


def test_a_log_with_a_gap_ends_it(busy):
    """A commit that its child names must come next."""

    def with_a_gap(request, said):
        return {**said, "logEntries": said["logEntries"][1:]}

    busy.tamper("/history", with_a_gap, after=1)
    with pytest.raises(CatalogError, match="missing from it"):
        run(busy)


def test_a_log_that_ends_too_early_ends_it(busy):
    """The last commit of a log has no parent."""
    busy.tamper("/history", lambda request, said: {**said, "hasMore": False}, after=1)
    with pytest.raises(CatalogError, match="has a parent"):
        run(busy)


def test_a_log_that_does_not_name_parents_ends_it(busy):
    """Without them a gap could not be seen."""

    def without_parents(request, said):
        return {**said, "logEntries": [{**e, "parentCommitHash": None} for e in said["logEntries"]]}

    busy.tamper("/history", without_parents)
    with pytest.raises(CatalogError, match="without its parent"):
        run(busy)


def test_a_log_without_commits_ends_it(busy):
    """A reference that points at a commit has a log."""
    busy.tamper("/history", lambda request, said: {**said, "logEntries": [], "hasMore": False})
    with pytest.raises(CatalogError, match="no commits"):
        run(busy)


@pytest.mark.parametrize(
    ("field", "value"),
    [("metadataLocation", None), ("metadataLocation", ""), ("snapshotId", "1"), ("id", None)],
)
def test_a_table_that_does_not_say_where_it_is_ends_it(busy, field, value):
    """No default stands in for what tells the live files."""

    def damaged(request, said):
        for entry in said["logEntries"]:
            for change in entry["operations"]:
                change["content"] = {**change["content"], field: value}
        return said

    busy.tamper("/history", damaged)
    with pytest.raises(CatalogError, match=field):
        run(busy)


def test_an_answer_of_another_shape_ends_it(busy):
    """JSON that is not Nessie's, a time that is none, a change of an unknown type."""

    def change(**fields):
        def changed(request, said):
            said["logEntries"][0] = {**said["logEntries"][0], **fields}
            return said

        return changed

    meta = {"hash": busy.head(), "commitTime": "yesterday"}
    for tamper in (
        change(commitMeta=meta),
        change(commitMeta={"hash": busy.head()}),
        change(operations=[{"type": "MOVE", "key": {"elements": ["a"]}}]),
        change(operations=[{"type": "PUT", "key": {"elements": ["a"]}}]),
    ):
        busy.tamper("/history", tamper)
        with pytest.raises(CatalogError) as caught:
            run(busy)
        assert caught.value.kind == "catalog-nonsense"


def test_a_failure_in_one_fork_stops_the_others():
    """No thread goes on asking after the error is told."""
    nessie = FakeNessie()
    nessie.commit("main", {T: table(place(1), 1)})
    for number in range(50):
        nessie.create_branch(f"dev{number}")
        nessie.commit(f"dev{number}", {U: table(place(number, "u"), number)})
    nessie.fail("/trees/dev", status=500, times=1)
    with pytest.raises(CatalogError):
        run(nessie, parallelism=2)
    assert not [t for t in threading.enumerate() if t.name.startswith("nessie")]
    assert sum("/history" in path for _, path, _ in nessie.requests) < 40


def test_repeated_strings_are_kept_once():
    """A thousand commits of a table hold one id and one key."""
    history = CommitHistory()
    for number in range(3):
        state = TableState(
            "".join(("i", "d")), tuple("k"), ContentKind.ICEBERG_TABLE, f"m{number}", number
        )
        commit = LoggedCommit(f"h{number}", datetime.now(UTC), None, (state,))
        history.add([commit], number - 1 if number else None)
    ids = {id(contents[0].content_id) for contents in history.contents}
    keys = {id(contents[0].content_key) for contents in history.contents}
    assert (len(ids), len(keys)) == (1, 1)
    assert list(history.parents) == [1, 2, -1]


@pytest.mark.parametrize("days_since_commit", [1, 3, 5])
def test_a_table_that_a_quiet_branch_kept_has_its_grace_from_the_next_commit_on(
    days_since_commit: int,
):
    """Before it, a mark kept the head and the state before the head, however old, and the table in it."""
    nessie = FakeNessie()
    nessie.commit("main", {T: table(place(1), 1), U: table(place(1, "u"), 1)})
    nessie.commit("main", {}, [T])
    nessie.now += timedelta(days=100)
    nessie.commit("main", {U: table(place(2, "u"), 2)})
    nessie.now += timedelta(days=days_since_commit)
    collect = CollectDropped(nessie.now, timedelta(days=4))
    found = run(nessie, "PT0S", keep_state_at_cutoff=True, collect_dropped=collect)
    assert [table.is_collected for table in found.dropped] == [days_since_commit > 4]
