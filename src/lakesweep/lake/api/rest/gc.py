"""What garbage collectors ask: retention rules, retained commits, uncommitted addresses, past heads."""

from __future__ import annotations

import math
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from lakesweep.domain.commits import BranchId, HeadMove
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import UnsupportedStoreError
from lakesweep.lake.api.replies import json_reply, no_content
from lakesweep.lake.api.rest.dependencies import LakeDep, PageDep
from lakesweep.lake.api.rest.models import PrepareUncommittedBody, RulesBody
from lakesweep.lake.api.rest.wire import (
    Document,
    commit_document,
    list_document,
    prepare_status_document,
    prepared_commits_document,
    uncommitted_document,
)
from lakesweep.lake.context import full_address
from lakesweep.lake.errors import InvalidRequestError
from lakesweep.lake.lake import Lake
from lakesweep.lake.records import to_micros
from lakesweep.lake.values import MAX_PAGE, PreparedCommits, Repository

router = APIRouter(prefix="/repositories/{repository}")


@router.get("/settings/gc_rules")
@router.get("/gc/rules")
def get_rules(lake: LakeDep, repository: str) -> Response:
    """The retention rules, under both of lakeFS's addresses."""
    return json_reply(lake.rules.get(lake.repositories.get(repository)).as_json())


@router.put("/settings/gc_rules")
@router.post("/gc/rules")
def set_rules(lake: LakeDep, repository: str, body: RulesBody) -> Response:
    """Set the retention rules."""
    days = {BranchId(rule.branch_id): rule.retention_days for rule in body.branches}
    if len(days) != len(body.branches):
        raise InvalidRequestError("A branch has two rules; the rules were not changed.")
    lake.rules.set(lake.writable(repository), RetentionRules(body.default_retention_days, days))
    return no_content()


@router.delete("/settings/gc_rules")
@router.delete("/gc/rules")
def delete_rules(lake: LakeDep, repository: str) -> Response:
    """Remove the retention rules."""
    lake.rules.delete(lake.writable(repository))
    return no_content()


@router.get("/gc/rules/set_allowed")
def may_set_rules(lake: LakeDep, repository: str) -> Response:
    """Whether the caller may set rules: everyone with credentials may."""
    lake.repositories.get(repository)
    return no_content()


@router.post("/gc/prepare_commits")
def prepare_commits(lake: LakeDep, repository: str) -> Response:
    """Write the list of retained commits."""
    writable = lake.writable(repository)
    prepared = lake.retained_commits.prepare(writable)
    return json_reply(prepared_commits_document(prepared, _list_url(lake, writable, prepared)), 201)


@router.post("/gc/prepare_commits/async")
def start_prepare_commits(lake: LakeDep, repository: str) -> Response:
    """Do so as a task."""
    return json_reply({"id": lake.retained_commits.start(lake.writable(repository))}, 202)


@router.get("/gc/prepare_commits/status")
def get_prepare_commits_status(lake: LakeDep, repository: str, id: str) -> Response:
    """How far the task has come."""
    found = lake.repositories.get(repository)
    status = lake.retained_commits.status(found, id)
    url = None if status.result is None else _list_url(lake, found, status.result)
    return json_reply(prepare_status_document(status, url))


@router.post("/gc/prepare_uncommited")
def prepare_uncommitted(
    lake: LakeDep, repository: str, body: PrepareUncommittedBody | None = None
) -> Response:
    """Write one page of the list of uncommitted addresses. The path has one t, as in lakeFS."""
    token = body.continuation_token if body else None
    return json_reply(
        uncommitted_document(lake.uncommitted_list.prepare(lake.writable(repository), token)), 201
    )


@router.get("/gc/head_moves")
def list_head_moves(lake: LakeDep, repository: str, page: PageDep) -> Response:
    """Heads that branches left by deletion or hard reset, which lakeFS forgets."""
    found = lake.head_moves.page(
        lake.repositories.get(repository), after=page["after"], amount=page["amount"]
    )
    listed = list_document(
        [_head_move_document(move) for move in found.results], found.has_more, found.next_offset
    )
    return json_reply({"pagination": listed["pagination"], "moves": listed["results"]})


@router.get("/gc/commits")
def list_all_commits(lake: LakeDep, repository: str, page: PageDep) -> Response:
    """Every commit in id order, also those that no branch reaches, with the exact time at which each was made."""
    found = lake.commits.page(
        lake.repositories.get(repository), after=page["after"], amount=page["amount"]
    )
    commits = [
        {**commit_document(commit), "creation_micros": to_micros(commit.creation_date)}
        for commit in found.results
    ]
    return json_reply(list_document(commits, found.has_more, found.next_offset))


@router.get("/gc/holders")
def find_address_holders(
    lake: LakeDep, repository: str, address: Annotated[list[str], Query(max_length=MAX_PAGE)]
) -> Response:
    """What holds these addresses outside of commits: staged entries, tracked copies, uploads under way."""
    found = lake.address_holders.find(lake.repositories.get(repository), address)
    holders = [
        {
            "kind": holder.kind,
            "address": holder.address,
            "branch_id": holder.branch_id,
            "path": holder.path,
            "until_micros": None if holder.until is None else to_micros(holder.until),
        }
        for holder in found
    ]
    return json_reply({"holders": holders})


def _list_url(lake: Lake, repository: Repository, prepared: PreparedCommits) -> str | None:
    """A presigned URL of the list, where the lake and the store have such; the list is good without one."""
    if not lake.settings.presigned_store:
        return None
    key = prepared.commits_location.removeprefix(full_address(repository, ""))
    try:
        return lake.signed_urls.sign_key(repository, key).url
    except UnsupportedStoreError:
        return None


def _head_move_document(move: HeadMove) -> Document:
    # Rounded up: a head must not seem to have been left earlier than it was.
    until = math.ceil(move.until.timestamp())
    return {"branch_id": move.branch_id, "commit_id": move.commit_id, "until": until}
