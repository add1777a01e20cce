"""`kill -9` at each ref-store write in turn: nothing acknowledged is lost, and a new process goes on from there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakesweep.lake.errors import LakeError
from lakesweep.lake.values import UploadedPart
from lakesweep_testing.lakes import DyingKeyValueStore, LakeRepo, ProcessDiedError

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
        change: Callable[[Contents], None] = lambda _: None,
    ) -> None:
        def changed(contents: Contents) -> Contents:
            copied = {branch: dict(paths) for branch, paths in contents.items()}
            change(copied)
            return copied

        self.steps.append(Step(name, call, changed))


def _script() -> Script:
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
        lambda c: [c["dev"].pop(path) for path in ("a", "b")] and None,
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
        lambda c: c["main"].pop("new") and None,
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
        lambda c: [c["dev"].pop(path) for path in ("gone/1", "gone/2")] and None,
    )
    put("staged", b"s", "dev")
    s.add(
        "reset",
        lambda r, _: r.lake.resetting.reset(r.record, "dev", "reset"),
        lambda c: c["dev"].pop("staged") and None,
    )
    s.add(
        "hard reset",
        lambda r, _: r.lake.resetting.hard_reset(r.record, "dev", "main"),
        lambda c: c.update(dev=dict(c["main"])),
    )
    s.add(
        "delete branch",
        lambda r, _: r.lake.branches.delete(r.record, "dev"),
        lambda c: c.pop("dev") and None,
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


def _count_writes() -> int:
    repo = LakeRepo().create()
    counting = DyingKeyValueStore(repo.kv, -1, is_written=False)
    repo.lake = repo.server(counting)
    memory: dict[str, Any] = {}
    for step in _script().steps:
        step.call(repo, memory)
    return counting.writes


WRITES = _count_writes()


@pytest.mark.slow
@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(1, WRITES + 1))
def test_death_at_a_write_loses_nothing_acknowledged(dies_at: int, is_written: bool) -> None:
    """After a restart every branch is as it was before the unanswered call, or as it would be after it."""
    repo = LakeRepo().create()
    repo.lake = repo.server(DyingKeyValueStore(repo.kv, dies_at, is_written=is_written))
    before: Contents = {"main": {}}
    after = before
    memory: dict[str, Any] = {}
    steps = iter(_script().steps)
    for step in steps:
        before, after = after, step.change(after)
        try:
            step.call(repo, memory)
        except ProcessDiedError:
            break
    repo.lake = repo.server()

    found = {branch: repo.contents(branch) for branch in repo.branches()}
    assert found in (before, after), f"after dying in {step.name!r}"
    live = set(repo.uncommitted()) | repo.committed()
    for branch in found:
        assert {repo.address(path, branch) for path in found[branch]} <= live

    # The unanswered call can be made again, and the day goes on to its end.
    is_visible = before != after
    if found != after or not is_visible:
        refusal = _refusal(step, repo, memory)
        # What the dead process had done already is refused, and a claimed token died with its claimant.
        assert refusal in (None, "tag-exists", "no-changes", "invalid-address"), step.name
        if refusal == "invalid-address":
            after = before
    for step in steps:
        after = step.change(after)
        assert _refusal(step, repo, memory) is None, step.name
    assert {branch: repo.contents(branch) for branch in repo.branches()} == after


def _refusal(step: Step, repo: LakeRepo, memory: dict[str, Any]) -> str | None:
    """The kind of error that a call is answered with, if any."""
    try:
        step.call(repo, memory)
    except LakeError as error:
        return error.kind
    return None


@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(1, 9))
def test_creation_cut_short_can_be_done_again(dies_at: int, is_written: bool) -> None:
    """A repository whose creator died is there, or can be created with the same name and namespace after a minute."""
    repo = LakeRepo()
    dying = DyingKeyValueStore(repo.kv, dies_at, is_written=is_written)
    try:
        repo.server(dying).repositories.create(repo.id, repo.namespace)
    except ProcessDiedError:
        repo.clock.advance(seconds=61)
        if not repo.lake.repositories.page().results:
            repo.create()
    repo.put("a")
    assert repo.commit()


@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(1, 7))
def test_deletion_cut_short_can_be_done_again(dies_at: int, is_written: bool) -> None:
    """A repository whose deletion was cut short is hidden or whole, and deleting again finishes it."""
    repo = LakeRepo().create()
    repo.put("a")
    dying = repo.server(DyingKeyValueStore(repo.kv, dies_at, is_written=is_written))
    try:
        dying.repositories.delete(repo.id)
    except ProcessDiedError:
        again = Step("delete", lambda r, _: r.lake.repositories.delete(r.id), lambda c: c)
        assert _refusal(again, repo, {}) in (None, "repository-not-found")
    assert repo.lake.repositories.page().results == ()
    # The name is free again; the namespace is not, its objects are still there.
    repo.lake.repositories.create(repo.id, repo.namespace + "-2")
