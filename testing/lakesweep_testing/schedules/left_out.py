"""Steps of the protocol of online hard delete, each left out or put in the wrong place.

Every name below is a set of patches: called with an `ExitStack`, it makes the protocol wrong until the stack is closed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from lakesweep.formats.rules import RULES_KEY, encode_rules
from lakesweep.lake.collection.retention_rules import RetentionRulesStore
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.hard_delete import reviewer
from lakesweep.lake.hard_delete.fence import Condemnation, Fence, FoundFence
from lakesweep.lake.hard_delete.ledger import DeleteLedger
from lakesweep.lake.hard_delete.queue import Queue
from lakesweep.lake.hard_delete.references import Holder, References
from lakesweep.lake.hard_delete.reviewer import Reviewer
from lakesweep.lake.hard_delete.revivals import Revivals
from lakesweep.lake.hard_delete.tombs import Tombs
from lakesweep.lake.kv.interface import unique
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.refs.branches import BranchRecord, new_staging_token
from lakesweep.lake.staging.dropped_tokens import DroppedTokens
from lakesweep.lake.staging.resetting import Resetting
from lakesweep.lake.staging.staging_area import _NEVER, Staging
from lakesweep.lake.uploads.pending import PendingUploads
from lakesweep_testing.schedules import collection
from lakesweep_testing.schedules.programs import revivals

Patches = Callable[[ExitStack], None]


def in_place_of(owner: Any, name: str) -> Callable[[Callable[..., Any]], Patches]:
    """Have a function take the place of `owner.name`, which it gets as its first argument."""

    def take(function: Callable[..., Any]) -> Patches:
        def put_in(stack: ExitStack) -> None:
            real = getattr(owner, name)

            def wrong(*args: Any, **named: Any) -> Any:
                return function(real, *args, **named)

            stack.enter_context(patch.object(owner, name, wrong))

        return put_in

    return take


def together(*patches: Patches) -> Patches:
    """All of the patches."""

    def put_in(stack: ExitStack) -> None:
        for each in patches:
            each(stack)

    return put_in


def _left_out(owner: Any, name: str) -> Patches:
    return in_place_of(owner, name)(lambda *_, **__: None)


# -- the fence


@in_place_of(Fence, "change")
def no_version(real: Any, self: Fence, found: FoundFence, state: Any) -> Any:
    before = replace(found.state, version=found.state.version - 1)
    return real(self, replace(found, state=before), state)


@in_place_of(Fence, "change")
def fence_written_over(real: Any, *args: Any) -> Any:
    return real(*args)._replace(expected=...)


# -- whoever makes a reference


def unconditional(*makers: type) -> Patches:
    """Writes of these classes are made whatever became of the fence since they read it."""

    @in_place_of(Fence, "read")
    def read(real: Any, self: Fence, repository: Any) -> Any:
        found = real(self, repository)
        # `wrong` of `in_place_of` lies between this function and the caller of `Fence.read`.
        caller = sys._getframe(2).f_locals.get("self")
        if not isinstance(caller, makers):
            return found
        return replace(found, held=(found.held[0], b"no such key", None))

    return read


not_asked = _left_out(Fence, "refuse_condemned")
not_looked_for = _left_out(Staging, "_assert_stored")
untracked = _left_out(TrackedCopies, "track")
metarange_not_asked = _left_out(Commits, "refuse_unknown")
rules_not_asked = _left_out(Fence, "refuse_during_sweep")


@in_place_of(Staging, "_write")
def source_before_fence(
    real: Any, self: Staging, repository: Any, branch_id: str, compute: Any, *rest: Any
) -> None:
    early = [compute(self._branches.read(repository, branch_id).head)]
    real(
        self,
        repository,
        branch_id,
        lambda head: early.pop() if early else compute(head),
        *rest,
    )


@in_place_of(Staging, "_write")
def source_read_once(
    real: Any, self: Staging, repository: Any, branch_id: str, compute: Any, *rest: Any
) -> None:
    known: list[Any] = []

    def compute_once(head: Any) -> Any:
        if not known:
            known.append(compute(head))
        return known[0]

    real(self, repository, branch_id, compute_once, *rest)


@in_place_of(Staging, "write")
def record_not_held(
    real: Any, self: Staging, repository: Any, branch_id: str, row: Any, **how: Any
) -> None:
    if how.pop("held", None) is None:
        real(self, repository, branch_id, row, **how)
    else:
        self._write(repository, branch_id, lambda _: [row], _NEVER)


_ASKED_EARLY: dict[int, FoundFence] = {}


@in_place_of(Commits, "make")
def _ask_before_storing(real: Any, self: Commits, repository: Any, **fields: Any) -> Any:
    _ASKED_EARLY[id(self._fence)] = self._fence.read(repository)
    return real(self, repository, **fields)


@in_place_of(Revivals, "fence")
def _as_asked_before(real: Any, self: Revivals, repository: Any) -> Any:
    return _ASKED_EARLY.pop(id(self._fence), None) or real(self, repository)


asked_before_storing = together(_ask_before_storing, _as_asked_before)


@in_place_of(RetentionRulesStore, "_write")
def rules_not_put_back(_: Any, self: RetentionRulesStore, repository: Any, rules: Any) -> None:
    self._fence.refuse_during_sweep(repository, self._fence.read(repository), "")
    self._context.store(repository).write(RULES_KEY, encode_rules(rules))


# -- whoever drops one


@in_place_of(Staging, "_write_noting")
def queued_after_drop(real: Any, self: Staging, *args: Any) -> bool:
    notes: list[Any] = []
    real_note = self._note

    def keep(*given: Any) -> Any:
        note = real_note(*given)
        return lambda key, value: notes.append(note(key, value))

    with patch.object(self, "_note", keep):
        done: bool = real(self, *args)
    notes = [note for note in notes if note is not None]
    if notes and done:
        self._context.kv.change_all(unique(notes))
    return done


@in_place_of(Resetting, "_reset_all")
def noted_after_drop(_: Any, self: Resetting, repository: Any, branch_id: str) -> None:
    record = self._branches.read(repository, branch_id)
    token = new_staging_token(repository, branch_id)
    head = replace(record.head, staging_token=token, sealed_tokens=())
    if self._branches.replace(repository, record, head) is not None:
        self._dropped_tokens.note(repository, branch_id, record.tokens, self._context.now())


@in_place_of(DroppedTokens, "remove_old")
def tokens_removed_unqueued(real: Any, self: DroppedTokens, now: Any, _reviewed: Any) -> None:
    real(self, now)


@in_place_of(Queue, "later")
def not_put_off(_: Any, self: Queue, repository: Any, queued: Any, _now: Any) -> Any:
    return [self.done(repository, queued)]


# -- the look


class _Found:
    """A look whose result is known before."""

    def __init__(self, found: Mapping[str, Holder]) -> None:
        self._found = found

    def find(self, *_: object) -> Mapping[str, Holder]:
        return self._found


class _OpenTokens:
    """Branches without their sealed tokens."""

    def __init__(self, branches: Any) -> None:
        self._branches = branches

    def all(self, repository: Any) -> Iterator[BranchRecord]:
        for record in self._branches.all(repository):
            yield replace(record, head=replace(record.head, sealed_tokens=()))


@in_place_of(References, "find")
def open_tokens_alone(real: Any, self: References, *args: Any) -> Any:
    with patch.object(self, "_branches", _OpenTokens(self._branches)):
        return real(self, *args)


uploads_not_looked_at = in_place_of(PendingUploads, "live")(lambda *_: iter(()))


@in_place_of(References, "find")
def uploads_last(real: Any, self: References, repository: Any, addresses: Any) -> Any:
    with patch.object(self._pending, "live", lambda *_: iter(())):
        found = real(self, repository, addresses)
    late = {upload.address for upload in self._pending.live(repository, self._context.now())}
    return {**dict.fromkeys(late & set(addresses), Holder.PASSING), **found}


@in_place_of(PendingUploads, "live")
def uploads_not_retired(_: Any, self: PendingUploads, repository: Any, now: Any) -> Any:
    found = (one.upload for one in self.all(repository))
    return (one for one in found if one.state != "ending" and now < self.end_of(one))


commits_not_looked_at = in_place_of(Commits, "all_with_maker")(lambda *_: iter(()))


@in_place_of(References, "find")
def commits_first(real: Any, self: References, repository: Any, addresses: Any) -> Any:
    commits = list(self._commits.all_with_maker(repository))
    with patch.object(self._commits, "all_with_maker", lambda _: iter(commits)):
        return real(self, repository, addresses)


@in_place_of(Commits, "all_with_maker")
def lost_commits_hold(real: Any, self: Commits, repository: Any) -> Any:
    return ((commit, "") for commit, _ in real(self, repository))


# -- the reviewer


@in_place_of(Reviewer, "review")
def no_first_look(real: Any, self: Reviewer, repository: Any) -> Any:
    look, delete = self._references, self._delete_unreferenced

    def look_now(*args: Any) -> None:
        with patch.object(self, "_references", look):
            delete(*args)

    with (
        patch.object(self, "_references", _Found({})),
        patch.object(self, "_delete_unreferenced", look_now),
    ):
        return real(self, repository)


@in_place_of(Reviewer, "_delete_unreferenced")
def no_second_look(real: Any, self: Reviewer, *args: Any) -> None:
    with patch.object(self, "_references", _Found({})):
        real(self, *args)


@in_place_of(Reviewer, "_condemn")
def _look_and_condemn(real: Any, self: Reviewer, repository: Any, addresses: Any, now: Any) -> Any:
    self._early = self._references.find(repository, addresses)  # type: ignore[attr-defined]
    return real(self, repository, addresses, now)


@in_place_of(Reviewer, "_delete_unreferenced")
def _delete_as_seen_before(real: Any, self: Reviewer, *args: Any) -> None:
    with patch.object(self, "_references", _Found(self._early)):  # type: ignore[attr-defined]
        real(self, *args)


second_look_before_condemning = together(_look_and_condemn, _delete_as_seen_before)
fence_not_read_again = in_place_of(reviewer, "_standing")(lambda _real, _, mine: set(mine))


@in_place_of(reviewer, "_taken_over")
def not_taken_over(_: Any, found: FoundFence, seen: Mapping[str, Condemnation]) -> Any:
    return {address: seen[address] for address in sorted(reviewer._standing(found, seen))}


@in_place_of(Reviewer, "review")
def lifted_unseen(real: Any, self: Reviewer, repository: Any) -> Any:
    self._lift(repository, self._fence.read(repository).state.condemned, [])
    return real(self, repository)


@in_place_of(DeleteLedger, "begin")
def told_after_delete(real: Any, *args: Any) -> Any:
    return real(*args)._replace(value=None)


@in_place_of(Reviewer, "_condemn")
def left_by_the_dead(real: Any, self: Reviewer, repository: Any, addresses: Any, now: Any) -> Any:
    condemned = real(self, repository, addresses, now)
    return {address: condemned[address] for address in addresses}


@in_place_of(Reviewer, "_lift")
def found_not_lifted(real: Any, self: Reviewer, repository: Any, over: Any, changes: Any) -> None:
    store = self._context.store(repository)
    gone = {address: one for address, one in over.items() if store.find(address) is None}
    real(self, repository, gone, changes)


@in_place_of(Tombs, "bring_back")
def same_address_again(real: Any, self: Tombs, repository: Any, address: str, *rest: Any) -> Any:
    with patch.object(self._slices, "new_address", lambda: address):
        return real(self, repository, address, *rest)


# -- the fence of sweeps


@in_place_of(revivals, "sweep_planned")
def batch_after_look(real: Any, planned: Any, *, is_fenced: bool) -> Any:
    real_look = collection.look

    def sweep(actor: Any) -> None:
        seen = real_look(actor)
        with patch.object(collection, "look", lambda one: seen if one is actor else real_look(one)):
            real(planned, is_fenced=is_fenced)(actor)

    return sweep


@in_place_of(revivals, "sweep_planned")
def batch_lifted_before_deletes(real: Any, planned: Any, *, is_fenced: bool) -> Any:
    real_delete = collection.delete

    def lift_and_delete(actor: Any, *args: Any) -> None:
        actor.lake.fence_batches.lift(actor.repository, collection._BATCH)
        real_delete(actor, *args)

    def sweep(actor: Any) -> None:
        with patch.object(collection, "delete", lift_and_delete):
            real(planned, is_fenced=is_fenced)(actor)

    return sweep
