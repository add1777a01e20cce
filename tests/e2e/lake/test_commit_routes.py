"""Commits and the log over REST."""

from __future__ import annotations

import httpx
import pytest


def test_commit_as_asked_for(repo) -> None:
    """Message, metadata and date are the client's; committer is the caller."""
    repo.put("a")
    reply = repo.send(
        "POST",
        "/branches/main/commits",
        json={"message": "one", "metadata": {"k": "v"}, "date": 1_700_000_000},
    )
    commit = reply.json()
    assert reply.status_code == 201
    assert commit["creation_date"] == 1_700_000_000
    assert (commit["message"], commit["metadata"]) == ("one", {"k": "v"})
    assert (commit["committer"], commit["generation"], commit["version"]) == ("admin", 2, 1)
    for ref in ("main", commit["id"], commit["id"][:12], "main~0", "main@"):
        assert repo.ok("GET", f"/commits/{ref}") == commit
    assert repo.ok("GET", "/commits/main~1")["id"] == commit["parents"][0]


@pytest.mark.parametrize(
    "body", [{}, {"message": 5}, {"message": "m", "date": "now"}, {"message": "m", "date": 1.5}]
)
def test_malformed_commit_is_refused(repo, body: object) -> None:
    """Types are strict."""
    repo.put("a")
    assert repo.send("POST", "/branches/main/commits", json=body).status_code == 400
    assert repo.ok("GET", "/branches/main/diff")["results"] != []


def test_nothing_staged_is_nothing_to_commit(repo) -> None:
    """Unless an empty commit is what the client wants."""
    assert repo.send("POST", "/branches/main/commits", json={"message": "m"}).status_code == 400
    assert repo.commit(allow_empty=True)["generation"] == 2
    assert repo.send("POST", "/branches/no/commits", json={"message": "m"}).status_code == 404


def test_log_is_newest_first_and_paged(repo) -> None:
    """Pages follow each other by commit id; filters keep what changed a path."""
    made = []
    for number, path in enumerate(("a", "dir/b", "a")):
        repo.put(path, str(number).encode())
        made.append(repo.commit(f"c{number}", date=1_700_000_000 + number)["id"])
    log = repo.ok("GET", "/refs/main/commits")
    assert [commit["id"] for commit in log["results"]][:3] == made[::-1]
    page = repo.ok("GET", "/refs/main/commits", params={"amount": 2})
    assert page["pagination"]["has_more"] is True
    after = page["pagination"]["next_offset"]
    rest = repo.ok("GET", "/refs/main/commits", params={"after": after})
    both = page["results"] + rest["results"]
    assert [each["id"] for each in both] == [each["id"] for each in log["results"]]
    touching = repo.ok("GET", "/refs/main/commits", params={"objects": ["a"]})
    assert [commit["id"] for commit in touching["results"]] == [made[2], made[0]]
    below = repo.ok("GET", "/refs/main/commits", params={"prefixes": ["dir/"]})
    assert [commit["id"] for commit in below["results"]] == [made[1]]
    assert repo.send("GET", "/refs/nope/commits").status_code == 404


def test_commit_record_must_carry_its_own_id(repo) -> None:
    """A record whose id is not computed from it is refused."""
    body = {
        "commit_id": "0" * 64,
        "version": 1,
        "committer": "c",
        "message": "m",
        "metarange_id": "",
        "creation_date": 1,
        "parents": [],
        "metadata": {},
        "generation": 1,
    }
    assert repo.send("POST", "/commits", json=body).status_code == 400


def test_metadata_files_are_found_by_id(repo) -> None:
    """Location of a metarange, its bytes, and no way to any other file."""
    repo.put("a")
    metarange = repo.commit()["meta_range_id"]
    found = repo.send("GET", f"/metadata/meta_range/{metarange}")
    assert found.json() == {"location": f"_lakefs/{metarange}"}
    assert found.headers["location"] == f"_lakefs/{metarange}"
    data = repo.send("GET", f"/metadata/object/meta_range/{metarange}")
    assert data.content == (repo.folder / "_lakefs" / metarange).read_bytes()
    assert repo.send("GET", f"/metadata/object/range/{'0' * 64}").status_code == 410
    for wrong in ("dummy", "..%2Fdummy", "..", "%2e%2e", "refs_manifest.json"):
        url = f"{repo.api.server.endpoint}/repositories/{repo.name}/metadata/object/range/{wrong}"
        reply: httpx.Response = repo.api.client.get(url)
        assert reply.status_code in (400, 404), wrong
