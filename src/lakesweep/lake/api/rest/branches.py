"""Branches: create, move, reset, and the changes staged on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import PlainTextResponse, Response

from lakesweep.lake.api.replies import json_reply, no_content
from lakesweep.lake.api.rest.dependencies import CallerDep, LakeDep, PageDep
from lakesweep.lake.api.rest.free_names import refuse_other_meaning
from lakesweep.lake.api.rest.models import (
    BranchBody,
    CherryPickBody,
    CommitOverrides,
    ResetBody,
    RevertBody,
)
from lakesweep.lake.api.rest.wire import (
    Document,
    commit_document,
    diff_document,
    page_document,
    ref_document,
)
from lakesweep.lake.errors import MissingError
from lakesweep.lake.values import DiffEntry

router = APIRouter(prefix="/repositories/{repository}/branches")

_NO_OVERRIDES = CommitOverrides()


@router.get("")
def list_branches(
    lake: LakeDep, repository: str, page: PageDep, show_hidden: bool = False
) -> Response:
    """Branches in id order."""
    found = lake.branches.page(
        lake.repositories.get(repository),
        **page,
        show_hidden=show_hidden,
    )
    return json_reply(page_document(found, ref_document))


@router.post("")
def create_branch(lake: LakeDep, repository: str, body: BranchBody) -> Response:
    """Create a branch. The reply is the bare commit id: clients print it as it comes."""
    target = lake.writable(repository, force=body.force)
    refuse_other_meaning(lake, target, body.name, "branch")
    branch = lake.refs.create_branch(target, body.name, body.source, is_hidden=body.hidden)
    return PlainTextResponse(branch.commit_id, status_code=201)


@router.get("/{branch}")
def get_branch(lake: LakeDep, repository: str, branch: str) -> Response:
    """A branch and its head."""
    return json_reply(ref_document(lake.branches.head(lake.repositories.get(repository), branch)))


@router.delete("/{branch}")
def delete_branch(lake: LakeDep, repository: str, branch: str, force: bool = False) -> Response:
    """Delete a branch and what is staged on it."""
    lake.branches.delete(lake.writable(repository, force=force), branch)
    return no_content()


@router.put("/{branch}")
def reset_branch(lake: LakeDep, repository: str, branch: str, body: ResetBody) -> Response:
    """Throw away staged changes."""
    try:
        lake.resetting.reset(
            lake.writable(repository, force=body.force), branch, body.type, body.path
        )
    except MissingError as missing:
        # Where nothing is staged there is nothing to throw away, and lakeFS calls that done.
        if missing.kind != "entry-not-found":
            raise
    return no_content()


@router.put("/{branch}/hard_reset")
def hard_reset_branch(
    lake: LakeDep,
    repository: str,
    branch: str,
    ref: Annotated[str, Query(min_length=1)],
    force: bool = False,
) -> Response:
    """Point the branch at another commit."""
    lake.resetting.hard_reset(lake.writable(repository, force=force), branch, ref)
    return no_content()


@router.get("/{branch}/diff")
def diff_branch(
    lake: LakeDep, repository: str, branch: str, page: PageDep, delimiter: str = ""
) -> Response:
    """What is staged on the branch."""
    found = lake.diffing.diff_uncommitted(
        lake.repositories.get(repository),
        branch,
        **page,
        delimiter=delimiter,
    )
    return json_reply(page_document(found, _staged_document))


def _staged_document(entry: DiffEntry) -> Document:
    # lakeFS knows no size for what is staged to be deleted.
    return diff_document(replace(entry, size_bytes=0) if entry.type == "removed" else entry)


@router.post("/{branch}/revert")
def revert_branch(
    lake: LakeDep, caller: CallerDep, repository: str, branch: str, body: RevertBody
) -> Response:
    """Commit the reverse of a commit."""
    overrides = body.commit_overrides or _NO_OVERRIDES
    lake.reverting.revert(
        lake.writable(repository, force=body.force),
        branch,
        body.ref,
        committer=caller.username,
        parent_number=body.parent_number,
        message=overrides.message or f"Revert {body.ref}",
        metadata=overrides.metadata,
        allow_empty=body.allow_empty,
    )
    return no_content()


@router.post("/{branch}/cherry-pick")
def cherry_pick(
    lake: LakeDep, caller: CallerDep, repository: str, branch: str, body: CherryPickBody
) -> Response:
    """Commit what another commit changed."""
    overrides = body.commit_overrides or _NO_OVERRIDES
    commit = lake.reverting.cherry_pick(
        lake.writable(repository, force=body.force),
        branch,
        body.ref,
        committer=caller.username,
        parent_number=body.parent_number,
        message=overrides.message,
        metadata=overrides.metadata,
    )
    return json_reply(commit_document(commit), 201)
