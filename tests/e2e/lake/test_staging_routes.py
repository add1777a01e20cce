"""Issued addresses, links, and objects that lie elsewhere."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest


def issue(repo, path: str = "a") -> str:
    reply = repo.ok("GET", "/branches/main/staging/backing", params={"path": path})
    address: str = reply["physical_address"]
    return address


def upload(repo, address: str, data: bytes = b"direct") -> None:
    file: Path = repo.bytes_of(address)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def link(repo, address: str, path: str = "a", branch: str = "main", **more: Any) -> Any:
    body = {"staging": {"physical_address": address}, "checksum": '"abc"', "size_bytes": 6}
    return repo.send(
        "PUT",
        f"/branches/{branch}/staging/backing",
        params={"path": path},
        json=body | more,
    )


def test_uploaded_address_is_linked(repo) -> None:
    """Ask, write to the store, link: the object is there, its checksum without quotes."""
    address = issue(repo)
    upload(repo, address)
    reply = link(repo, address, user_metadata={"k": "v"}, content_type="text/plain")
    stats = reply.json()
    assert reply.status_code == 200
    assert (stats["checksum"], stats["metadata"]) == ("abc", {"k": "v"})
    assert repo.get("a").content == b"direct"


def test_address_is_good_for_one_link(repo) -> None:
    """A second link is refused, to the same path too."""
    address = issue(repo)
    upload(repo, address)
    assert link(repo, address).status_code == 200
    assert link(repo, address).status_code == 400


def test_of_many_racing_links_one_wins(repo) -> None:
    """One token, eight clients."""
    address = issue(repo)
    upload(repo, address)
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: link(repo, address).status_code, range(8)))
    assert sorted(statuses) == [200] + [400] * 7
    assert repo.get("a").content == b"direct"


def test_link_checks_everything_it_was_issued_for(repo) -> None:
    """Path, branch, repository, token, the object itself, and a checksum."""
    repo.branch("dev")
    address = issue(repo)
    assert link(repo, address).status_code == 400, "nothing was uploaded"
    upload(repo, address)
    assert link(repo, address, path="b").status_code == 400
    assert link(repo, address, branch="dev").status_code == 400
    assert link(repo, address[:-2] + "zz").status_code == 400
    assert link(repo, address.partition(",")[0]).status_code == 400
    assert link(repo, address, checksum=' "" ').status_code == 400
    assert link(repo, address, size_bytes=-1).status_code == 400
    assert link(repo, "local:///etc/passwd").status_code == 400
    assert link(repo, address).status_code == 200, "the token outlived the wrong tries"


def test_link_if_absent(repo) -> None:
    """412 on a path that exists, and the token stays good."""
    repo.put("a", b"there")
    address = issue(repo)
    upload(repo, address)
    body = {"staging": {"physical_address": address}, "checksum": "c", "size_bytes": 6}
    how: dict[str, Any] = {"params": {"path": "a"}, "json": body}
    refused = repo.send(
        "PUT", "/branches/main/staging/backing", headers={"If-None-Match": "*"}, **how
    )
    assert refused.status_code == 412
    assert repo.get("a").content == b"there"
    assert repo.send("PUT", "/branches/main/staging/backing", **how).status_code == 200


def stage(repo, address: str) -> Any:
    body = {"physical_address": address, "checksum": "c", "size_bytes": 1}
    return repo.send("PUT", "/branches/main/objects", params={"path": "s"}, json=body)


@pytest.mark.parametrize(
    "spelling",
    [
        "local://{repo}/data/x/y",
        "local://{repo}//data/x/y",
        "local://{repo}/../{repo}/data/x/y",
        "local://other/../{repo}/data/x",
        "local://{folder}/data/x/y",
        "file://{folder}/data/x/y",
    ],
)
def test_address_inside_the_namespace_is_not_staged(repo, spelling: str) -> None:
    """In no spelling of it."""
    address = spelling.format(repo=repo.name, folder=repo.folder)
    assert stage(repo, address).status_code == 400
    assert repo.paths() == []


def test_address_no_store_understands_is_refused(repo) -> None:
    """Nor are half addresses."""
    for address in ("", "nothing", "ftp://x/y", "data/x/y"):
        assert stage(repo, address).status_code == 400, address
