"""Uploads that must find nothing, resets of single paths, and staged entries that are taken away, beside reviews."""

from __future__ import annotations

from contextlib import suppress

from lakesweep.lake.errors import PreconditionFailedError
from lakesweep_testing.schedules.program import program
from lakesweep_testing.schedules.programs import copies
from lakesweep_testing.schedules.programs.reviews import review
from lakesweep_testing.schedules.running import Act, Actor
from lakesweep_testing.schedules.users import commit, copy, reset
from lakesweep_testing.schedules.world import World


def _upload_absent(content: str) -> Act:
    """Upload to `n` of main if nothing is there. Nobody else takes it away, so of several only one may be told that it did."""

    def act(actor: Actor) -> None:
        with suppress(PreconditionFailedError):
            actor.lake.objects.upload(
                actor.repository, "main", "n", [content.encode()], if_absent=True
            )
            if ("main", "n") in actor.world.promises:
                actor.watch.complain("two uploads to one path were told that nothing was there")
            actor.promise("main", "n", content)

    return act


def _remove(actor: Actor, path: str) -> None:
    actor.withdraw("main", path)
    actor.lake.objects.delete(actor.repository, "main", path, no_tombstone=True)


def _reset(actor: Actor, kind: str, path: str) -> None:
    actor.lake.resetting.reset(actor.repository, "main", kind, path)  # type: ignore[arg-type]


@program("absent-uploads-commit-review", hard_delete=True)
def absent_uploads_beside_commit(world: World) -> dict[str, Act]:
    """Two uploads that must find nothing at their path, while a commit seals the token that they write to."""
    copies.staged_object(world)
    return {
        "first": _upload_absent("1"),
        "second": _upload_absent("2"),
        "committer": commit,
        "reviewer": review,
    }


@program("absent-upload-reset-review", hard_delete=True)
def absent_upload_beside_reset(world: World) -> dict[str, Act]:
    """An upload that must find nothing is thrown away by a reset before it is told, and reviewed."""
    copies.staged_object(world)
    world.lake.objects.delete(world.repository, "main", "c", no_tombstone=True)
    world.promises.pop(("main", "c"))
    world.lake.reviewer.review(world.repository)
    return {"uploader": _upload_absent("1"), "resetter": reset, "reviewer": review}


@program("absent-upload-delete-review", hard_delete=True)
def absent_upload_beside_delete(world: World) -> dict[str, Act]:
    """An upload that must find nothing comes where somebody takes the staged entry away, and another copies it."""
    copies.staged_object(world)

    def upload_absent(actor: Actor) -> None:
        with suppress(PreconditionFailedError):
            actor.lake.objects.upload(actor.repository, "main", "m", [b"new"], if_absent=True)

    return {
        "uploader": upload_absent,
        "remover": lambda actor: _remove(actor, "m"),
        "copier": lambda actor: copy(actor, "m", "b", ""),
        "reviewer": review,
    }


def _rewritten(world: World) -> None:
    """Committed at `m`, and staged there with another content."""
    world.upload("main", "m", "old")
    world.commit()
    world.upload("main", "m", "new")
    world.promises.pop(("main", "m"))
    world.pass_time(days=3)


@program("reset-object-commit-review", hard_delete=True)
def reset_of_object_beside_commit(world: World) -> dict[str, Act]:
    """A path is reset to what the head has while a commit moves the head."""
    _rewritten(world)
    return {
        "resetter": lambda actor: _reset(actor, "object", "m"),
        "committer": commit,
        "reviewer": review,
    }


@program("reset-prefix-copy-review", hard_delete=True)
def reset_of_prefix_beside_copy(world: World) -> dict[str, Act]:
    """All paths with a prefix are reset while one of them is copied elsewhere, and both are committed."""
    _rewritten(world)
    return {
        "resetter": lambda actor: _reset(actor, "common_prefix", "m"),
        "copier": lambda actor: copy(actor, "m", "b", ""),
        "committer": commit,
        "reviewer": review,
    }


@program("describe-reset-review", hard_delete=True)
def description_beside_reset(world: World) -> dict[str, Act]:
    """New metadata of a committed object are thrown away again, and its path is removed by a commit."""
    world.upload("main", "m", "old")
    world.commit()
    world.pass_time(days=3)

    def describe(actor: Actor) -> None:
        actor.lake.copying.set_user_metadata(actor.repository, "main", "m", {"a": "b"})

    return {
        "describer": describe,
        "resetter": lambda actor: actor.lake.resetting.reset(actor.repository, "main", "reset"),
        "remover": lambda actor: _remove(actor, "m"),
        "reviewer": review,
    }
