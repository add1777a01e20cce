"""The lakeFS client against the real server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.graph import read_commit_graph
from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.history_retention import find_retained
from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.catalogs.lakefs.ranges import read_metarange_table
from lakesweep.catalogs.lakefs.retained import server_retained_commits
from lakesweep.catalogs.lakefs.uncommitted import prepare_all_pages
from lakesweep.catalogs.lakefs.values import ObjectState
from lakesweep.domain.addresses import is_candidate
from lakesweep.domain.location import Location
from lakesweep.errors import CatalogDeniedError, CatalogNotFoundError, UnsafeToSweepError
from lakesweep.formats.refs_dump import MANIFEST_KEY
from lakesweep.storage import StorageOptions, open_store
from lakesweep_testing.one_by_one import read_uncommitted_list
from lakesweep_testing.servers import MinIOServer, RealLakeFS

pytestmark = pytest.mark.real

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


def days_ago(days: float) -> datetime:
    return NOW - DAY * days


def facts(history):
    """What a history says of each commit. The API tells a commit's time in seconds, the dump to the nanosecond."""
    generations = history.columns.generations.tolist()
    return {
        (commit_id := history.id(row)): (
            history.date(row).replace(microsecond=0),
            history.parents(row),
            history.main_parent(row),
            history.meta_range_id(commit_id),
            generations[row],
        )
        for row in range(len(history))
    }


def staged(user, found) -> set[str]:
    tables = read_uncommitted_list(user.store, found)
    return {address for table in tables for address in table["physical_address"].to_pylist()}


def prepare(user):
    return prepare_all_pages(user.client, user.store, user.repository, user.normaliser)


def test_what_the_real_server_is(user):
    """A lakeFS on S3 that promises nothing beyond lakeFS, with a clock near ours and links for a day."""
    repository = user.client.repository(user.repository)
    assert repository.storage_namespace == f"s3://{user.repository}/ns"
    profile = user.client.profile(repository.storage_id)
    assert profile.blockstore_type == "s3"
    assert not profile.is_embedded
    assert profile.lists_linked_objects
    assert user.client.grace_period() == timedelta(hours=24)
    assert abs(user.client.server_time() - datetime.now(UTC)) < timedelta(minutes=1)


def test_errors_of_the_real_server(user, real_lakefs):
    """Wrong credentials are denied; what is not there is not found."""
    with (
        LakeFSClient(real_lakefs.url, real_lakefs.access_key_id, "wrong") as stranger,
        pytest.raises(CatalogDeniedError),
    ):
        stranger.repository(user.repository)
    with pytest.raises(CatalogNotFoundError):
        user.client.rules("no-such-repository")
    with pytest.raises(CatalogNotFoundError):
        user.client.commit(user.repository, "no-such-ref")


def test_a_read_only_repository_is_told_as_one(user, minio):
    """The server's own words for it are known."""
    name = f"{user.repository}-ro"
    body = {"name": name, "storage_namespace": f"{minio.make_bucket(name)}/ns", "read_only": True}
    user.http.post("repositories", json=body).raise_for_status()
    for prepare_it in (user.client.prepare_uncommitted, user.client.start_prepare_commits):
        with pytest.raises(CatalogDeniedError) as caught:
            prepare_it(name)
        assert caught.value.kind == "read-only-repository"


def test_the_dump_equals_a_walk_through_the_api(user):
    """Every commit, branch (hidden too) and tag, merges and a deleted branch's dangling commit included."""
    user.upload("main", "a", b"a")
    user.commit("main", "first", days_ago(3))
    user.branch("dev", "main")
    user.branch("secret", "main", hidden=True)
    user.branch("gone", "main")
    user.upload("gone", "g", b"g")
    dangling = user.commit("gone", "dangling", days_ago(2))
    user.delete_branch("gone")
    user.upload("dev", "b", b"b")
    user.commit("dev", "on dev", days_ago(2))
    user.upload("main", "c", b"c")
    user.commit("main", "on main", days_ago(1))
    user.call("POST", "refs/dev/merge/main", json={})
    user.call("POST", "tags", json={"id": "v1", "ref": "dev"})
    user.store.write(MANIFEST_KEY, b'{"kept": "for the user"}')

    refs = read_commit_graph(user.client, user.store, user.repository)

    walked = {}
    for ref in (*(b.commit_id for b in refs.heads), *(t.commit_id for t in refs.tags), dangling):
        walked |= {commit.id: commit for commit in user.client.log(user.repository, ref)}
    assert facts(refs.graph) == facts(History.of(walked.values()))
    assert {(h.id, h.commit_id) for h in refs.heads} == {
        (h.id, h.commit_id) for h in user.client.branches(user.repository)
    }
    assert {h.id for h in refs.heads} == {"main", "dev", "secret"}
    assert list(refs.tags) == user.client.tags(user.repository)
    assert user.store.read(MANIFEST_KEY) == b'{"kept": "for the user"}'
    metaranges = refs.graph.columns.meta_range_ids.astype(str).tolist()
    assert read_metarange_table(user.store, metaranges).ranges.counts.sum() >= 4


def test_a_user_without_the_right_to_dump_gets_the_logs(user, monkeypatch):
    """The same commits, but for the dangling ones."""
    user.upload("main", "a", b"a")
    user.commit("main", "first", days_ago(3))
    user.branch("gone", "main")
    user.upload("gone", "g", b"g")
    dangling = user.commit("gone", "dangling", days_ago(2))
    user.delete_branch("gone")

    def deny(repository):
        raise CatalogDeniedError("no right")

    whole = read_commit_graph(user.client, user.store, user.repository)
    monkeypatch.setattr(user.client, "dump_refs", deny)
    logs = read_commit_graph(user.client, user.store, user.repository)
    assert not logs.complete
    ids, by_logs = set(whole.graph.columns.ids), set(logs.graph.columns.ids)
    assert ids - by_logs == {dangling.encode()}


def test_all_that_is_staged_is_listed(user):
    """Uploads on every branch, hidden too; every address has the shape of a candidate."""
    user.branch("dev", "main")
    user.branch("secret", "main", hidden=True)
    addresses = {
        user.upload(branch, path, f"{branch}{path}".encode())
        for branch in ("main", "dev", "secret")
        for path in ("a", "b/c")
    }
    assert all(is_candidate(address) for address in addresses)
    found = prepare(user)
    assert found.rows_promised is None
    assert staged(user, found) == addresses


@pytest.fixture(scope="module")
def impatient_lakefs(minio: MinIOServer) -> Iterator[RealLakeFS]:
    """A server whose pages end after a few milliseconds."""
    with RealLakeFS(minio, env={"LAKEFS_UGC_PREPARE_INTERVAL": "20ms"}) as server:
        yield server


def test_many_pages_of_which_the_last_is_empty(make_user, impatient_lakefs):
    """What the first pages list is kept when the last has no location (the original deletes it)."""
    user = make_user(impatient_lakefs)
    user.branch("aaa-busy", "main")
    addresses = {user.upload("aaa-busy", f"f{n}", f"{n}".encode()) for n in range(6)}
    for number in range(150):
        user.branch(f"clean-{number:03}", "main")
    locations: list[str] = []
    ask = user.client.prepare_uncommitted

    def watched(repository, continuation_token=None):
        page = ask(repository, continuation_token)
        locations.append(page.gc_uncommitted_location)
        return page

    user.client.prepare_uncommitted = watched
    found = prepare(user)
    assert found.pages == len(locations) > 1
    assert locations[-1] == ""
    assert staged(user, found) == addresses


def test_a_page_interval_too_short_for_a_row_is_an_error(make_user, minio):
    """The same token comes back for ever; we notice."""
    with RealLakeFS(minio, env={"LAKEFS_UGC_PREPARE_INTERVAL": "1ns"}) as server:
        user = make_user(server)
        user.upload("main", "a", b"a")
        with pytest.raises(UnsafeToSweepError) as caught:
            prepare(user)
    assert caught.value.kind == "token-repeats"


def test_without_rules_the_server_has_no_list(user):
    """Nothing expires; the asynchronous call only says so in its status."""
    assert user.client.rules(user.repository) is None
    assert (
        server_retained_commits(user.client, user.store, user.repository, user.normaliser) is None
    )


def test_rules_go_there_and_back(user):
    """The server sends null for no branch rules."""
    user.set_rules(14)
    assert str(user.client.rules(user.repository)) == "default 14 days"
    user.set_rules(14, main=21)
    rules = user.client.rules(user.repository)
    assert str(rules) == "default 14 days; main 21 days"
    user.client.delete_rules(user.repository)
    assert user.client.rules(user.repository) is None
    user.client.set_rules(user.repository, rules)
    assert user.client.rules(user.repository) == rules


def retained_by_us(user):
    refs = read_commit_graph(user.client, user.store, user.repository)
    rules = user.client.rules(user.repository)
    is_retained = find_retained(refs.graph, refs.heads, rules, datetime.now(UTC))
    return set(refs.graph.columns.ids[is_retained].astype(str).tolist()), refs.graph


def retained_by_server(user):
    found = server_retained_commits(user.client, user.store, user.repository, user.normaliser)
    assert found is not None
    return set(found.commits.ids.astype(str).tolist())


def test_our_retained_commits_are_the_servers_on_a_plain_history(user):
    """Where no shortcut is taken, both lists are equal, commits without a metarange aside."""
    for age in (30, 20, 12, 8, 3):
        user.upload("main", "a", f"{age}".encode())
        user.commit("main", f"{age} days", days_ago(age))
    user.branch("dev", "main")
    user.upload("dev", "b", b"b")
    user.commit("dev", "dev", days_ago(2))
    user.set_rules(5, main=10)
    ours, graph = retained_by_us(user)
    assert {c for c in ours if graph.meta_range_id(c)} == retained_by_server(user)
    assert len(ours) == 4


def forked_history(user) -> tuple[str, str, str]:
    """p ← a ← main's head, all old; `fix` made from p, with a commit of an hour ago."""
    user.upload("main", "x", b"x")
    parent = user.commit("main", f"p {user.repository}", days_ago(40))
    user.delete("main", "x")
    user.upload("main", "y", b"y")
    user.commit("main", "a", days_ago(35))
    user.upload("main", "z", b"z")
    main = user.commit("main", "main", days_ago(30))
    user.branch("fix", parent)
    user.delete("fix", "x")
    user.upload("fix", "w", b"w")
    fix = user.commit("fix", "b", NOW - timedelta(hours=1))
    user.set_rules(10)
    return parent, main, fix


def test_the_servers_shortcut_drops_a_commit_that_we_retain(make_user):
    """It depends on the order of ids whether the server retains `p`; by the rule it always is (6.6-11)."""
    orders = set()
    for _ in range(16):
        user = make_user()
        parent, main, fix = forked_history(user)
        ours, graph = retained_by_us(user)
        assert {parent, main, fix} <= ours
        assert parent in graph
        server_keeps = parent in retained_by_server(user)
        assert server_keeps == (fix < main)
        orders.add(server_keeps)
        if len(orders) == 2:
            return
    pytest.fail(f"sixteen histories, and all ids in one order: {orders}")


def test_entries_and_the_state_of_their_bytes(user):
    """Stat answers from metadata; only reading tells that the bytes are gone."""
    address = user.upload("main", "dir/a b%é", b"content")
    user.upload("main", "empty", b"")
    user.commit("main", "c", days_ago(1))
    listed = list(user.client.list_objects(user.repository, "main", prefix="dir/"))
    assert [entry.path for entry in listed] == ["dir/a b%é"]
    assert user.normaliser.relative(listed[0].physical_address) == address
    state = user.client.object_state
    assert state(user.repository, "main", "dir/a b%é") is ObjectState.READABLE
    assert state(user.repository, "main", "empty") is ObjectState.READABLE
    assert state(user.repository, "main", "none") is ObjectState.NOT_FOUND
    user.store.delete_many([address])
    assert state(user.repository, "main", "dir/a b%é") is ObjectState.GONE
    stat = user.client.stat_object(user.repository, "main", "dir/a b%é")
    assert stat is not None
    assert stat.size_bytes == 7


def test_a_real_server_on_local_files():
    """Its addresses hold the absolute path, its blocking call answers twice, and we say what its list lacks."""
    with RealLakeFS() as server:
        auth = (server.access_key_id, server.secret_access_key)
        namespace = "local://catalogs-local"
        root = str(server.namespace_root)
        with (
            httpx.Client(base_url=f"{server.url}/api/v1/", auth=auth, trust_env=False) as http,
            LakeFSClient(server.url, *auth) as client,
        ):
            body = {"name": "local-repo", "storage_namespace": namespace}
            http.post("repositories", json=body).raise_for_status()
            upload = http.post(
                "repositories/local-repo/branches/main/objects",
                params={"path": "a"},
                content=b"a",
                headers={"Content-Type": "application/octet-stream"},
            )
            rules = {"default_retention_days": 1, "branches": []}
            http.put("repositories/local-repo/settings/gc_rules", json=rules).raise_for_status()
            location = Location.parse(namespace, namespace_root=root)
            store = open_store(location, StorageOptions())
            normaliser = AddressNormaliser(location, root)
            address = normaliser.relative(upload.json()["physical_address"])
            assert address is not None
            assert is_candidate(address)
            assert not client.profile().lists_linked_objects
            found = prepare_all_pages(client, store, "local-repo", normaliser)
            tables = list(read_uncommitted_list(store, found))
            assert [t["physical_address"].to_pylist() for t in tables] == [[address]]
            assert read_commit_graph(client, store, "local-repo").complete
            assert server_retained_commits(client, store, "local-repo", normaliser) is not None
            assert client.prepare_commits("local-repo").run_id
