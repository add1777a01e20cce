"""Repositories, and all their refs in bulk."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter
from starlette.responses import Response

from lakesweep.domain.commits import MetaRangeId
from lakesweep.errors import ObjectNotFoundError
from lakesweep.formats.refs_dump import RefsManifest
from lakesweep.lake.api.replies import json_reply, no_content
from lakesweep.lake.api.rest import finished_tasks
from lakesweep.lake.api.rest.dependencies import CallerDep, LakeDep, PageDep
from lakesweep.lake.api.rest.models import RefsBody, RepositoryBody
from lakesweep.lake.api.rest.wire import page_document, repository_document
from lakesweep.lake.errors import InvalidRequestError, UnsupportedOperationError

router = APIRouter(prefix="/repositories")


@router.get("")
def list_repositories(
    lake: LakeDep, caller: CallerDep, page: PageDep, search: str = ""
) -> Response:
    """Repositories that the key reaches, in id order."""
    found = lake.repositories.page(**page, search=search, caller=caller)
    return json_reply(page_document(found, repository_document))


@router.post("")
def create_repository(lake: LakeDep, body: RepositoryBody, bare: bool = False) -> Response:
    """Create a repository; a bare one waits for its refs to be restored."""
    if body.sample_data:
        raise UnsupportedOperationError(
            f"There is no sample data to put into {body.name}; it was not created. Leave sample_data out."
        )
    if body.storage_id:
        raise InvalidRequestError(
            f"There is no storage {body.storage_id!r}; {body.name} was not created. Leave storage_id out."
        )
    try:
        repository = lake.repositories.create(
            body.name,
            body.storage_namespace,
            default_branch=body.default_branch or "main",
            is_read_only=body.read_only,
            is_bare=bare,
        )
    except ObjectNotFoundError as missing:
        # Of all objects none is looked for but the bucket: a slip in its name, which no retry mends.
        raise InvalidRequestError(f"{body.name} was not created: {missing.message}") from missing
    document = repository_document(repository)
    if bare:
        # lakeFS says nothing about it here.
        del document["read_only"]
    return json_reply(document, 201)


@router.get("/{repository}")
def get_repository(lake: LakeDep, repository: str) -> Response:
    """One repository."""
    return json_reply(repository_document(lake.repositories.get(repository)))


@router.delete("/{repository}")
def delete_repository(lake: LakeDep, repository: str, force: bool = False) -> Response:
    """Forget a repository; its objects stay."""
    lake.repositories.delete(repository, force=force)
    return no_content()


@router.get("/{repository}/metadata")
def get_repository_metadata(lake: LakeDep, repository: str) -> Response:
    """Always empty: no operation here sets any."""
    lake.repositories.get(repository)
    return json_reply({})


@router.put("/{repository}/refs/dump")
def dump_refs(lake: LakeDep, repository: str) -> Response:
    """Write commits, branches and tags into the repository's store."""
    return json_reply(asdict(lake.dumping.dump(lake.repositories.get(repository))), 201)


@router.put("/{repository}/refs/restore")
def restore_refs(lake: LakeDep, repository: str, body: RefsBody) -> Response:
    """Load a dump into a bare repository."""
    lake.dumping.restore(lake.writable(repository, force=body.force), _manifest(body))
    return Response(status_code=200)


@router.post("/{repository}/dump")
def submit_dump(lake: LakeDep, repository: str) -> Response:
    """The dump as a task, which is what lakectl asks for. It has ended when this answers."""
    manifest = asdict(lake.dumping.dump(lake.repositories.get(repository)))
    task_id = finished_tasks.issue_id(lake, repository, "dump", {"refs": manifest})
    return json_reply({"id": task_id}, 202)


@router.get("/{repository}/dump")
def get_dump_status(lake: LakeDep, repository: str, task_id: str) -> Response:
    """What a dump task wrote."""
    return json_reply(finished_tasks.status_document(lake, repository, "dump", task_id))


@router.post("/{repository}/restore")
def submit_restore(lake: LakeDep, repository: str, body: RefsBody) -> Response:
    """The restore as a task. It has ended when this answers."""
    lake.dumping.restore(lake.writable(repository, force=body.force), _manifest(body))
    return json_reply({"id": finished_tasks.issue_id(lake, repository, "restore", {})}, 202)


@router.get("/{repository}/restore")
def get_restore_status(lake: LakeDep, repository: str, task_id: str) -> Response:
    """Whether a restore task ended."""
    return json_reply(finished_tasks.status_document(lake, repository, "restore", task_id))


def _manifest(body: RefsBody) -> RefsManifest:
    return RefsManifest(
        MetaRangeId(body.commits_meta_range_id),
        MetaRangeId(body.tags_meta_range_id),
        MetaRangeId(body.branches_meta_range_id),
    )
