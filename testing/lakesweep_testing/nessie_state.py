"""The repository behind the fake Nessie server: references, commits, and what each commit's state is."""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lakesweep_testing.nessie_contents import Content, Key, namespace, parents_of

__all__ = ["NO_ANCESTOR", "FakeCommit", "FakeReference", "NessieState", "Refusal"]

# What a real server calls the hash of an empty history.
NO_ANCESTOR = "2e1cfa82b035c26cbbbdae632cea070514eb8b773f616aaeaf668e2f0be8f10d"


class Refusal(Exception):
    """An answer other than the one asked for."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True, slots=True)
class FakeReference:
    """A branch or a tag."""

    kind: str
    name: str
    hash: str


@dataclass(frozen=True, slots=True)
class FakeCommit:
    """A commit with its operations, and all contents as they are after it."""

    hash: str
    parents: tuple[str, ...]
    time: datetime
    message: str
    puts: Mapping[Key, Content]
    deletes: tuple[Key, ...]
    state: Mapping[Key, Content] = field(repr=False)


@dataclass(slots=True)
class NessieState:
    """All of it, with a clock that tests set. Every commit moves the clock on by `tick`."""

    default_branch: str = "main"
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    tick: timedelta = timedelta(seconds=1)
    commits: dict[str, FakeCommit] = field(default_factory=dict)
    references: dict[str, FakeReference] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _ids: int = 0

    def __post_init__(self) -> None:
        main = self.default_branch
        self.references[main] = FakeReference("BRANCH", main, NO_ANCESTOR)

    # -- reading

    def reference(self, name: str) -> FakeReference:
        if name not in self.references:
            raise Refusal(404, "REFERENCE_NOT_FOUND", f"Named reference '{name}' not found")
        return self.references[name]

    def state_at(self, hash: str) -> Mapping[Key, Content]:
        return {} if hash == NO_ANCESTOR else self.commit_at(hash).state

    def commit_at(self, hash: str) -> FakeCommit:
        if hash not in self.commits:
            raise Refusal(404, "REFERENCE_NOT_FOUND", f"Commit '{hash}' not found")
        return self.commits[hash]

    def log(self, hash: str) -> Iterator[FakeCommit]:
        """From a commit along its first parents to the root."""
        while hash != NO_ANCESTOR:
            commit = self.commit_at(hash)
            yield commit
            hash = commit.parents[0]

    # -- writing

    def commit(
        self,
        branch: str,
        puts: Mapping[Key, Content],
        deletes: Sequence[Key] = (),
        *,
        message: str = "",
        merged: str | None = None,
    ) -> FakeCommit:
        """One commit on a branch. Contents without an id get a new one."""
        with self.lock:
            head = self._branch(branch).hash
            state = dict(self.state_at(head))
            for key in deletes:
                if state.pop(key, None) is None:
                    raise Refusal(409, "REFERENCE_CONFLICT", f"Key '{key}' does not exist")
            stored = {key: self._with_id(content) for key, content in puts.items()}
            if len({content["id"] for content in stored.values()}) < len(stored):
                raise Refusal(400, "BAD_REQUEST", "Duplicate content ID")
            state |= stored
            for key in stored:
                for parent in parents_of(key):
                    if state.get(parent, {}).get("type") != "NAMESPACE":
                        missing = ".".join(parent)
                        raise Refusal(
                            409, "REFERENCE_CONFLICT", f"Namespace '{missing}' must exist"
                        )
            made = FakeCommit(
                hash=_hash_of(head, merged, self.now, message, len(self.commits)),
                parents=(head,) if merged is None else (head, merged),
                time=self.now,
                message=message,
                puts=stored,
                deletes=tuple(deletes),
                state=state,
            )
            self.commits[made.hash] = made
            self.references[branch] = FakeReference("BRANCH", branch, made.hash)
            self.now += self.tick
            return made

    def merge(
        self,
        source_hash: str,
        branch: str,
        modes: Mapping[Key, str] | None = None,
        default_mode: str = "NORMAL",
    ) -> FakeCommit | None:
        """One commit with what changed on the source since the histories parted; None when nothing did.

        The mode of a key is NORMAL (refused when both sides changed it), FORCE or DROP.
        """
        with self.lock:
            target = self._branch(branch)
            known = {commit.hash for commit in self._ancestors(target.hash)} | {NO_ANCESTOR}
            base = next(
                (c.hash for c in self._ancestors(source_hash) if c.hash in known), NO_ANCESTOR
            )
            if source_hash == base:
                return None
            before, theirs = self.state_at(base), self.state_at(source_hash)
            ours = self.state_at(target.hash)
            on_source = {
                key for key in before.keys() | theirs.keys() if before.get(key) != theirs.get(key)
            }
            if unused := set(modes or ()) - on_source:
                raise Refusal(400, "BAD_REQUEST", f"The following keys were not used: {unused}")
            mode_of = {key: (modes or {}).get(key, default_mode) for key in on_source}
            changed = {
                key
                for key in on_source
                if ours.get(key) != theirs.get(key) and mode_of[key] != "DROP"
            }
            if not changed:
                return None
            conflicts = [
                key
                for key in changed
                if ours.get(key) != before.get(key) and mode_of[key] == "NORMAL"
            ]
            if conflicts:
                names = ", ".join(".".join(key) for key in sorted(conflicts))
                raise Refusal(409, "REFERENCE_CONFLICT", f"The following keys conflict: {names}")
            return self.commit(
                branch,
                {key: theirs[key] for key in sorted(changed) if key in theirs},
                sorted(key for key in changed if key not in theirs and key in ours),
                message=f"Merged {source_hash[:12]}",
                merged=source_hash,
            )

    def create(self, kind: str, name: str, hash: str) -> FakeReference:
        with self.lock:
            if name in self.references:
                raise Refusal(409, "REFERENCE_ALREADY_EXISTS", f"'{name}' exists already")
            self.state_at(hash)
            self.references[name] = FakeReference(kind, name, hash)
            return self.references[name]

    def assign(self, name: str, hash: str) -> FakeReference:
        with self.lock:
            self.state_at(hash)
            self.references[name] = FakeReference(self.reference(name).kind, name, hash)
            return self.references[name]

    def delete(self, name: str) -> FakeReference:
        with self.lock:
            self.reference(name)
            if name == self.default_branch:
                raise Refusal(400, "BAD_REQUEST", "The default branch can not be deleted")
            return self.references.pop(name)

    def with_namespaces(self, branch: str, puts: Mapping[Key, Content]) -> dict[Key, Content]:
        """The puts, after puts of the namespaces that they need and the branch lacks."""
        state = self.state_at(self.reference(branch).hash)
        needed = {parent: None for key in puts for parent in parents_of(key)}
        missing = {p: namespace(p) for p in needed if p not in state and p not in puts}
        return {**missing, **puts}

    def _branch(self, name: str) -> FakeReference:
        reference = self.reference(name)
        if reference.kind != "BRANCH":
            raise Refusal(400, "BAD_REQUEST", f"'{name}' is not a branch")
        return reference

    def _ancestors(self, hash: str) -> Iterator[FakeCommit]:
        """Everything that was ever merged into a commit, newest first."""
        found: dict[str, FakeCommit] = {}
        waiting = [hash]
        while waiting:
            next_hash = waiting.pop()
            if next_hash not in found and next_hash != NO_ANCESTOR:
                found[next_hash] = self.commits[next_hash]
                waiting.extend(found[next_hash].parents)
        order = {hash: number for number, hash in enumerate(self.commits)}
        return iter(sorted(found.values(), key=lambda commit: -order[commit.hash]))

    def _with_id(self, content: Content) -> Content:
        if content.get("id"):
            return dict(content)
        self._ids += 1
        return {**content, "id": str(uuid.UUID(int=self._ids, version=4))}


def _hash_of(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()
