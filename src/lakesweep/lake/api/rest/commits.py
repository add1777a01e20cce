"""Commits and the log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from lakesweep.domain.commits import Commit, CommitId, MetaRangeId
from lakesweep.lake.api.replies import json_reply, no_content
from lakesweep.lake.api.rest.dependencies import CallerDep, LakeDep, PageDep
from lakesweep.lake.api.rest.models import CommitBody, CommitRecordBody
from lakesweep.lake.api.rest.wire import commit_document, page_document

router = APIRouter(prefix="/repositories/{repository}")


@router.post("/branches/{branch}/commits")
def commit(
    lake: LakeDep,
    caller: CallerDep,
    repository: str,
    branch: str,
    body: CommitBody,
    source_metarange: str = "",
) -> Response:
    """Commit what is staged on the branch."""
    date = datetime.fromtimestamp(body.date, UTC) if body.date is not None else None
    made = lake.committing.commit(
        lake.writable(repository, force=body.force),
        branch,
        body.message,
        committer=caller.username,
        metadata=body.metadata,
        date=date,
        allow_empty=body.allow_empty,
        source_metarange=source_metarange,
    )
    return json_reply(commit_document(made), 201)


@router.get("/commits/{ref}")
def get_commit(lake: LakeDep, repository: str, ref: str) -> Response:
    """The commit that a ref expression means."""
    return json_reply(commit_document(lake.refs.commit(lake.repositories.get(repository), ref)))


@router.get("/refs/{ref}/commits")
def log_commits(
    lake: LakeDep,
    repository: str,
    ref: str,
    page: PageDep,
    objects: Annotated[list[str] | None, Query()] = None,
    prefixes: Annotated[list[str] | None, Query()] = None,
    limit: bool = False,
    first_parent: bool = False,
    since: datetime | None = None,
    stop_at: str = "",
) -> Response:
    """Commits that the ref reaches, newest first."""
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    target = lake.repositories.get(repository)
    after = page["after"] and lake.refs.resolve(target, page["after"]).commit_id
    found = lake.log.page(
        target,
        ref,
        after=after,
        amount=page["amount"],
        objects=objects or (),
        prefixes=prefixes or (),
        limit=limit,
        first_parent=first_parent,
        since=since,
        stop_at=stop_at,
    )
    return json_reply(page_document(found, commit_document))


@router.post("/commits")
def create_commit_record(lake: LakeDep, repository: str, body: CommitRecordBody) -> Response:
    """Store a commit record that was made elsewhere."""
    record = Commit(
        id=CommitId(body.commit_id),
        committer=body.committer,
        message=body.message,
        creation_date=datetime.fromtimestamp(body.creation_date, UTC),
        meta_range_id=MetaRangeId(body.metarange_id),
        parents=tuple(CommitId(parent) for parent in body.parents),
        metadata=body.metadata,
        version=body.version,
        generation=body.generation,
    )
    lake.commits.create_record(lake.writable(repository, force=body.force), record)
    return no_content()
