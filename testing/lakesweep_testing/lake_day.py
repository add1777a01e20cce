"""A day in a repository's life as steps, each with what the branches hold once it was answered: to be cut short anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lakesweep.lake.errors import LakeError
from lakesweep.lake.values import UploadedPart
from lakesweep_testing.lakes import LakeRepo

__all__ = ["Contents", "Death", "Script", "Step", "a_day", "check_after_death", "refusal"]

Contents = dict[str, dict[str, bytes]]


@dataclass
class Step:
    """One call of a client, and what the branches hold once it was answered."""

    name: str
    call: Callable[[LakeRepo, dict[str, Any]], None]
    change: Callable[[Contents], Contents]


@dataclass
class Script:
    """Steps made by the verbs below; each verb also says what it changes in a plain dict of branches."""

    steps: list[Step] = field(default_factory=list)

    def add(
        self,
        name: str,
        call: Callable[[LakeRepo, dict[str, Any]], Any],
        change: Callable[[Contents], object] = lambda _: None,
    ) -> None:
        def changed(contents: Contents) -> Contents:
            copied = {branch: dict(paths) for branch, paths in contents.items()}
            change(copied)
            return copied

        self.steps.append(Step(name, call, changed))


def a_day() -> Script:
    """A day in a repository's life, every kind of write in it."""
    s = Script()

    def put(path: str, content: bytes, branch: str = "main") -> None:
        s.add(
            f"put {path}",
            lambda r, _: r.put(path, content, branch),
            lambda c: c[branch].update({path: content}),
        )

    def commit(branch: str = "main") -> None:
        s.add(f"commit {branch}", lambda r, _: r.commit(branch))

    put("a", b"1")
    put("b", b"2")
    commit()
    s.add(
        "branch",
        lambda r, _: r.lake.refs.create_branch(r.record, "dev", "main"),
        lambda c: c.update(dev=dict(c["main"])),
    )
    put("a", b"changed", "dev")
    s.add(
        "copy",
        lambda r, _: r.lake.copying.copy(r.record, "dev", "copy", "a"),
        lambda c: c["dev"].update(copy=c["dev"]["a"]),
    )
    s.add(
        "delete",
        lambda r, _: r.lake.objects.delete_many(r.record, "dev", ["a", "b", "none"]),
        lambda c: [c["dev"].pop(path) for path in ("a", "b")],
    )
    s.add(
        "metadata",
        lambda r, _: r.lake.copying.set_user_metadata(r.record, "dev", "copy", {"k": "v"}),
    )
    commit("dev")
    s.add("tag", lambda r, _: r.lake.refs.create_tag(r.record, "v1", "dev"))
    s.add(
        "address",
        lambda r, m: m.update(at=r.lake.linking.issue(r.record, "main", "linked")),
    )
    s.add("upload there", _upload_there)
    s.add("link", _link, lambda c: c["main"].update(linked=b"direct"))
    s.add(
        "multipart",
        lambda r, m: m.update(up=r.lake.multipart.create(r.record, "main", "parts")),
    )
    s.add(
        "part",
        lambda r, m: r.lake.multipart.upload_part(r.record, m["up"].upload_id, 1, [b"one"]),
    )
    s.add("complete", _complete, lambda c: c["main"].update(parts=b"one"))
    s.add("together", _put_together, lambda c: c["main"].update(small=b"1", tiny=b"2"))
    put("long", b"x" * (9 << 20))
    s.add("absent", lambda r, _: r.put("new", b"new", if_absent=True), _set("main", "new", b"new"))
    s.add(
        "reset object",
        lambda r, _: r.lake.resetting.reset(r.record, "main", "object", "new"),
        lambda c: c["main"].pop("new"),
    )
    commit()
    s.add(
        "merge",
        lambda r, _: r.lake.merging.merge(r.record, "dev", "main", committer="me"),
        _merged,
    )
    s.add(
        "revert",
        lambda r, _: r.lake.reverting.revert(
            r.record, "main", "main", committer="me", parent_number=1
        ),
        _reverted,
    )
    put("gone/1", b"g", "dev")
    put("gone/2", b"g", "dev")
    s.add(
        "reset prefix",
        lambda r, _: r.lake.resetting.reset(r.record, "dev", "common_prefix", "gone/"),
        lambda c: [c["dev"].pop(path) for path in ("gone/1", "gone/2")],
    )
    put("staged", b"s", "dev")
    s.add(
        "reset",
        lambda r, _: r.lake.resetting.reset(r.record, "dev", "reset"),
        lambda c: c["dev"].pop("staged"),
    )
    s.add(
        "hard reset",
        lambda r, _: r.lake.resetting.hard_reset(r.record, "dev", "main"),
        lambda c: c.update(dev=dict(c["main"])),
    )
    s.add(
        "delete branch",
        lambda r, _: r.lake.branches.delete(r.record, "dev"),
        lambda c: c.pop("dev"),
    )
    s.add("housekeeping", lambda r, _: r.lake.housekeeping.run())
    return s


def _put_together(repo: LakeRepo, _: dict[str, Any]) -> None:
    prepare = repo.lake.small_uploads.prepare
    bodies = {"small": b"1", "tiny": b"2"}
    uploads = [prepare(repo.record, "main", path, [body]) for path, body in bodies.items()]
    for outcome in repo.lake.small_uploads.store([upload for upload in uploads if upload]):
        if isinstance(outcome, Exception):
            raise outcome


def _set(branch: str, path: str, content: bytes) -> Callable[[Contents], None]:
    return lambda contents: contents[branch].update({path: content})


def _merged(contents: Contents) -> None:
    del contents["main"]["a"], contents["main"]["b"]
    contents["main"]["copy"] = contents["dev"]["copy"]


def _reverted(contents: Contents) -> None:
    del contents["main"]["copy"]
    contents["main"].update(a=b"1", b=b"2")


def _upload_there(repo: LakeRepo, memory: dict[str, Any]) -> None:
    repo.store.write(repo.relative(memory["at"].physical_address), b"direct")


def _link(repo: LakeRepo, memory: dict[str, Any]) -> None:
    repo.lake.linking.link(
        repo.record, "main", "linked", memory["at"].physical_address, checksum="c", size_bytes=6
    )


def _complete(repo: LakeRepo, memory: dict[str, Any]) -> None:
    etag = hashlib.md5(b"one", usedforsecurity=False).hexdigest()
    repo.lake.multipart.complete(repo.record, memory["up"].upload_id, [UploadedPart(1, etag)])


@dataclass
class Death:
    """Where a day was cut short: the unanswered step, what the branches held before and hold after it, and the rest."""

    step: Step
    before: Contents
    after: Contents
    rest: Iterator[Step]


def check_after_death(repo: LakeRepo, memory: dict[str, Any], death: Death) -> None:
    """Every branch is as it was before the unanswered call, or as after it; and the day goes on to its end."""
    step, before, after = death.step, death.before, death.after
    found = {branch: repo.contents(branch) for branch in repo.branches()}
    assert found in (before, after), f"after dying in {step.name!r}"
    live = set(repo.uncommitted()) | repo.committed()
    for branch in found:
        assert {repo.address(path, branch) for path in found[branch]} <= live

    # The unanswered call can be made again.
    is_visible = before != after
    if found != after or not is_visible:
        refused = refusal(step, repo, memory)
        # What the dead process had done already is refused, and a claimed token died with its claimant.
        assert refused in (None, "tag-exists", "no-changes", "invalid-address"), step.name
        if refused == "invalid-address":
            after = before
    for step in death.rest:
        after = step.change(after)
        assert refusal(step, repo, memory) is None, step.name
    assert {branch: repo.contents(branch) for branch in repo.branches()} == after


def refusal(step: Step, repo: LakeRepo, memory: dict[str, Any]) -> str | None:
    """The kind of error that a call is answered with, if any."""
    try:
        step.call(repo, memory)
    except LakeError as error:
        return error.kind
    return None
