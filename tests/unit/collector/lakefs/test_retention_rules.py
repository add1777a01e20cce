"""Rules as users write them are checked before a server sees them."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime

import httpx
import pytest

from lakesweep.collector.lakefs.retention_rules import change_rules, parse_rules
from lakesweep.domain.commits import BranchHead, BranchId, CommitId
from lakesweep.domain.location import Location
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import CatalogError, ConfigError
from lakesweep.storage import open_store
from lakesweep_testing.fake_lakefs import FakeLakeFS

AT = datetime(2026, 5, 1, tzinfo=UTC)
# As in lakeFS's documentation.
EXAMPLE = """{"default_retention_days": 21, "branches": [
    {"branch_id": "main", "retention_days": 28}, {"branch_id": "dev", "retention_days": 7}]}"""


def test_rules_survive_a_round_trip() -> None:
    """What `show` prints, `set` reads."""
    rules = parse_rules(EXAMPLE, "x")
    assert rules == RetentionRules(21, {BranchId("main"): 28, BranchId("dev"): 7})
    assert parse_rules(json.dumps(rules.as_json()), "x") == rules
    assert parse_rules('{"default_retention_days": 3}', "x") == RetentionRules(3, {})
    # As a real server answers it.
    assert parse_rules('{"default_retention_days": 3, "branches": null}', "x") == RetentionRules(3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "should be"),
        ("{}", "default_retention_days is not a whole number"),
        ('{"default_retention_days": -1}', "negative"),
        ('{"default_retention_days": true}', "whole number"),
        ('{"default_retention_days": 1.5}', "whole number"),
        ('{"default_retention_days": "7"}', "whole number"),
        ('{"default_retention_days": 99999999999}', "too large"),
        ('{"default_retention_days": 1, "branch": []}', "unknown field 'branch'"),
        ('{"default_retention_days": 1, "branches": {}}', "not a list"),
        ('{"default_retention_days": 1, "branches": {"a": 1}}', "not a list"),
        ('{"default_retention_days": 1, "branches": [{"branch_id": "a"}]}', "retention_days of a"),
        ('{"default_retention_days": 1, "branches": [{"retention_days": 1}]}', "branch_id"),
        (
            '{"default_retention_days": 1, "branches": [{"branch_id": "a", "retention_days": -7}]}',
            "negative",
        ),
        (
            '{"default_retention_days": 1, "branches": [{"branch_id": "a", "retention_days": 1},'
            ' {"branch_id": "a", "retention_days": 2}]}',
            "two rules",
        ),
        (
            '{"default_retention_days": 1, "branches": [{"branch_id": "\\ud800", "retention_days": 1}]}',
            "is not text",
        ),
        ('{"default_retention_days": 0}', "no rules at all"),
    ],
)
def test_wrong_rules_are_refused(text: str, why: str) -> None:
    """With what is wrong, and the promise that nothing was changed."""
    with pytest.raises(ConfigError, match=why) as error:
        parse_rules(text, "rules.json")
    assert "rules.json" in error.value.message
    assert "Nothing was changed" in error.value.message


def server(rules_kept: RetentionRules | None) -> FakeLakeFS:
    namespace = f"mem://rules-{uuid.uuid4().hex}"
    fake = FakeLakeFS(open_store(Location.parse(namespace)), namespace)
    fake.branches = [BranchHead(BranchId("main"), CommitId("c"))]
    fake.rules = rules_kept
    fake.overrides["PUT", "settings/gc_rules"] = lambda _: httpx.Response(204)
    return fake


def test_rules_are_read_back_and_rules_for_nobody_are_told() -> None:
    """A rule for a branch that does not exist is allowed, and worth a word."""
    rules = RetentionRules(7, {BranchId("main"): 1, BranchId("ghost"): 2})
    assert change_rules(server(rules).client(), "repo", rules) == [
        "there is no branch ghost now; its rule is kept for when there is one"
    ]


def test_a_server_that_keeps_other_rules_is_an_error() -> None:
    """Real servers read some rules back as none."""
    with pytest.raises(CatalogError, match="none at all"):
        change_rules(server(None).client(), "repo", RetentionRules(7))
