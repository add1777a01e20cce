"""Negative controls: the protocol of online hard delete with one step left out or put in the wrong place.

Each shows that the step is needed: the explorer finds a schedule that loses data, or one after which something stays
for ever. A control is a set of patches, and the program that it is tried on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from lakesweep.lake.commits.committing import Committing
from lakesweep.lake.hard_delete import reviewer
from lakesweep.lake.hard_delete.fence import Fence, FoundFence
from lakesweep.lake.hard_delete.queue import Queue, unique
from lakesweep.lake.hard_delete.references import References
from lakesweep.lake.hard_delete.reviewer import Reviewer
from lakesweep.lake.hard_delete.revivals import Revivals
from lakesweep.lake.hard_delete.tombs import Tombs
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.staging.staging_area import Staging
from lakesweep_testing.schedules import collection
from lakesweep_testing.schedules.collection import sweep_planned
from lakesweep_testing.schedules.programs import revivals

Patches = Callable[[ExitStack], None]


@dataclass(frozen=True, slots=True)
class Control:
    """A step left out: what is wrong then, the program that shows it, and what it leads to (loss or leak)."""

    name: str
    program: str
    wrong: Patches
    leads_to: str = "loss"

    @contextmanager
    def put_in(self) -> Iterator[None]:
        """Within, the protocol is wrong."""
        with ExitStack() as stack:
            self.wrong(stack)
            yield


def _no_second_look(stack: ExitStack) -> None:
    def delete_at_once(self: Reviewer, *args: Any) -> None:
        real_look, self._references = self._references, _NothingFound()  # type: ignore[assignment]
        try:
            real(self, *args)
        finally:
            self._references = real_look

    real = Reviewer._delete_unreferenced
    stack.enter_context(patch.object(Reviewer, "_delete_unreferenced", delete_at_once))


class _NothingFound:
    def find(self, *_: object) -> dict[str, object]:
        return {}


def _second_look_before_condemning(stack: ExitStack) -> None:
    def condemn(self: Reviewer, repository: Any, addresses: Any, now: Any) -> Any:
        looked = self._references.find(repository, addresses)
        mine = real_condemn(self, repository, addresses, now)
        self._early = looked  # type: ignore[attr-defined]
        return mine

    def delete(self: Reviewer, *args: Any) -> None:
        real_look = self._references
        self._references = _FoundEarly(self._early)  # type: ignore[assignment, attr-defined]
        try:
            real_delete(self, *args)
        finally:
            self._references = real_look

    real_condemn, real_delete = Reviewer._condemn, Reviewer._delete_unreferenced
    stack.enter_context(patch.object(Reviewer, "_condemn", condemn))
    stack.enter_context(patch.object(Reviewer, "_delete_unreferenced", delete))


class _FoundEarly:
    def __init__(self, found: Any) -> None:
        self._found = found

    def find(self, *_: object) -> Any:
        return self._found


def _fence_not_read_again(stack: ExitStack) -> None:
    stack.enter_context(patch.object(reviewer, "_standing", lambda _, mine: set(mine)))


def _lifted_without_a_look(stack: ExitStack) -> None:
    def lift_first(self: Reviewer, repository: Any) -> int:
        condemned = self._fence.read(repository).state.condemned
        self._lift(repository, condemned, [])
        return real(self, repository)

    real = Reviewer.review
    stack.enter_context(patch.object(Reviewer, "review", lift_first))


def _commits_looked_at_first(stack: ExitStack) -> None:
    def find(self: References, repository: Any, addresses: Any) -> Any:
        commits = list(self._commits.all_with_maker(repository))
        with patch.object(self._commits, "all_with_maker", lambda _: iter(commits)):
            return real(self, repository, addresses)

    real = References.find
    stack.enter_context(patch.object(References, "find", find))


def _unconditional(held_by: type) -> Patches:
    """Writes of one kind do not look whether the fence is as it was read."""

    def wrong(stack: ExitStack) -> None:
        def read(self: Fence, repository: Any) -> FoundFence:
            found = real(self, repository)
            maker = _calling_class()
            if maker is not held_by:
                return found
            partition = found.held[0]
            return replace(found, held=(partition, b"no such key", None))  # type: ignore[arg-type]

        real = Fence.read
        stack.enter_context(patch.object(Fence, "read", read))

    return wrong


def _calling_class() -> type | None:
    """The class of the object that called `Fence.read`, two frames up."""
    caller = sys._getframe(2).f_locals.get("self")
    return None if caller is None else type(caller)


def _commits_unasked(stack: ExitStack) -> None:
    stack.enter_context(patch.object(Revivals, "refuse_metarange", lambda *_: None))


def _rules_unfenced(stack: ExitStack) -> None:
    stack.enter_context(patch.object(Fence, "refuse_during_sweep", lambda *_: None))


def _queued_after_the_drop(stack: ExitStack) -> None:
    def late(self: Staging, *args: Any) -> bool:
        notes: list[Any] = []

        def keep(*given: Any) -> list[Any]:
            notes.extend(real_notes(self, *given))
            return []

        with patch.object(self, "_notes", keep):
            done = real(self, *args)
        if notes and done:
            self._context.kv.change_all(unique(notes))
        return done

    real, real_notes = Staging._write_noting, Staging._notes
    stack.enter_context(patch.object(Staging, "_write_noting", late))


def _not_queued_when_held(stack: ExitStack) -> None:
    def forget(self: Queue, repository: Any, queued: Any, _: Any) -> list[Any]:
        return [self.done(repository, queued)]

    stack.enter_context(patch.object(Queue, "later", forget))


def _undone_to_the_same_address(stack: ExitStack) -> None:
    def bring_back(self: Tombs, repository: Any, address: str, *args: Any) -> Any:
        with patch.object(self._slices, "new_address", lambda: address):
            return real(self, repository, address, *args)

    real = Tombs.bring_back
    stack.enter_context(patch.object(Tombs, "bring_back", bring_back))


def _batch_put_up_after_the_look(stack: ExitStack) -> None:
    real_look = collection.look

    def late(planned: Any, *, is_fenced: bool) -> Any:
        def sweep(actor: Any) -> None:
            seen = real_look(actor)
            with patch.object(
                collection, "look", lambda one: seen if one is actor else real_look(one)
            ):
                sweep_planned(planned, is_fenced=is_fenced)(actor)

        return sweep

    stack.enter_context(patch.object(revivals, "sweep_planned", late))


def _both(*patches: Patches) -> Patches:
    def wrong(stack: ExitStack) -> None:
        for each in patches:
            each(stack)

    return wrong


def untracked(stack: ExitStack) -> None:
    """Copies are not tracked: the fence alone must carry."""
    stack.enter_context(patch.object(TrackedCopies, "track", lambda *_: None))


FENCE_ALONE = ("copy-review", "overwrite-review", "two-reviewers-and-copy")
"""Programs in which copies are safe by the fence alone; tracked copies hold the same references once more."""

CONTROLS = (
    Control("the second look is left out", "copy-review", _both(untracked, _no_second_look)),
    Control(
        "the second look comes before the condemning",
        "copy-review",
        _both(untracked, _second_look_before_condemning),
    ),
    Control(
        "a copy is staged whatever the fence is",
        "copy-review",
        _both(untracked, _unconditional(Staging)),
    ),
    Control(
        "a branch is made whatever the fence is",
        "branch-from-commit-sweep",
        _unconditional(Revivals),
    ),
    Control("a tag is made whatever the fence is", "tag-sweep", _unconditional(Revivals)),
    Control("a revert does not ask the fence", "revert-sweep", _commits_unasked),
    Control("a cherry-pick does not ask the fence", "cherry-pick-sweep", _commits_unasked),
    Control("a merge does not ask the fence", "merge-sweep", _commits_unasked),
    Control("a branch is set back whatever the fence is", "reset-sweep", _unconditional(Revivals)),
    Control("refs are restored whatever the fence is", "restore-sweep", _unconditional(Revivals)),
    Control("rules are made longer whatever the fence is", "longer-rules-sweep", _rules_unfenced),
    Control("the batch is put up after the look", "revert-sweep", _batch_put_up_after_the_look),
    Control("a drop is queued after it was made", "delete-review", _queued_after_the_drop, "leak"),
    Control(
        "what is held for now is taken from the queue",
        "delete-copies-review",
        _not_queued_when_held,
        "leak",
    ),
    Control(
        "what is brought back gets its old address", "undo-review", _undone_to_the_same_address
    ),
)

REDUNDANT = (
    # The record of the new commit is stored before the fence is asked, and a look that comes later finds it.
    Control("a revert is made whatever the fence is", "revert-sweep", _unconditional(Revivals)),
    Control(
        "a cherry-pick is made whatever the fence is", "cherry-pick-sweep", _unconditional(Revivals)
    ),
    Control("a merge is made whatever the fence is", "merge-sweep", _unconditional(Revivals)),
    Control(
        "the fence is not read again before the delete",
        "two-reviewers-and-copy",
        _both(untracked, _fence_not_read_again),
    ),
    Control(
        "a condemnation is lifted without a look",
        "two-reviewers-and-copy",
        _both(untracked, _lifted_without_a_look),
    ),
    Control(
        "commits are looked at before what is staged",
        "reset-commit-review",
        _commits_looked_at_first,
    ),
    Control(
        "a commit is made whatever the fence is", "reset-commit-review", _unconditional(Committing)
    ),
)
"""Steps that the explorer found no harm without, in schedules at random: others of the protocol cover the same races."""
