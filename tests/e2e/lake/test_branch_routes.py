"""Branches, tags, diffs and merges over REST."""

from __future__ import annotations

import pytest


def test_new_branch_answers_with_a_bare_commit_id(repo) -> None:
    """lakectl prints the body of this reply as it comes."""
    reply = repo.send("POST", "/branches", json={"name": "dev", "source": "main"})
    assert reply.status_code == 201
    assert reply.headers["content-type"].startswith("text/plain")
    assert reply.text == repo.ok("GET", "/branches/main")["commit_id"]


@pytest.mark.parametrize(
    ("name", "source", "status"),
    [("main", "main", 409), ("b/ad", "main", 400), ("-bad", "main", 400), ("b", "nope", 404)],
)
def test_branch_that_can_not_be(repo, name: str, source: str, status: int) -> None:
    """Taken, badly named, from nowhere."""
    reply = repo.send("POST", "/branches", json={"name": name, "source": source})
    assert reply.status_code == status
    assert set(reply.json()) == {"message"}


def test_branches_are_listed_read_and_deleted(repo) -> None:
    """And hidden ones are listed when asked for."""
    for name in ("b1", "b2", "c1"):
        repo.branch(name)
    repo.ok("POST", "/branches", json={"name": "b3", "source": "main", "hidden": True})
    page = repo.ok("GET", "/branches", params={"prefix": "b", "amount": 1})
    assert [ref["id"] for ref in page["results"]] == ["b1"]
    assert page["pagination"]["next_offset"] == "b1"
    rest = repo.ok("GET", "/branches", params={"prefix": "b", "after": "b1"})
    assert [ref["id"] for ref in rest["results"]] == ["b2"]
    everything = repo.ok("GET", "/branches", params={"prefix": "b", "show_hidden": "true"})
    assert [ref["id"] for ref in everything["results"]] == ["b1", "b2", "b3"]
    assert repo.send("DELETE", "/branches/b1").status_code == 204
    assert repo.send("GET", "/branches/b1").status_code == 404
    assert repo.send("DELETE", "/branches/b1").status_code == 404
    assert repo.send("DELETE", "/branches/main").status_code == 403


def test_tags_name_commits(repo) -> None:
    """Made, listed, read, deleted, refused when taken."""
    head = repo.ok("GET", "/branches/main")["commit_id"]
    made = repo.send("POST", "/tags", json={"id": "v1.0", "ref": "main"})
    assert (made.status_code, made.json()) == (201, {"id": "v1.0", "commit_id": head})
    assert repo.send("POST", "/tags", json={"id": "v1.0", "ref": "main"}).status_code == 409
    assert repo.send("POST", "/tags", json={"id": "v/1", "ref": "main"}).status_code == 400
    assert repo.send("POST", "/tags", json={"id": "v2", "ref": "nope"}).status_code == 404
    assert repo.ok("GET", "/tags")["results"] == [{"id": "v1.0", "commit_id": head}]
    assert repo.ok("GET", "/tags/v1.0")["commit_id"] == head
    assert repo.send("DELETE", "/tags/v1.0").status_code == 204
    assert repo.send("GET", "/tags/v1.0").status_code == 404
    assert repo.send("DELETE", "/tags/v1.0").status_code == 404


def test_uncommitted_changes_are_shown_and_thrown_away(repo) -> None:
    """Diff of the staging area; reset of one object, of a prefix, of everything."""
    for path in ("a/1", "a/2", "b/1", "c"):
        repo.put(path)
    diff = repo.ok("GET", "/branches/main/diff")
    assert [(each["path"], each["type"]) for each in diff["results"]] == [
        (path, "added") for path in ("a/1", "a/2", "b/1", "c")
    ]
    folded = repo.ok("GET", "/branches/main/diff", params={"delimiter": "/"})["results"]
    assert folded[0] == {"path": "a/", "path_type": "common_prefix", "type": "prefix_changed"}
    for body, left in (
        ({"type": "object", "path": "never"}, ["a/1", "a/2", "b/1", "c"]),
        ({"type": "object", "path": "c"}, ["a/1", "a/2", "b/1"]),
        ({"type": "common_prefix", "path": "a/"}, ["b/1"]),
        ({"type": "reset"}, []),
    ):
        assert repo.send("PUT", "/branches/main", json=body).status_code == 204
        assert repo.paths() == left
    assert repo.send("PUT", "/branches/main", json={"type": "sideways"}).status_code == 400
    assert repo.send("PUT", "/branches/main", json={"type": "object"}).status_code == 400


def test_hard_reset_moves_the_branch_and_is_remembered(repo) -> None:
    """The head it left is in the log of head moves, for collectors."""
    before = repo.ok("GET", "/branches/main")["commit_id"]
    repo.put("a")
    left = repo.commit()["id"]
    reply = repo.send("PUT", "/branches/main/hard_reset", params={"ref": "main~1"})
    assert reply.status_code == 204
    assert repo.ok("GET", "/branches/main")["commit_id"] == before
    moves = repo.ok("GET", "/gc/head_moves")["moves"]
    assert (left, "main") in [(move["commit_id"], move["branch_id"]) for move in moves]
    assert all(isinstance(move["until"], int) for move in moves)
    assert repo.send("PUT", "/branches/main/hard_reset", params={"ref": "x"}).status_code == 404
    assert repo.send("PUT", "/branches/main/hard_reset").status_code == 400


def test_diff_and_merge_bring_a_branch_over(repo) -> None:
    """Three-dot diff shows what the merge then brings."""
    repo.branch("dev")
    repo.put("new", b"12345", branch="dev")
    repo.commit(branch="dev")
    diff = repo.ok("GET", "/refs/main/diff/dev")["results"]
    assert diff == [{"path": "new", "path_type": "object", "size_bytes": 5, "type": "added"}]
    stats = repo.ok("GET", "/refs/main/diff/dev", params={"include_right_stats": "true"})
    assert set(stats["results"][0]["right"]) == {"checksum", "mtime", "metadata", "content_type"}
    assert repo.send("GET", "/refs/main/diff/dev", params={"type": "x"}).status_code == 400
    base = repo.ok("GET", "/refs/dev/merge/main")
    assert set(base) == {"source_commit_id", "destination_commit_id", "base_commit_id"}
    merged = repo.ok("POST", "/refs/dev/merge/main")
    commit = repo.ok("GET", "/commits/main")
    assert merged == {"reference": commit["id"]}
    assert len(commit["parents"]) == 2
    assert repo.get("new").content == b"12345"
    again = repo.send("POST", "/refs/dev/merge/main", json={})
    assert again.status_code == 400


def test_merge_conflict_and_the_strategies_out_of_it(repo) -> None:
    """A conflict is 409 with an empty reference; a strategy says who wins."""
    repo.put("x", b"base")
    repo.commit()
    repo.branch("dev")
    repo.put("x", b"theirs", branch="dev")
    repo.commit(branch="dev")
    repo.put("x", b"ours")
    repo.commit()
    conflict = repo.send("POST", "/refs/dev/merge/main", json={"message": "m"})
    assert (conflict.status_code, conflict.json()) == (409, {"reference": ""})
    bad = repo.send("POST", "/refs/dev/merge/main", json={"strategy": "coin"})
    assert bad.status_code == 400
    repo.ok("POST", "/refs/dev/merge/main", json={"strategy": "source-wins"})
    assert repo.get("x").content == b"theirs"


def test_dirty_destination_is_not_merged_into(repo) -> None:
    """Staged changes would get mixed up with the merge."""
    repo.branch("dev")
    repo.put("a", branch="dev")
    repo.commit(branch="dev")
    repo.put("b")
    assert repo.send("POST", "/refs/dev/merge/main").status_code == 400


def test_revert_and_cherry_pick(repo) -> None:
    """One takes a commit's change back, the other brings it elsewhere."""
    repo.branch("dev")
    repo.put("a")
    made = repo.commit("adds a", metadata={"k": "v"})
    body = {"ref": made["id"], "parent_number": 0}
    assert repo.send("POST", "/branches/main/revert", json=body).status_code == 204
    assert repo.paths() == []
    picked = repo.send("POST", "/branches/dev/cherry-pick", json={"ref": made["id"]})
    assert picked.status_code == 201
    assert picked.json()["metadata"]["cherry-pick-origin"] == made["id"]
    assert repo.paths("dev") == ["a"]
    missing = repo.send("POST", "/branches/dev/cherry-pick", json={"ref": "nope"})
    assert missing.status_code == 404
    assert repo.send("POST", "/branches/main/revert", json={"ref": "main"}).status_code == 400


def test_reverting_a_merge_needs_its_parent(repo) -> None:
    """Zero is no answer when there are two."""
    repo.branch("dev")
    repo.put("a", branch="dev")
    repo.commit(branch="dev")
    repo.ok("POST", "/refs/dev/merge/main")
    for number, status in ((0, 409), (7, 400), (1, 204)):
        body = {"ref": "main", "parent_number": number}
        assert repo.send("POST", "/branches/main/revert", json=body).status_code == status
