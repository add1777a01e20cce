"""Retention rules as users write them: the JSON of lakeFS's own tools, checked before a server sees it."""

from __future__ import annotations

from typing import Any

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.domain.commits import BranchId
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import CatalogError, ConfigError
from lakesweep.json_text import parse_json

_DEFAULT, _BRANCHES = "default_retention_days", "branches"
_BRANCH, _DAYS = "branch_id", "retention_days"
# What a server keeps in a signed 32-bit number.
_MOST_DAYS = 2**31 - 1


def parse_rules(text: str, where: str) -> RetentionRules:
    """Rules from their JSON; `where` names the text in messages.

    Raises:
        ConfigError: it is not the JSON of rules, or asks for days that can't be meant.
    """
    try:
        document = parse_json(text)
    except ValueError as error:
        raise _wrong(where, f"it is not JSON ({error})") from error
    fields = _fields(document, {_DEFAULT, _BRANCHES}, where)
    default = _days(fields.get(_DEFAULT), _DEFAULT, where)
    branches: dict[BranchId, int] = {}
    listed = fields.get(_BRANCHES)
    if listed is not None and not isinstance(listed, list):
        raise _wrong(where, f"{_BRANCHES!r} is not a list")
    for entry in listed or ():
        rule = _fields(entry, {_BRANCH, _DAYS}, where)
        branch = rule.get(_BRANCH)
        if not isinstance(branch, str) or not branch:
            raise _wrong(where, f"a rule has no {_BRANCH!r}")
        if not _is_text(branch):
            raise _wrong(where, f"the {_BRANCH!r} {branch!a} is not text")
        if branch in branches:
            raise _wrong(where, f"there are two rules for branch {branch!r}")
        branches[BranchId(branch)] = _days(rule.get(_DAYS), f"{_DAYS} of {branch}", where)
    if default == 0 and not branches:
        raise _wrong(
            where,
            "servers read 0 days without branches as no rules at all; name a branch to mean 0 days, or use "
            "`lakesweep rules clear`",
        )
    return RetentionRules(default, branches)


def change_rules(client: LakeFSClient, repository: str, rules: RetentionRules) -> list[str]:
    """Set the rules and read them back; answers warnings about rules that do nothing.

    Raises:
        CatalogError: the server took them and keeps others.
    """
    client.repository(repository)
    client.set_rules(repository, rules)
    kept = client.rules(repository)
    if kept != rules:
        raise CatalogError(
            f"The server accepted the rules of {repository}, and now answers with others: {kept or 'none at all'}.",
            kind="rules-not-kept",
        )
    known = {head.id for head in client.branches(repository)}
    return [
        f"there is no branch {branch} now; its rule is kept for when there is one"
        for branch in sorted(rules.branch_retention_days)
        if branch not in known
    ]


def _fields(value: object, known: set[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, f"where {', '.join(sorted(known))} should be, there is {value!r}")
    unknown = sorted(set(value) - known)
    if unknown:
        raise _wrong(where, f"it has an unknown field {unknown[0]!r}")
    return value


def _days(value: object, name: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(where, f"{name} is not a whole number of days")
    if value < 0:
        raise _wrong(where, f"{name} is negative ({value})")
    if value > _MOST_DAYS:
        raise _wrong(where, f"{name} is too large ({value})")
    return value


def _is_text(name: str) -> bool:
    """Whether a request can carry it: JSON can spell half of a surrogate pair."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _wrong(where: str, why: str) -> ConfigError:
    return ConfigError(
        f"The rules in {where} can't be used: {why}. Nothing was changed.", kind="bad-rules"
    )
