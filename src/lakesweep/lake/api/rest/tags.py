"""Tags."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from lakesweep.lake.api.replies import json_reply, no_content
from lakesweep.lake.api.rest.dependencies import LakeDep, PageDep
from lakesweep.lake.api.rest.free_names import refuse_other_meaning
from lakesweep.lake.api.rest.models import TagBody
from lakesweep.lake.api.rest.wire import page_document, ref_document

router = APIRouter(prefix="/repositories/{repository}/tags")


@router.get("")
def list_tags(lake: LakeDep, repository: str, page: PageDep) -> Response:
    """Tags in id order."""
    found = lake.tags.page(lake.repositories.get(repository), **page)
    return json_reply(page_document(found, ref_document))


@router.post("")
def create_tag(lake: LakeDep, repository: str, body: TagBody) -> Response:
    """Name a commit."""
    target = lake.writable(repository, force=body.force)
    refuse_other_meaning(lake, target, body.id, "tag")
    return json_reply(ref_document(lake.refs.create_tag(target, body.id, body.ref)), 201)


@router.get("/{tag}")
def get_tag(lake: LakeDep, repository: str, tag: str) -> Response:
    """A tag and its commit."""
    return json_reply(ref_document(lake.tags.get(lake.repositories.get(repository), tag)))


@router.delete("/{tag}")
def delete_tag(lake: LakeDep, repository: str, tag: str, force: bool = False) -> Response:
    """Delete a tag."""
    lake.tags.delete(lake.writable(repository, force=force), tag)
    return no_content()
