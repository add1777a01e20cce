"""A call that the server denies names the right that it needs, and the policy statement that gives it."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import CatalogDeniedError

REPOSITORY = "arn:lakefs:fs:::repository/shop"
COMMITS = "retention:PrepareGarbageCollectionCommits"

CALLS: dict[str, tuple[Callable[[LakeFSClient], object], str]] = {
    "fs:ReadConfig": (lambda c: c.profile(), "*"),
    "fs:ReadRepository": (lambda c: c.repository("shop"), REPOSITORY),
    "fs:ListRepositories": (lambda c: c.repositories(), "*"),
    "fs:ListBranches": (lambda c: c.branches("shop"), REPOSITORY),
    "fs:ListTags": (lambda c: c.tags("shop"), REPOSITORY),
    "fs:ReadCommit": (lambda c: c.commit("shop", "main"), REPOSITORY),
    "fs:ReadBranch": (lambda c: list(c.log("shop", "main")), f"{REPOSITORY}/branch/*"),
    "fs:ListBranches and fs:ListTags and fs:ListCommits": (
        lambda c: c.dump_refs("shop"),
        REPOSITORY,
    ),
    "fs:ReadObject": (lambda c: c.stat_object("shop", "main", "p"), f"{REPOSITORY}/object/*"),
    "fs:ListObjects": (lambda c: list(c.list_objects("shop", "main")), REPOSITORY),
    "retention:GetGarbageCollectionRules": (lambda c: c.rules("shop"), REPOSITORY),
    "retention:SetGarbageCollectionRules": (
        lambda c: c.set_rules("shop", RetentionRules(7)),
        REPOSITORY,
    ),
    COMMITS: (lambda c: c.prepare_commits("shop"), REPOSITORY),
    f"{COMMITS} ": (lambda c: c.start_prepare_commits("shop"), REPOSITORY),
    f"{COMMITS}  ": (lambda c: c.prepare_commits_status("shop", "t"), REPOSITORY),
    "retention:PrepareGarbageCollectionUncommitted": (
        lambda c: c.prepare_uncommitted("shop"),
        REPOSITORY,
    ),
}


def client_of(status: int, message: str) -> LakeFSClient:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, json={"message": message})

    transport = httpx.MockTransport(answer)
    return LakeFSClient("http://lakefs.example", "key", "secret-secret", http_transport=transport)


@pytest.mark.parametrize("right", CALLS)
def test_a_denied_call_names_its_right_and_the_statement_that_gives_it(right: str) -> None:
    """As lakeFS itself checks it, on each route."""
    call, resource = CALLS[right]
    with (
        client_of(401, "insufficient permissions") as client,
        pytest.raises(CatalogDeniedError) as caught,
    ):
        call(client)
    message = caught.value.message
    assert f"The right that is missing is {right.strip()} on {resource}." in message
    statement = json.loads(message[message.index("{") :])
    assert statement == {
        "effect": "allow",
        "action": right.strip().split(" and "),
        "resource": resource,
    }


def test_wrong_credentials_come_before_missing_rights() -> None:
    """The server does not say which of the two it is, so both are named."""
    with (
        client_of(401, "error authenticating request") as client,
        pytest.raises(CatalogDeniedError, match=r"Check the access key and secret.*ListBranches"),
    ):
        client.branches("shop")


def test_a_read_only_repository_is_told_as_one() -> None:
    """No policy helps there."""
    with client_of(403, "read-only repository") as client, pytest.raises(CatalogDeniedError) as e:
        client.prepare_uncommitted("shop")
    assert e.value.kind == "read-only-repository"
    assert "is read-only" in e.value.message
    assert "policies" not in e.value.message
