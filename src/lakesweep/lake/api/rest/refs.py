"""Two refs side by side: diff, merge base, merge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import cast

from fastapi import APIRouter
from starlette.responses import Response

from lakesweep.lake.api.replies import json_reply
from lakesweep.lake.api.rest.dependencies import CallerDep, LakeDep, PageDep
from lakesweep.lake.api.rest.models import MergeBody
from lakesweep.lake.api.rest.wire import Document, diff_document, object_document, page_document
from lakesweep.lake.errors import InvalidRequestError
from lakesweep.lake.lake import Lake
from lakesweep.lake.refs.expressions import RefExpression
from lakesweep.lake.values import DiffEntry, DiffMode, MergeStrategy

router = APIRouter(prefix="/repositories/{repository}/refs")

_STRATEGIES = ("", "dest-wins", "source-wins")
_RIGHT_KEYS = ("checksum", "mtime", "metadata", "content_type")


@router.get("/{left_ref}/diff/{right_ref}")
def diff_refs(
    lake: LakeDep,
    repository: str,
    left_ref: str,
    right_ref: str,
    page: PageDep,
    delimiter: str = "",
    type: DiffMode = "three_dot",
    include_right_stats: bool = False,
) -> Response:
    """What changes from left to right."""
    if include_right_stats and not RefExpression.parse(right_ref).is_staging_only:
        # The commit that is compared, and not what is staged over it or what the branch moves to meanwhile.
        right_ref = lake.refs.resolve(lake.repositories.get(repository), right_ref).commit_id
    found = lake.diffing.diff_refs(
        lake.repositories.get(repository),
        left_ref,
        right_ref,
        mode=type,
        **page,
        delimiter=delimiter,
    )
    if include_right_stats:
        to_document = _diff_with_right_side(lake, repository, right_ref)
        return json_reply(page_document(found, to_document))
    return json_reply(page_document(found, diff_document))


@router.get("/{source_ref}/merge/{destination_branch}")
def find_merge_base(
    lake: LakeDep, repository: str, source_ref: str, destination_branch: str
) -> Response:
    """The commits a merge would start from."""
    found = lake.merging.merge_base(
        lake.repositories.get(repository), source_ref, destination_branch
    )
    return json_reply(asdict(found))


@router.post("/{source_ref}/merge/{destination_branch}")
def merge_into_branch(
    lake: LakeDep,
    caller: CallerDep,
    repository: str,
    source_ref: str,
    destination_branch: str,
    body: MergeBody | None = None,
) -> Response:
    """Merge a ref into a branch."""
    body = body or MergeBody()
    if body.strategy not in _STRATEGIES:
        raise InvalidRequestError(
            f"{body.strategy!r} is not a merge strategy; nothing was merged. Use dest-wins or source-wins."
        )
    reference = lake.merging.merge(
        lake.writable(repository, force=body.force),
        source_ref,
        destination_branch,
        committer=caller.username,
        message=body.message,
        metadata=body.metadata,
        strategy=cast(MergeStrategy, body.strategy),
        allow_empty=body.allow_empty or body.force,
        squash_merge=body.squash_merge,
    )
    return json_reply({"reference": reference})


def _diff_with_right_side(
    lake: Lake, repository: str, right_ref: str
) -> Callable[[DiffEntry], Document]:
    def to_document(entry: DiffEntry) -> Document:
        document = diff_document(entry)
        if entry.path_type == "object" and entry.type in ("added", "changed"):
            stats = object_document(
                lake.objects.stat(lake.repositories.get(repository), right_ref, entry.path)
            )
            document["right"] = {key: stats[key] for key in _RIGHT_KEYS}
        return document

    return to_document
