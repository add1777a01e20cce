"""Programs that begin in the middle of the protocol of online hard delete, in states that others have left on the way.

An upload stages its object, a reset throws that away, and the upload, which finds its branch changed, stages the object
again (`Staging._write_new`). So an object that a review has looked for in vain gets a reference, with no copy that would
be tracked. A link does the same under its record. Actors here go on from such a second try; reviewers go on from the
step that the program says, with what they have read before.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from unittest.mock import patch

from lakesweep.domain.commits import BranchHead, MetaRangeId
from lakesweep.formats.entries import Entry
from lakesweep.lake.hard_delete.fence import Condemnation
from lakesweep.lake.hard_delete.queue import Queued
from lakesweep.lake.hard_delete.reviewer import Reviewer
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.lake import Lake
from lakesweep.lake.staging.staged_values import encode_staged
from lakesweep.lake.values import Repository
from lakesweep_testing.schedules.program import program
from lakesweep_testing.schedules.programs import copies
from lakesweep_testing.schedules.programs.reviews import review
from lakesweep_testing.schedules.running import Act, Actor
from lakesweep_testing.schedules.users import commit, delete, one_by_one, reset
from lakesweep_testing.schedules.world import World

_MANY = 1_000
_BATCH = "batch-of-another-sweep"


def thrown_away_upload(world: World) -> Row:
    """An upload staged its object at `m`, and a reset threw that away; reviews have deleted other objects before."""
    world.upload("main", "c", "other")
    world.delete("main", "c")
    world.lake.reviewer.review(world.repository)
    world.upload("main", "m", "old")
    row = _staged_at(world, b"m")
    world.promises.clear()
    world.lake.resetting.reset(world.repository, "main", "reset")
    world.pass_time(minutes=1)
    return row


def _staged_at(world: World, key: bytes) -> Row:
    value = world.kv.get(world.lake.branches.head(world.repository, "main").staging_token, key)
    assert value is not None
    return key, value


def stage_again(lake: Lake, repository: Repository, row: Row) -> None:
    """What an upload does from its second try on: see `Staging._write_new`."""
    staging = lake.objects._staging

    def stored(_: BranchHead) -> list[Row]:
        staging._assert_stored(repository, "main", [row])
        return [row]

    staging.write_references(repository, "main", stored)


def upload_again(row: Row) -> Act:
    """The upload goes on, and its user is told that the object is there."""

    def act(actor: Actor) -> None:
        stage_again(actor.lake, actor.repository, row)
        actor.promise("main", "m", "old")

    return act


class _DiedError(Exception):
    """A reviewer of the first state never goes on."""


def looked_then_staged(world: World) -> tuple[Row, list[Queued]]:
    """A reviewer found no reference to the object; then the upload staged it again. Nothing is condemned yet."""
    row = thrown_away_upload(world)

    def die_before_condemning(*_: object) -> None:
        raise _DiedError

    with (
        patch.object(world.lake.reviewer, "_condemn", die_before_condemning),
        suppress(_DiedError),
    ):
        world.lake.reviewer.review(world.repository)
    stage_again(world.lake, world.repository, row)
    return row, world.lake.delete_queue.due(world.repository, world.now, _MANY)


def condemned_while_staged(world: World) -> tuple[Row, list[Queued]]:
    """A reviewer found no reference, the upload staged its object again, and the reviewer condemned it and died."""
    row, queued = looked_then_staged(world)
    _condemn(world.lake.reviewer, world.repository, queued)
    return row, queued


def _condemn(
    reviewer: Reviewer, repository: Repository, queued: list[Queued]
) -> Mapping[str, Condemnation]:
    addresses = {one.dropped.address for one in queued}
    return reviewer._condemn(repository, addresses, reviewer._context.now())


def condemn_and_go_on(queued: list[Queued]) -> Act:
    """A reviewer goes on from step 2: it has looked, and condemns next."""

    def act(actor: Actor) -> None:
        condemned = _condemn(actor.lake.reviewer, actor.repository, queued)
        actor.lake.reviewer._delete_unreferenced(actor.repository, condemned, queued)

    return act


def look_and_go_on(world: World, queued: list[Queued]) -> Act:
    """A reviewer goes on from step 3: it has read what is condemned, and looks next."""
    condemned = world.lake.fence.read(world.repository).state.condemned

    def act(actor: Actor) -> None:
        actor.lake.reviewer._delete_unreferenced(actor.repository, condemned, queued)

    return act


@program("upload-again-review", hard_delete=True)
def upload_again_beside_review(world: World) -> dict[str, Act]:
    """An upload that a reset threw away is staged again beside a review of what the reset threw away."""
    row = thrown_away_upload(world)
    return {"uploader": upload_again(row), "reviewer": review}


@program("upload-again-two-reviewers", hard_delete=True)
def upload_again_beside_two_reviewers(world: World) -> dict[str, Act]:
    """An upload that a reset threw away is staged again beside two reviewers, one perhaps a zombie."""
    row = thrown_away_upload(world)
    return {"uploader": upload_again(row), "reviewer": review, "other": review}


@program("upload-again-batch-review", hard_delete=True)
def upload_again_beside_batch_and_review(world: World) -> dict[str, Act]:
    """An upload is staged again beside a sweep that changes the fence, and a reviewer that is about to condemn."""
    row = thrown_away_upload(world)
    world.lake.reviewer._dropped_entries.queue_all(world.repository)
    queued = world.lake.delete_queue.due(world.repository, world.now, _MANY)
    world.lake.fence_batches.add(world.repository, _BATCH, ["data/elsewhere"])
    until = world.now.replace(year=world.now.year + 1)

    def put_up_and_lift(actor: Actor) -> None:
        actor.lake.fence_batches.put_up(actor.repository, _BATCH, until)
        actor.lake.fence_batches.lift(actor.repository, _BATCH)

    return {
        "uploader": upload_again(row),
        "reviewer": condemn_and_go_on(queued),
        "sweeper": put_up_and_lift,
    }


@program("lifted-in-mid-look", hard_delete=True)
def lifted_in_mid_look(world: World) -> dict[str, Act]:
    """Two reviewers go on with a condemnation of what is staged; the branch is reset and the upload stages it once more."""
    row, queued = condemned_while_staged(world)
    go_on = look_and_go_on(world, queued)
    return {"reviewer": go_on, "other": go_on, "user": one_by_one(reset, upload_again(row))}


@program("condemned-commit-review", hard_delete=True)
def commit_beside_condemning(world: World) -> dict[str, Act]:
    """What a reviewer looked for in vain, and condemns now, was staged meanwhile and is being committed."""
    _, queued = looked_then_staged(world)
    return {"committer": commit, "reviewer": condemn_and_go_on(queued)}


@program("commit-delete-review", hard_delete=True)
def commit_beside_delete_and_review(world: World) -> dict[str, Act]:
    """A delete that began before a commit takes an entry out of the sealed token; what it took is reviewed at once."""
    copies.staged_object(world)
    return {"committer": commit, "deleter": one_by_one(lambda actor: delete(actor, "m"), review)}


@program("metarange-review", hard_delete=True)
def metarange_beside_review(world: World) -> dict[str, Act]:
    """A metarange that a lost commit left behind is committed while its objects, in no commit, are reviewed."""
    world.upload("main", "m", "old")
    metarange_id = _write_metarange(world)
    world.promises.clear()
    world.lake.resetting.reset(world.repository, "main", "reset")
    world.pass_time(minutes=1)

    def commit_it(actor: Actor) -> None:
        actor.lake.committing.commit(
            actor.repository, "main", "again", committer="user", source_metarange=metarange_id
        )

    return {"user": commit_it, "reviewer": review}


def _write_metarange(world: World) -> MetaRangeId:
    committing, repository = world.lake.committing, world.repository
    record = committing._staging.seal(repository, "main")
    parent = world.lake.commits.get(repository, record.head.commit_id)
    return committing._lay_over(repository, record, parent)[0]


def _thrown_away_link(world: World) -> Act:
    """A link claimed its address and staged it at `m`, and a reset threw that away; gives what the link does next."""
    lake, repository = world.lake, world.repository
    issued = lake.linking.issue(repository, "main", "m")
    address = world.relative(issued.physical_address)
    world.store.write(address, b"linked")
    found = lake.pending.find(repository, address)
    assert found is not None
    claimed = lake.pending.claim(repository, found)
    assert claimed is not None
    held = lake.pending.held(repository, claimed)
    row = (b"m", encode_staged(Entry(address, world.now, len(b"linked"), "c")))
    lake.objects._staging.write(repository, "main", row, held=held)
    lake.resetting.reset(repository, "main", "reset")

    def link_again(actor: Actor) -> None:
        actor.lake.objects._staging.write(actor.repository, "main", row, held=held)
        actor.lake.pending.remove(actor.repository, claimed)
        actor.promise("main", "m", "linked")

    return link_again


@program("link-again-review", hard_delete=True)
def link_again_beside_review(world: World) -> dict[str, Act]:
    """A link that a reset threw away is staged again beside a review of what the reset threw away."""
    link_again = _thrown_away_link(world)
    return {"linker": link_again, "reviewer": review}


@program("late-link-again-review", hard_delete=True)
def late_link_again_beside_review(world: World) -> dict[str, Act]:
    """A link that a reset threw away is staged again, after its address's time is over, beside a review."""
    link_again = _thrown_away_link(world)
    world.pass_time(days=2)
    return {"linker": link_again, "reviewer": review}
