"""Which right of lakeFS each of our calls needs, and the policy statement that gives it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Right", "needed_right", "right_to_dump"]

_REPOSITORY = "arn:lakefs:fs:::repository/"
_RULES_OF = {"GET": "Get", "PUT": "Set", "DELETE": "Set"}
_DUMP = ("fs:ListBranches", "fs:ListTags", "fs:ListCommits")
# By the first and last words of the route behind `repositories/NAME`.
_ACTIONS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", ""): ("fs:ReadRepository",),
    ("branches", "branches"): ("fs:ListBranches",),
    ("branches", "diff"): ("fs:ListObjects",),
    ("tags", "tags"): ("fs:ListTags",),
    ("refs", "dump"): _DUMP,
    ("refs", "ls"): ("fs:ListObjects",),
    ("gc", "prepare_commits"): ("retention:PrepareGarbageCollectionCommits",),
    ("gc", "async"): ("retention:PrepareGarbageCollectionCommits",),
    ("gc", "status"): ("retention:PrepareGarbageCollectionCommits",),
    ("gc", "prepare_uncommited"): ("retention:PrepareGarbageCollectionUncommitted",),
}


@dataclass(frozen=True, slots=True)
class Right:
    """What a user must be allowed to do, and on what."""

    actions: tuple[str, ...]
    resource: str

    @property
    def statement(self) -> str:
        """The statement of a lakeFS policy that allows it."""
        allowed = {"effect": "allow", "action": list(self.actions), "resource": self.resource}
        return json.dumps(allowed)


def needed_right(method: str, path: Sequence[str]) -> Right | None:
    """The right that a call needs; None for a route that lakeFS itself does not have or does not guard."""
    if path[0] == "config":
        return Right(("fs:ReadConfig",), "*")
    if path[0] != "repositories":
        return None
    if len(path) == 1:
        return Right(("fs:ListRepositories",), "*")
    repository, route = f"{_REPOSITORY}{path[1]}", path[2:] or [""]
    if route[0] == "commits":
        return Right(("fs:ReadCommit",), repository)
    if route[0] == "settings":
        return Right((f"retention:{_RULES_OF[method]}GarbageCollectionRules",), repository)
    if route[0] == "refs" and route[2:] == ["commits"]:
        return Right(("fs:ReadBranch",), f"{repository}/branch/*")
    if route[0] == "refs" and route[-1] in ("stat", "objects"):
        return Right(("fs:ReadObject",), f"{repository}/object/*")
    actions = _ACTIONS.get((route[0], route[-1]))
    return Right(actions, repository) if actions is not None else None


def right_to_dump(repository: str) -> Right:
    """The right to dump the refs of a repository."""
    return Right(_DUMP, f"{_REPOSITORY}{repository}")
