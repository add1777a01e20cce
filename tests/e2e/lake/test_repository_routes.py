"""Repositories over REST."""

from __future__ import annotations

import pytest


def test_repository_as_created(repo) -> None:
    """What was asked for, with integers where clients want integers."""
    document = repo.ok("GET", "")
    assert document["id"] == repo.name
    assert document["default_branch"] == "main"
    assert document["storage_namespace"] == f"local://{repo.name}"
    assert document["read_only"] is False
    assert isinstance(document["creation_date"], int)
    assert repo.ok("GET", "/metadata") == {}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "fresh-one"}, 400),
        ({"name": "UPPER", "storage_namespace": "local://u"}, 400),
        ({"name": "../up", "storage_namespace": "local://u"}, 400),
        ({"name": "fresh-one", "storage_namespace": "ftp://u"}, 400),
        ({"name": "fresh-one", "storage_namespace": "local://../outside"}, 400),
        ({"name": "fresh-one", "storage_namespace": "local://a/../../outside"}, 400),
        ({"name": "fresh-one", "storage_namespace": 5}, 400),
        ({"name": "fresh-one", "storage_namespace": "local://f", "sample_data": True}, 501),
        ({"name": "fresh-one", "storage_namespace": "local://f", "storage_id": "other"}, 400),
        ([], 400),
    ],
)
def test_repository_that_can_not_be(api, body: object, status: int) -> None:
    """Bad names, namespaces outside the data folder, and wishes that can't be met are refused."""
    reply = api.send("POST", "/repositories", json=body)
    assert reply.status_code == status, reply.text
    assert api.send("GET", "/repositories/fresh-one").status_code == 404


def test_name_and_namespace_are_taken_once(repo) -> None:
    """A second repository can't have the name, the namespace, or a place inside or around it."""
    body = {"name": repo.name, "storage_namespace": "local://elsewhere-entirely"}
    assert repo.api.send("POST", "/repositories", json=body).status_code == 409
    for namespace in (repo.name, f"{repo.name}/", f"{repo.name}/inside", f"{repo.name}/data"):
        body = {"name": f"{repo.name}-b", "storage_namespace": f"local://{namespace}"}
        assert repo.api.send("POST", "/repositories", json=body).status_code == 400, namespace


_COMMIT = {"message": "m"}
_SOURCE = {"type": "object", "path": "local://elsewhere/x", "destination": "x"}


@pytest.mark.parametrize(
    ("method", "path", "how"),
    [
        ("DELETE", "", {}),
        ("POST", "/branches", {"json": {"name": "b", "source": "main"}}),
        ("DELETE", "/branches/main", {}),
        ("PUT", "/branches/main", {"json": {"type": "reset"}}),
        ("PUT", "/branches/main/hard_reset", {"params": {"ref": "main"}}),
        ("POST", "/branches/main/revert", {"json": {"ref": "main", "parent_number": 1}}),
        ("POST", "/branches/main/cherry-pick", {"json": {"ref": "main"}}),
        ("POST", "/branches/main/commits", {"json": _COMMIT}),
        ("POST", "/branches/main/import", {"json": {"paths": [_SOURCE], "commit": _COMMIT}}),
        ("POST", "/branches/main/objects", {"params": {"path": "a"}, "content": b"x"}),
        ("DELETE", "/branches/main/objects", {"params": {"path": "a"}}),
        ("POST", "/branches/main/objects/delete", {"json": {"paths": ["a"]}}),
        (
            "POST",
            "/branches/main/objects/copy",
            {"params": {"dest_path": "b"}, "json": {"src_path": "a"}},
        ),
        (
            "PUT",
            "/branches/main/objects/stat/user_metadata",
            {"params": {"path": "a"}, "json": {"set": {}}},
        ),
        ("GET", "/branches/main/staging/backing", {"params": {"path": "a"}}),
        ("POST", "/tags", {"json": {"id": "t", "ref": "main"}}),
        ("DELETE", "/tags/t", {}),
        ("POST", "/refs/main/merge/main", {"json": {}}),
        ("POST", "/gc/rules", {"json": {"default_retention_days": 1, "branches": []}}),
        ("DELETE", "/gc/rules", {}),
        ("POST", "/gc/prepare_commits", {}),
        ("POST", "/gc/prepare_commits/async", {}),
        ("POST", "/gc/prepare_uncommited", {"json": {}}),
    ],
)
def test_read_only_repository_is_not_written_to(
    api, read_only: str, method: str, path: str, how: dict[str, object]
) -> None:
    """Every route that would write says so, before it looks at anything else."""
    reply = api.send(method, f"/repositories/{read_only}{path}", **how)
    assert reply.status_code == 403, reply.text


@pytest.fixture(scope="module")
def read_only(api) -> str:
    body = {"name": "only-read", "storage_namespace": "local://only-read", "read_only": True}
    assert api.send("POST", "/repositories", json=body).status_code == 201
    return "only-read"


def test_list_is_paged(repo) -> None:
    """Pages join to the whole list, each with all of lakeFS's pagination keys."""
    first = repo.api.send("GET", "/repositories", params={"prefix": "repo-", "amount": 1}).json()
    assert set(first["pagination"]) == {"has_more", "next_offset", "results", "max_per_page"}
    found, after = [], ""
    while True:
        query = {"prefix": "repo-", "amount": 2, "after": after}
        page = repo.api.send("GET", "/repositories", params=query).json()
        found += [each["id"] for each in page["results"]]
        if not page["pagination"]["has_more"]:
            assert page["pagination"]["next_offset"] == ""
            break
        after = page["pagination"]["next_offset"]
    assert found == sorted(found)
    assert repo.name in found
    searched = repo.api.send("GET", "/repositories", params={"search": repo.name[1:]}).json()
    assert repo.name in [each["id"] for each in searched["results"]]


@pytest.mark.parametrize("amount", ["1001", "-2", "x", "1.5"])
def test_page_size_out_of_bounds_is_refused(api, amount: str) -> None:
    """lakeFS takes -1 to 1000."""
    assert api.send("GET", "/repositories", params={"amount": amount}).status_code == 400
    assert api.send("GET", "/repositories", params={"amount": "-1"}).status_code == 200


def test_deleted_repository_is_gone_and_its_objects_stay(repo) -> None:
    """Deleting forgets; it does not sweep."""
    stats = repo.put("a")
    assert repo.send("DELETE", "").status_code == 204
    assert repo.send("GET", "").status_code == 404
    assert repo.send("DELETE", "").status_code == 404
    assert repo.bytes_of(stats["physical_address"]).exists()


def test_refs_move_to_a_bare_repository(repo) -> None:
    """A dump, its task form, and a restore that only a bare repository accepts."""
    repo.put("kept", b"kept")
    kept = repo.commit()["id"]
    manifest = repo.ok("PUT", "/refs/dump")
    assert set(manifest) == {
        "commits_meta_range_id",
        "tags_meta_range_id",
        "branches_meta_range_id",
    }
    task = repo.send("POST", "/dump")
    assert task.status_code == 202
    status = repo.ok("GET", "/dump", params={"task_id": task.json()["id"]})
    assert status["done"] is True
    assert set(status["refs"]) == set(manifest)
    assert repo.send("GET", "/dump", params={"task_id": "nonsense"}).status_code == 404
    assert repo.send("GET", "/restore", params={"task_id": task.json()["id"]}).status_code == 404
    repo.put("later")
    repo.commit()
    assert repo.send("PUT", "/refs/restore", json=manifest).status_code == 400
    assert repo.send("POST", "/restore", json=manifest).status_code == 400
    assert repo.send("DELETE", "").status_code == 204
    body = {"name": repo.name, "storage_namespace": f"local://{repo.name}"}
    bare = repo.api.send("POST", "/repositories", params={"bare": "true"}, json=body)
    assert bare.status_code == 201
    assert repo.ok("GET", "/branches")["results"] == []
    restored = repo.send("POST", "/restore", json=manifest)
    assert restored.status_code == 202
    assert repo.ok("GET", "/restore", params={"task_id": restored.json()["id"]})["done"] is True
    assert repo.ok("GET", "/branches/main")["commit_id"] == kept
    assert repo.get("kept").content == b"kept"
