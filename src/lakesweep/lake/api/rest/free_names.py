"""Names that already mean something else: a branch, a tag and a commit are all asked for by one word."""

from __future__ import annotations

from typing import Literal

from lakesweep.lake.errors import ConflictError
from lakesweep.lake.lake import Lake
from lakesweep.lake.values import Repository


def refuse_other_meaning(
    lake: Lake, repository: Repository, name: str, wanted: Literal["branch", "tag"]
) -> None:
    """`ConflictError` where a tag would have a branch's name, a branch a tag's, or either a commit's id.

    One of the two could not be reached by its name any more, and its readers would get the other without a word.
    """
    found = None
    if wanted == "tag" and lake.branches.find(repository, name) is not None:
        found = "branch"
    elif wanted == "branch" and lake.tags.find(repository, name) is not None:
        found = "tag"
    elif lake.commits.find_by_prefix(repository, name) == name:
        found = "commit"
    if found is not None:
        raise ConflictError(
            f"repository {repository.id} has a {found} {name!r}; no {wanted} of that name was created",
            kind=f"{wanted}-exists",
        )
