"""Identify on a real Nessie server, and the fake held against it: one script, the same result on both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.client_properties import ClientProperties
from lakesweep.catalogs.nessie.identify import Identified, identify
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep.domain.durations import format_time
from lakesweep.errors import CatalogNotFoundError
from lakesweep_testing.fake_nessie import NO_ANCESTOR, FakeNessie, table
from lakesweep_testing.nessie_histories import write_random_history
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.servers.nessie import NessieServer

pytestmark = pytest.mark.real

T = ("db", "t")


@pytest.fixture(scope="module")
def server() -> Iterator[NessieServer]:
    with NessieServer() as started:
        yield started


@pytest.fixture
def writer(server: NessieServer) -> Iterator[NessieWriter]:
    """A user of the server, whose references were all put back to nothing."""
    with NessieWriter(server.uri) as user:
        for name in set(user.heads()) - {"main"}:
            user.delete_reference(name)
        user.assign("main", hash=NO_ANCESTOR)
        yield user


@pytest.fixture
def client(server: NessieServer) -> Iterator[NessieClient]:
    with NessieClient(server.uri, ClientProperties({})) as asking:
        yield asking


def commit_time(client: NessieClient, hash: str):
    return client.history(None, hash, page_size=1).commits[0].time


def test_the_configuration_is_what_the_fake_says(client):
    """The default branch, the hash of nothing, the version of the specification."""
    with FakeNessie().client() as of_fake:
        assert client.config() == of_fake.config()


# With other seeds the two may choose different bases for a merge of branches that were merged crosswise before.
@pytest.mark.parametrize("seed", [1, 2, 3, 5])
def test_fake_and_real_server_agree_on_a_random_history(writer, client, seed):
    """Equal up to hashes and ids, under policies of every kind, with and without the state at the cut-off."""
    fake = FakeNessie()
    with NessieWriter(fake.uri, transport=fake.transport) as fake_user:
        fake_hashes = write_random_history(fake_user, seed, 60)
    real_hashes = write_random_history(writer, seed, 60)
    assert len(fake_hashes) == len(real_hashes) > 20
    before = writer.heads()
    middle = len(real_hashes) // 2
    with fake.client() as fake_client:
        for default, pairs in (
            ("NONE", []),
            ("1", [("v.*", "3")]),
            ("4", [("main|dev", "time")]),
            ("time", [("dev.*|.*/x", "0")]),
        ):
            found = []
            for asking, hashes in ((fake_client, fake_hashes), (client, real_hashes)):
                time = commit_time(asking, hashes[middle])
                texts = [(p, format_time(time) if t == "time" else t) for p, t in pairs]
                policies = parse_policies(
                    format_time(time) if default == "time" else default, texts, time
                )
                for keep in (False, True):
                    result = identify(asking, policies, keep_state_at_cutoff=keep)
                    found.append(without_names(result, hashes))
            assert found[:2] == found[2:], f"default {default}, {pairs}"
    assert writer.heads() == before


def without_names(found: Identified, hashes: list[str]) -> dict[str, object]:
    """A result with commits by their number, and ids by the set of rows that have them."""
    numbers = {hash: number for number, hash in enumerate(hashes)}
    rows: dict[str, set[tuple[object, ...]]] = {}
    for r in found.references:
        hash = r.commit_id.partition("#")[
            0
        ]  # of two keys with one id, which is second is the server's choice
        state = (r.content_key, r.content_type, r.metadata_location, r.snapshot_id)
        rows.setdefault(r.content_id, set()).add((numbers[hash], *state))
    return {
        "rows": {frozenset(of_id) for of_id in rows.values()},
        "heads": {name: numbers[hash] for name, hash in found.heads.items()},
        "others": {(o.content_key, o.kind, o.locations) for o in found.others},
        "dropped": {(d.content_key, d.metadata_location, d.snapshot_id) for d in found.dropped},
        "counts": (found.commits_read, found.commits_live, found.references_walked),
    }


def test_more_commits_than_a_page_are_all_read(writer, client):
    """The server sends 250 at most; forks and tags of shared history add nothing."""
    hashes = [writer.commit("main", {T: table(f"s3://lake/t/{n}.json", n)}) for n in range(270)]
    writer.create_tag("v1", hash=hashes[10])
    writer.create_branch("a/b", hash=hashes[100])
    fork = writer.commit("a/b", {("db", "u"): table("s3://lake/u/1.json", 1)})
    told: list[int] = []
    found = identify(
        client, parse_policies("NONE", [], commit_time(client, fork)), on_progress=told.append
    )
    assert told == [250, 20, 10]
    assert found.commits_read == found.commits_live == 271
    assert {r.commit_id for r in found.references} == {*hashes, fork}


def test_one_id_under_two_keys_is_not_lost(writer, client):
    """A rename that is merged without its delete: the server keeps both keys, with one id."""
    writer.commit("main", {T: table("s3://lake/t/1.json", 1)})
    writer.create_branch("dev")
    writer.rename("dev", T, ("db", "u"))
    writer.commit("dev", {("db", "u"): table("s3://lake/t/2.json", 2)})
    writer.commit("main", {T: table("s3://lake/t/3.json", 3)})
    merged = writer.merge("dev", drop=[T])
    writer.delete_reference("dev")
    found = list(identify(client, parse_policies("1", [], commit_time(client, merged))).references)
    assert {r.metadata_location for r in found} == {"s3://lake/t/2.json", "s3://lake/t/3.json"}
    assert len({r.content_id for r in found}) == 1
    assert {r.commit_id for r in found} == {merged, f"{merged}#2"}


def test_a_deleted_reference_is_an_error(writer, client):
    """The log of a name that is gone is refused by the server too."""
    writer.commit("main", {T: table("s3://lake/t/1.json", 1)})
    writer.create_branch("dev")
    hash = writer.commit("dev", {T: table("s3://lake/t/2.json", 2)})
    writer.delete_reference("dev")
    with pytest.raises(CatalogNotFoundError, match="dev"):
        client.history("dev", hash, page_size=10)


def test_an_empty_catalog_has_nothing_live(writer, client):
    """A branch without commits stands at the hash of nothing."""
    found = identify(client, parse_policies("NONE", [], FakeNessie().now))
    assert list(found.references) == []
    assert found.heads == {"BRANCH main": NO_ANCESTOR}
