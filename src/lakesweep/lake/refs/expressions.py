"""Ref expressions: `main`, `v1.0`, a commit id or its unique prefix, each with `~N`, `^N`, `@` or `$` behind it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from lakesweep.domain.commits import BranchHead, Commit, CommitId, Tag
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.errors import InvalidRequestError, MissingError
from lakesweep.lake.hard_delete.fence import FenceMovedError
from lakesweep.lake.hard_delete.revivals import Revivals
from lakesweep.lake.refs.branches import MAX_TRIES, Branches, too_many_tries
from lakesweep.lake.refs.tags import Tags
from lakesweep.lake.values import Repository, ResolvedRef
from lakesweep.storage.waiting import about_to_wait

# Read from the end, where each step begins with its number: so the text is gone through once, whatever is in it.
_STEPS_BACKWARDS = re.compile(r"(?:[0-9]*[~^]|[@$])*")
_STEP = re.compile(r"[~^][0-9]*|@|\$")
LONGEST_REF = 2048
"""Characters of an expression: the longest name, and room for steps."""
MOST_STEPS_BACK = 10_000
"""Commits that an expression may walk over."""
_FULL_COMMIT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class RefExpression:
    """A parsed expression: what it starts from, and the steps from there."""

    base: str
    steps: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> RefExpression:
        """The expression; `InvalidRequestError` (`invalid-ref`) when there is none."""
        if not text or len(text) > LONGEST_REF:
            raise InvalidRequestError(
                f"a reference of {len(text)} characters is none: it has 1 to {LONGEST_REF}",
                kind="invalid-ref",
            )
        match = _STEPS_BACKWARDS.match(text[::-1])
        assert match is not None  # no steps at all match, too
        # Steps alone have nothing to start from, so the text is no more than a name that nothing has.
        base_length = len(text) - match.end() or len(text)
        steps = tuple(_STEP.findall(text[base_length:]))
        for step in steps:
            # `@` and `$` say which side of a branch is meant, so nothing can come before or behind them.
            if step in ("@", "$") and len(steps) > 1:
                raise InvalidRequestError(
                    f"{text!r} is not a reference: {step!r} can't be combined", kind="invalid-ref"
                )
        if sum(map(_walked, steps)) > MOST_STEPS_BACK:
            raise InvalidRequestError(
                f"{text[:100]!r} goes back over more than {MOST_STEPS_BACK} commits; ask for the log, and"
                " name the commit by its id",
                kind="invalid-ref",
            )
        return cls(text[:base_length], steps)

    @property
    def is_staging_only(self) -> bool:
        """Whether the branch's staging area is asked for by `$`."""
        return self.steps == ("$",)


class Refs:
    """Finds what an expression means: full commit id, then branch, then tag, then unique commit prefix."""

    def __init__(
        self, branches: Branches, tags: Tags, commits: Commits, revivals: Revivals
    ) -> None:
        self._branches = branches
        self._tags = tags
        self._commits = commits
        self._revivals = revivals

    def create_branch(
        self, repository: Repository, branch_id: str, source_ref: str, *, is_hidden: bool = False
    ) -> BranchHead:
        """A branch at the commit that `source_ref` means; staged changes of the source stay there."""
        not_done = "no branch was created"
        for _ in range(MAX_TRIES):
            fence = self._revivals.fence(repository)
            commit_id = self.resolve_to_point_at(repository, source_ref)
            self._revivals.refuse_commit(repository, fence, commit_id, not_done)
            with suppress(FenceMovedError):
                return self._branches.create(
                    repository, branch_id, commit_id, is_hidden=is_hidden, held=fence.held
                )
        raise too_many_tries(repository, branch_id, not_done)

    def create_tag(self, repository: Repository, tag_id: str, ref: str) -> Tag:
        """A name for the commit that `ref` means; `ConflictError` (`tag-exists`)."""
        not_done = "no tag was created"
        for _ in range(MAX_TRIES):
            fence = self._revivals.fence(repository)
            commit_id = self.resolve_to_point_at(repository, ref)
            self._revivals.refuse_commit(repository, fence, commit_id, not_done)
            with suppress(FenceMovedError):
                return self._tags.create(repository, tag_id, commit_id, fence.held)
        raise too_many_tries(repository, tag_id, not_done)

    def resolve_to_point_at(self, repository: Repository, ref: str) -> CommitId:
        """The commit that `ref` means, which stays from now on whoever made it."""
        commit_id = self.resolve(repository, ref).commit_id
        self._commits.hold(repository, commit_id)
        return commit_id

    def commit(self, repository: Repository, ref: str) -> Commit:
        """The commit that a ref expression means."""
        return self._commits.get(repository, self.resolve(repository, ref).commit_id)

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
            if found.branch is None:
                raise InvalidRequestError(
                    f"{text!r}: only a branch has a staging area", kind="invalid-ref"
                )
            return found if expression.is_staging_only else ResolvedRef(found.commit_id)
        about_to_wait()  # thousands of commits may be walked over
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
            return ResolvedRef(branch.head.commit_id, branch.head)
        tag = self._tags.find(repository, base)
        if tag is not None:
            return ResolvedRef(tag.commit_id)
        commit_id = self._commits.find_by_prefix(repository, base)
        if commit_id is None:
            raise _missing(repository, base)
        return ResolvedRef(commit_id)

    def _step(self, repository: Repository, commit_id: CommitId, step: str, text: str) -> CommitId:
        count = _count(step)
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


def _count(step: str) -> int:
    digits = step[1:].lstrip("0")
    if not digits:
        return 0 if step[1:] else 1
    # More digits than this are more commits than anyone has, and Python reads no number of thousands of digits.
    return int(digits) if len(digits) < 10 else 10**9


def _walked(step: str) -> int:
    return _count(step) if step[0] == "~" else 1


def _missing(repository: Repository, text: str) -> MissingError:
    return MissingError(f"repository {repository.id} has no ref {text!r}", kind="ref-not-found")
