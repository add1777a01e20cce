"""A lake and its collection in plain dicts: what the real ones must agree with, short enough to check by reading.

The model takes ids and addresses from whoever drives it (the real lake hands them out) and decides everything else
itself. It shares no code with the collector; where both say the same, they say it twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

__all__ = ["Garbage", "ModelCommit", "ModelConflictError", "ModelLake", "ModelObject"]

Entries = dict[str, str]  # path → physical address
Reason = Literal["expired", "unreferenced"]
Garbage = dict[str, Reason]  # physical address → why it may go


class ModelConflictError(Exception):
    """Both sides of a merge changed the path, and differently."""


@dataclass(frozen=True)
class ModelObject:
    """An object in the store. Two objects of equal content are one thing to a commit, and two to the store."""

    written_at: datetime
    content: str
    size: int = 1


@dataclass(frozen=True)
class ModelCommit:
    """What a commit holds, when it was made, and the parents it names, the superseded one first."""

    entries: Entries
    made_at: datetime
    parents: tuple[str, ...] = ()


@dataclass
class ModelLake:
    """Everything there is. Verbs change it; `garbage` says what a collection may delete."""

    min_age: timedelta
    objects: dict[str, ModelObject] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)  # of every address ever, gone ones too
    commits: dict[str, ModelCommit] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    staged: dict[str, dict[str, str | None]] = field(default_factory=dict)  # None: deleted
    tags: dict[str, str] = field(default_factory=dict)
    rules: tuple[int, dict[str, int]] | None = None  # default days, days of branches
    pending: dict[str, datetime] = field(default_factory=dict)  # issued address → its end
    copies: dict[str, datetime] = field(default_factory=dict)  # tracked address → its end
    head_moves: list[tuple[str, str, datetime]] = field(default_factory=list)

    # -- what users do

    def store(self, address: str, content: str, at: datetime, size: int = 1) -> None:
        """Bytes come to lie at an address."""
        self.objects[address] = ModelObject(at, content, size)
        self.contents[address] = content

    def stage(self, branch: str, path: str, address: str) -> None:
        """An upload, a link or a copy ends: the branch reads the address at this path."""
        self.staged[branch][path] = address
        self.pending.pop(address, None)

    def delete(self, branch: str, path: str) -> None:
        """A staged entry goes; one that is committed is hidden."""
        if path in self.commits[self.branches[branch]].entries:
            self.staged[branch][path] = None
        else:
            self.staged[branch].pop(path, None)

    def track_copy(self, address: str, until: datetime) -> None:
        """A shallow copy begins: the address stays live until then, whatever happens to its entries."""
        self.copies[address] = max(until, self.copies.get(address, until))

    def reset(self, branch: str) -> None:
        """All that is staged goes."""
        self.staged[branch] = {}

    def create_branch(self, branch: str, commit: str) -> None:
        """A branch that points at a commit, with nothing staged."""
        self.branches[branch] = commit
        self.staged[branch] = {}

    def delete_branch(self, branch: str, at: datetime) -> None:
        """The branch goes, with what is staged on it; what it pointed at is remembered."""
        self.head_moves.append((branch, self.branches.pop(branch), at))
        del self.staged[branch]

    def hard_reset(self, branch: str, commit: str, at: datetime) -> None:
        """The branch points elsewhere; what it pointed at is remembered. Staged entries stay."""
        self.head_moves.append((branch, self.branches[branch], at))
        self.branches[branch] = commit

    def commit(self, branch: str, commit: str, at: datetime) -> None:
        """What is staged becomes a commit. An entry whose content did not change keeps its committed address."""
        base = self.commits[self.branches[branch]].entries
        entries = dict(base)
        for path, address in self.staged[branch].items():
            if address is None:
                entries.pop(path, None)
            elif not self._same(base.get(path), address):
                entries[path] = address
        self.add_commit(branch, commit, at, entries, (self.branches[branch],))
        self.staged[branch] = {}

    def merge(self, source: str, branch: str, commit: str, at: datetime, base: str) -> None:
        """Commit `source` comes into the branch, seen from the common ancestor `base`."""
        head = self.branches[branch]
        self.add_commit(branch, commit, at, self.merged_entries(base, source, head), (head, source))

    def revert(self, reverted: str, branch: str, commit: str, at: datetime) -> None:
        """What a commit changed is undone: its parent comes into the branch, seen from the commit."""
        head = self.branches[branch]
        entries = self.merged_entries(reverted, self.commits[reverted].parents[0], head)
        self.add_commit(branch, commit, at, entries, (head,))

    def cherry_pick(self, picked: str, branch: str, commit: str, at: datetime) -> None:
        """What a commit changed is done again: it comes into the branch, seen from its parent."""
        head = self.branches[branch]
        entries = self.merged_entries(self.commits[picked].parents[0], picked, head)
        self.add_commit(branch, commit, at, entries, (head,))

    def add_commit(
        self, branch: str, commit: str, at: datetime, entries: Entries, parents: tuple[str, ...]
    ) -> None:
        """The branch points at a new commit."""
        self.commits[commit] = ModelCommit(entries, at, parents)
        self.branches[branch] = commit

    def merged_entries(self, base: str, source: str, head: str) -> Entries:
        """Path by path: whoever changed it since the base wins; two different changes are a conflict."""
        was, theirs, ours = (self.commits[c].entries for c in (base, source, head))
        merged: Entries = {}
        for path in was.keys() | theirs.keys() | ours.keys():
            before, incoming, present = was.get(path), theirs.get(path), ours.get(path)
            if self._same(incoming, before):
                result = present
            elif self._same(present, before) or self._same(incoming, present):
                result = incoming
            else:
                raise ModelConflictError(path)
            if result is not None:
                merged[path] = result
        return merged

    def sweep(self, addresses: Iterable[str]) -> None:
        """The bytes are gone; commits and entries stay."""
        for address in addresses:
            self.objects.pop(address, None)

    # -- what a branch or commit reads

    def visible(self, branch: str) -> Entries:
        """What the branch reads: staged over committed."""
        entries: dict[str, str | None] = {**self.commits[self.branches[branch]].entries}
        entries.update(self.staged[branch])
        return {path: address for path, address in entries.items() if address is not None}

    # -- what a collection may delete

    def retained(self, now: datetime, *, keep_tags: bool = False) -> set[str]:
        """The commits that were read from some branch within its days, and all heads."""
        if self.rules is None:
            return set(self.commits)
        default, of_branch = self.rules
        heads = set(self.branches.values())
        superseded = {c.parents[0] for c in self.commits.values() if c.parents}
        retained = set(heads) | (set(self.tags.values()) if keep_tags else set())
        # A walk begins at a commit that was read until some moment; heads are read still.
        walks: list[tuple[str, datetime, int]] = []
        walks += [(head, now, of_branch.get(b, default)) for b, head in self.branches.items()]
        walks += [(left, until, of_branch.get(b, default)) for b, left, until in self.head_moves]
        walks += [
            (name, commit.made_at, default)
            for name, commit in self.commits.items()
            if name not in heads | superseded
        ]
        for name, read_until, days in walks:
            while True:
                if read_until > now - timedelta(days=days):
                    retained.add(name)
                commit = self.commits[name]
                if not commit.parents:
                    break
                name, read_until = commit.parents[0], commit.made_at
        return retained

    def held(self, now: datetime) -> set[str]:
        """Addresses that are live whatever was committed: staged, being copied, being uploaded."""
        staged = {a for entries in self.staged.values() for a in entries.values() if a is not None}
        copied = {address for address, until in self.copies.items() if until > now}
        pending = {address for address, until in self.pending.items() if until > now}
        return staged | copied | pending

    def live(self, now: datetime, *, keep_tags: bool = False) -> set[str]:
        """Every address that may not go."""
        retained = self.retained(now, keep_tags=keep_tags)
        return self.held(now) | {a for c in retained for a in self.commits[c].entries.values()}

    def garbage(
        self,
        now: datetime,
        what: Literal["all", "committed", "uncommitted"] = "all",
        *,
        keep_tags: bool = False,
    ) -> Garbage:
        """What exists, is not live, and is older than the minimum age (exclusive)."""
        live = self.live(now, keep_tags=keep_tags)
        committed = {a for commit in self.commits.values() for a in commit.entries.values()}
        found: Garbage = {}
        for address, stored in self.objects.items():
            if address in live or stored.written_at >= now - self.min_age:
                continue
            reason: Reason = "expired" if address in committed else "unreferenced"
            if what == "all" or (what == "committed") == (reason == "expired"):
                found[address] = reason
        return found

    def _same(self, one: str | None, other: str | None) -> bool:
        if one is None or other is None:
            return one is other
        return self.contents[one] == self.contents[other]
