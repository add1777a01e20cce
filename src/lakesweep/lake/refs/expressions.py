"""Ref expressions: `main`, `v1.0`, a commit id or its unique prefix, each with `~N`, `^N`, `@` or `$` behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakesweep.domain.commits import CommitId
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.errors import InvalidRequestError, MissingError
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.refs.tags import Tags
from lakesweep.lake.values import Repository, ResolvedRef

_EXPRESSION = re.compile(r"(?P<base>.+?)(?P<steps>(?:~\d*|\^\d*|@|\$)*)", re.DOTALL)
_STEP = re.compile(r"[~^]\d*|@|\$")
_FULL_COMMIT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class RefExpression:
    """A parsed expression: what it starts from, and the steps from there."""

    base: str
    steps: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> RefExpression:
        """The expression; `InvalidRequestError` (`invalid-ref`) when there is none."""
        match = _EXPRESSION.fullmatch(text)
        if match is None:
            raise InvalidRequestError("a reference may not be empty", kind="invalid-ref")
        steps = tuple(_STEP.findall(match["steps"]))
        for step in steps:
            # `@` and `$` say which side of a branch is meant, so nothing can come before or behind them.
            if step in ("@", "$") and len(steps) > 1:
                raise InvalidRequestError(
                    f"{text!r} is no reference: {step!r} can't be combined", kind="invalid-ref"
                )
        return cls(match["base"], steps)

    @property
    def is_staging_only(self) -> bool:
        """Whether the branch's staging area is asked for by `$`."""
        return self.steps == ("$",)


class Refs:
    """Finds what an expression means: full commit id, then branch, then tag, then unique commit prefix."""

    def __init__(self, branches: Branches, tags: Tags, commits: Commits) -> None:
        self._branches = branches
        self._tags = tags
        self._commits = commits

    def resolve(self, repository: Repository, text: str) -> ResolvedRef:
        """The commit, and the branch when the expression is a branch with its staging area.

        Raises:
            MissingError: `ref-not-found`.
            InvalidRequestError: the expression can't be read, or `@`/`$` stand behind something that is no branch.
        """
        expression = RefExpression.parse(text)
        found = self._resolve_base(repository, expression.base)
        if not expression.steps:
            return found
        if expression.steps[0] in ("@", "$"):
            if found.branch_id is None:
                raise InvalidRequestError(
                    f"{text!r}: only a branch has a staging area", kind="invalid-ref"
                )
            return found if expression.is_staging_only else ResolvedRef(found.commit_id)
        commit_id = found.commit_id
        for step in expression.steps:
            commit_id = self._step(repository, commit_id, step, text)
        return ResolvedRef(commit_id)

    def _resolve_base(self, repository: Repository, base: str) -> ResolvedRef:
        if _FULL_COMMIT.fullmatch(base):
            full = self._commits.find_by_prefix(repository, base)
            if full is not None:
                return ResolvedRef(full)
        branch = self._branches.find(repository, base)
        if branch is not None:
            return ResolvedRef(branch.head.commit_id, branch.head.id)
        tag = self._tags.find(repository, base)
        if tag is not None:
            return ResolvedRef(tag.commit_id)
        commit_id = self._commits.find_by_prefix(repository, base)
        if commit_id is None:
            raise _missing(repository, base)
        return ResolvedRef(commit_id)

    def _step(self, repository: Repository, commit_id: CommitId, step: str, text: str) -> CommitId:
        count = int(step[1:] or "1")
        if step[0] == "~":
            for _ in range(count):
                parents = self._commits.get(repository, commit_id).parents
                if not parents:
                    raise _missing(repository, text)
                commit_id = parents[0]
            return commit_id
        if count == 0:
            return commit_id
        parents = self._commits.get(repository, commit_id).parents
        if count > len(parents):
            raise _missing(repository, text)
        return parents[count - 1]


def _missing(repository: Repository, text: str) -> MissingError:
    return MissingError(f"repository {repository.id} has no ref {text!r}", kind="ref-not-found")
