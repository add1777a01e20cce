"""What collectors ask, over REST."""

from __future__ import annotations

import time
from typing import Any

import pyarrow.parquet as pq
import pytest

RULES = {"default_retention_days": 7, "branches": [{"branch_id": "dev", "retention_days": 3}]}


@pytest.mark.parametrize(
    ("address", "setter"), [("/settings/gc_rules", "PUT"), ("/gc/rules", "POST")]
)
def test_rules_are_set_read_and_removed(repo, address: str, setter: str) -> None:
    """Under both of lakeFS's addresses; a list of branches is never null."""
    assert repo.send("GET", address).status_code == 404
    assert repo.send(setter, address, json=RULES).status_code == 204
    assert repo.ok("GET", address) == RULES
    plain = {"default_retention_days": 5, "branches": []}
    assert repo.send(setter, address, json=plain).status_code == 204
    assert repo.ok("GET", address) == plain
    assert repo.send("DELETE", address).status_code == 204
    assert repo.send("GET", address).status_code == 404
    assert repo.send("GET", "/gc/rules/set_allowed").status_code == 204


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"branches": []},
        {"default_retention_days": 5},
        {"default_retention_days": -1, "branches": []},
        {"default_retention_days": "5", "branches": []},
        {"default_retention_days": 5, "branches": [{"branch_id": "b"}]},
        {"default_retention_days": 5, "branches": [{"branch_id": "b", "retention_days": -1}]},
        {"default_retention_days": 5, "branches": [{"branch_id": "b", "retention_days": 1}] * 2},
        {"default_retention_days": 2**40, "branches": []},
    ],
)
def test_rules_that_make_no_sense_are_refused(repo, rules: object) -> None:
    """Missing, negative, doubled: nothing is changed."""
    repo.send("PUT", "/settings/gc_rules", json=RULES)
    assert repo.send("PUT", "/settings/gc_rules", json=rules).status_code == 400
    assert repo.ok("GET", "/settings/gc_rules") == RULES


def _finished(repo, task_id: str) -> Any:
    for _ in range(5000):
        status = repo.ok("GET", "/gc/prepare_commits/status", params={"id": task_id})
        if status["completed"]:
            return status
        time.sleep(0.02)
    raise AssertionError("prepare commits did not end")


def test_retained_commits_are_prepared(repo) -> None:
    """At once, and as a task; the file is where the reply says."""
    repo.put("a")
    commit = repo.commit()
    repo.send("PUT", "/settings/gc_rules", json=RULES)
    reply = repo.send("POST", "/gc/prepare_commits")
    assert reply.status_code == 201
    csv = repo.bytes_of(reply.json()["gc_commits_location"]).read_text()
    assert csv.splitlines()[0] == "commit_id,expired,metarange_id"
    assert f"{commit['id']},false,{commit['meta_range_id']}" in csv.splitlines()
    task = repo.send("POST", "/gc/prepare_commits/async")
    assert task.status_code == 202
    result = _finished(repo, task.json()["id"])["result"]
    assert set(result) >= {"run_id", "gc_commits_location", "gc_addresses_location"}


def test_without_rules_there_is_nothing_to_prepare(repo) -> None:
    """404 at once; as a task, an error in its status."""
    assert repo.send("POST", "/gc/prepare_commits").status_code == 404
    task = repo.ok("POST", "/gc/prepare_commits/async")
    status = _finished(repo, task["id"])
    assert "not found" in status["error"]["message"]
    unknown = repo.send("GET", "/gc/prepare_commits/status", params={"id": "x"})
    assert unknown.status_code == 404


def test_uncommitted_addresses_are_prepared_with_their_count(repo) -> None:
    """Everything staged on every branch, in the file that the reply names."""
    repo.branch("dev")
    addresses = {
        repo.put(f"o{n}", branch=b)["physical_address"] for n in range(3) for b in ("main", "dev")
    }
    reply = repo.send("POST", "/gc/prepare_uncommited", json={})
    page = reply.json()
    assert reply.status_code == 201
    assert "continuation_token" not in page
    assert page["rows_written"] == page["total_rows"] == 6
    folder = repo.bytes_of(page["gc_uncommitted_location"])
    listed = {
        f"{repo.folder}/{address}"
        for file in folder.iterdir()
        for address in pq.read_table(file)["physical_address"].to_pylist()
    }
    assert listed == {str(repo.bytes_of(address)) for address in addresses}
    wrong = repo.send("POST", "/gc/prepare_uncommited", json={"continuation_token": "zz"})
    assert wrong.status_code == 400


def test_deleted_branch_is_in_the_log_of_head_moves(repo) -> None:
    """Its head counts as a head until then."""
    repo.branch("dev")
    repo.put("a", branch="dev")
    left = repo.commit(branch="dev")["id"]
    started_at = time.time()
    repo.send("DELETE", "/branches/dev")
    listed = repo.ok("GET", "/gc/head_moves")
    assert listed["pagination"]["has_more"] is False
    moves = {move["commit_id"]: move for move in listed["moves"]}
    assert moves[left]["branch_id"] == "dev"
    assert moves[left]["until"] >= int(started_at)
