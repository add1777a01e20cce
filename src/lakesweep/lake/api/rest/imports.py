"""Import of objects that lie outside the repository."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from lakesweep.lake.api.replies import json_reply, no_content
from lakesweep.lake.api.rest.dependencies import CallerDep, LakeDep
from lakesweep.lake.api.rest.models import ImportBody
from lakesweep.lake.api.rest.wire import import_document
from lakesweep.lake.values import ImportSource

router = APIRouter(prefix="/repositories/{repository}/branches/{branch}/import")


@router.post("")
def start_import(
    lake: LakeDep, caller: CallerDep, repository: str, branch: str, body: ImportBody
) -> Response:
    """Start an import, which ends in one commit."""
    import_id = lake.importing.start(
        lake.writable(repository, force=body.force),
        branch,
        [ImportSource(path.type, path.path, path.destination) for path in body.paths],
        committer=caller.username,
        message=body.commit.message,
        metadata=body.commit.metadata,
    )
    return json_reply({"id": import_id}, 202)


@router.get("")
def get_import_status(lake: LakeDep, repository: str, branch: str, id: str) -> Response:
    """How far an import has come."""
    return json_reply(
        import_document(lake.importing.status(lake.repositories.get(repository), branch, id))
    )


@router.delete("")
def cancel_import(lake: LakeDep, repository: str, branch: str, id: str) -> Response:
    """Stop an import before it commits."""
    lake.importing.cancel(lake.repositories.get(repository), branch, id)
    return no_content()
