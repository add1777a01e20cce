"""Negative controls: the protocol of online hard delete with one step left out or put in the wrong place.

Each shows that the step is needed: the explorer finds a schedule that loses data, or one after which something stays
for ever. Where two steps cover the same race, the control is a pair: with both left out harm is found, with either
alone none is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.commits.committing import Committing
from lakesweep.lake.hard_delete.revivals import Revivals
from lakesweep.lake.staging.staging_area import Staging
from lakesweep_testing.schedules import left_out
from lakesweep_testing.schedules.exploring import Count, Explorer
from lakesweep_testing.schedules.left_out import Patches, together, unconditional
from lakesweep_testing.schedules.program import all_programs

LOSS, LEAK, UNTOLD = "loss", "leak", "untold"
_KINDS = {"loss": LOSS, "promise": LOSS, "leak": LEAK, "ledger": UNTOLD}
_AT_RANDOM = 400
_EVERY = 600


@dataclass(frozen=True, slots=True)
class Step:
    """Something that goes wrong in the protocol, in words."""

    name: str
    wrong: Patches

    @contextmanager
    def put_in(self) -> Iterator[None]:
        """Within, the protocol is wrong."""
        with ExitStack() as stack:
            self.wrong(stack)
            yield


@dataclass(frozen=True, slots=True)
class Control:
    """A step left out, the program that shows what it is for, and what it leads to; with the step that covers it."""

    step: Step
    program: str
    leads_to: str = LOSS
    partner: Step | None = None
    seed: int = 1  # of the schedules by chance; one that meets a rare harm early, where another takes thousands

    @property
    def name(self) -> str:
        """What is left out."""
        return self.step.name if self.partner is None else f"{self.step.name}; {self.partner.name}"

    @property
    def all_wrong(self) -> Step:
        """All that is left out, as one."""
        patches = [step.wrong for step in (self.step, self.partner) if step is not None]
        return Step(self.name, together(*patches))


def search(control: Control) -> Count:
    """Look for harm with everything left out that the control names: at random, then in order, then at random again."""
    with control.all_wrong.put_in(), Explorer(all_programs()[control.program]) as explorer:
        count = explorer.random_schedules(_AT_RANDOM, seed=control.seed)
        if not count.harms:
            count += explorer.every_schedule(_EVERY)
        if not count.harms:
            count += explorer.random_schedules(10 * _AT_RANDOM, seed=control.seed, first=_AT_RANDOM)
    return count


def kind_of(count: Count) -> str:
    """What the first schedule that did harm leads to; empty when none did."""
    return _KINDS[count.found[0].harm.kind] if count.found else ""


_COPIES_UNTRACKED = Step("copies are not tracked", left_out.untracked)
_NO_FIRST_LOOK = Step("there is no first look", left_out.no_first_look)
_COMMITS_FIRST = Step("commits are looked at before what is staged", left_out.commits_first)
_ASKED_EARLY = Step("the fence is asked before the commit is stored", left_out.asked_before_storing)
_HEAD_MOVED = Step("a head is moved whatever became of the fence", unconditional(Revivals, Commits))
_REF_MADE = unconditional(Revivals)

SPARES = {
    _COPIES_UNTRACKED: ("copy-review", "overwrite-review", "two-reviewers-and-copy"),
    _NO_FIRST_LOOK: ("copy-review", "upload-again-review", "link-again-review", "move-review"),
}
"""Steps that hold references once more, or spare users a refusal, with programs in which all is safe without them."""

_FENCE = (
    Control(Step("the fence has no version", left_out.no_version), "upload-again-review"),
    Control(
        Step("the fence is written over, whoever changed it", left_out.fence_written_over),
        "upload-again-batch-review",
        seed=15,
    ),
)

_MAKERS = (
    Control(
        Step("the source is read before the fence", left_out.source_before_fence),
        "upload-again-review",
    ),
    Control(
        Step("nobody asks whether an address is condemned", left_out.not_asked),
        "upload-again-review",
    ),
    Control(
        Step("an upload is staged again whatever became of the fence", unconditional(Staging)),
        "upload-again-review",
    ),
    Control(
        Step("the source is not read again when the fence moved", left_out.source_read_once),
        "upload-again-review",
    ),
    Control(
        Step("an upload is staged again without its object", left_out.not_looked_for),
        "upload-again-review",
    ),
    Control(
        Step("a copy is staged whatever became of the fence", unconditional(Staging)),
        "copy-review",
        partner=_COPIES_UNTRACKED,
    ),
    Control(
        Step("a link is staged whatever became of its record", left_out.record_not_held),
        "late-link-again-review",
    ),
    Control(
        Step("a commit is stored whatever became of the fence", unconditional(Committing)),
        "commit-delete-review",
    ),
    Control(
        Step("a commit takes condemned entries along", left_out.not_asked),
        "condemned-commit-review",
        partner=_COMMITS_FIRST,
    ),
    Control(
        Step("a metarange is committed that no commit has", left_out.metarange_not_asked),
        "metarange-review",
    ),
    Control(
        Step("a metarange is committed whatever became of the fence", unconditional(Committing)),
        "metarange-review",
    ),
)

_DROPPERS = (
    Control(
        Step("a drop is queued after it was made", left_out.queued_after_drop),
        "delete-review",
        LEAK,
    ),
    Control(
        Step("a token is noted after it was let go", left_out.noted_after_drop),
        "reset-commit-review",
        LEAK,
    ),
    Control(
        Step("tokens go before what is in them is queued", left_out.tokens_removed_unqueued),
        "branch-delete-review",
        LEAK,
    ),
    Control(
        Step("what is held for now is taken from the queue", left_out.not_put_off),
        "delete-copies-review",
        LEAK,
    ),
    Control(
        Step("a commit that its maker may remove holds for ever", left_out.lost_commits_hold),
        "reset-commit-review",
        LEAK,
    ),
)

_REVIEWER = (
    Control(Step("there is no second look", left_out.no_second_look), "upload-again-review"),
    Control(
        Step("the second look comes before the condemning", left_out.second_look_before_condemning),
        "upload-again-review",
    ),
    Control(
        Step("the fence is not read again before the delete", left_out.fence_not_read_again),
        "lifted-in-mid-look",
    ),
    Control(
        Step("the condemnation is not taken over before the delete", left_out.not_taken_over),
        "lifted-in-mid-look",
        seed=6,
    ),
    Control(
        Step("a condemnation is lifted without a look", left_out.lifted_unseen),
        "upload-again-two-reviewers",
        seed=2,
    ),
    Control(
        Step("the ledger is written after the delete", left_out.told_after_delete),
        "delete-review",
        UNTOLD,
    ),
    Control(
        Step("what a dead reviewer condemned is left alone", left_out.left_by_the_dead),
        "delete-review",
        LEAK,
    ),
    Control(
        Step("what the second look found stays condemned", left_out.found_not_lifted),
        "upload-again-review",
        LEAK,
    ),
    Control(
        Step("what is brought back gets its old address", left_out.same_address_again),
        "undo-review",
    ),
)

_LOOK = (
    Control(
        Step("uploads under way are not looked at", left_out.uploads_not_looked_at),
        "link-again-review",
    ),
    Control(
        Step("uploads under way are looked at last", left_out.uploads_last),
        "link-again-review",
        partner=_NO_FIRST_LOOK,
    ),
    Control(
        Step("uploads whose time is over are not retired", left_out.uploads_not_retired),
        "late-link-again-review",
    ),
    Control(
        Step("sealed tokens are not looked at", left_out.open_tokens_alone),
        "condemned-commit-review",
    ),
    Control(
        Step("commits are not looked at", left_out.commits_not_looked_at),
        "condemned-commit-review",
    ),
    Control(
        _COMMITS_FIRST,
        "condemned-commit-review",
        partner=Step("a commit is stored whatever became of the fence", unconditional(Committing)),
    ),
)

_SWEEPS = (
    *(
        Control(Step(f"{what} whatever became of the fence", _REF_MADE), f"{program}-sweep")
        for what, program in (
            ("a branch is made", "branch-from-commit"),
            ("a tag is made", "tag"),
            ("a branch is set back", "reset"),
            ("refs are restored", "restore"),
        )
    ),
    *(
        Control(Step(f"{what} does not ask the fence", left_out.not_asked), f"{program}-sweep")
        for what, program in (
            ("a branch", "branch-from-commit"),
            ("a tag", "tag"),
            ("a hard reset", "reset"),
            ("a restore", "restore"),
            ("a revert", "revert"),
            ("a cherry-pick", "cherry-pick"),
            ("a merge", "merge"),
        )
    ),
    *(
        Control(_HEAD_MOVED, f"{program}-sweep", partner=_ASKED_EARLY)
        for program in ("revert", "cherry-pick", "merge")
    ),
    Control(
        Step("rules are made longer whatever the fence is", left_out.rules_not_asked),
        "longer-rules-sweep",
    ),
    Control(
        Step("rules that a sweep overtook are not put back", left_out.rules_not_put_back),
        "longer-rules-sweep",
    ),
    Control(Step("the batch is put up after the look", left_out.batch_after_look), "revert-sweep"),
    Control(
        Step("the batch is lifted before the deletes", left_out.batch_lifted_before_deletes),
        "revert-sweep",
    ),
)

CONTROLS = {
    "the fence": _FENCE,
    "makers of references": _MAKERS,
    "droppers of references": _DROPPERS,
    "the look": _LOOK,
    "the reviewer": _REVIEWER,
    "the fence of sweeps": _SWEEPS,
}
"""Every control by the part of the protocol that its step belongs to."""
