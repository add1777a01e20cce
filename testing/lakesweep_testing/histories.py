"""Random histories written through lakeFS's official Python client, and what of them is garbage, found independently.

The expectation walks every ref through the server's API and shares no code with the collector: a listing of the bucket,
minus what branches read, minus what retained commits read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import lakefs
from lakefs.client import Client
from lakefs.exceptions import LakeFSException

from lakesweep.storage import ObjectStore


def client_of(endpoint: str, access_key_id: str, secret_access_key: str) -> Client:
    """The official client for a server."""
    make: Callable[..., Client] = Client  # its constructor has no types
    return make(host=endpoint, username=access_key_id, password=secret_access_key)


@dataclass
class RandomHistory:
    """Does what users do on one repository, from a seed, over the past weeks."""

    client: Client
    repository: str
    namespace: str
    seed: int
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._clock = self.now - timedelta(days=40)
        self._number = 0
        self.repo = lakefs.Repository(self.repository, client=self.client).create(
            storage_namespace=self.namespace
        )

    def write(self, steps: int) -> None:
        """Take this many steps, each a verb of a user; what the server refuses (nothing to commit, a conflict) is passed over."""
        verbs = [
            (self._upload, 30),
            (self._delete, 12),
            (self._commit, 20),
            (self._branch, 4),
            (self._merge, 5),
            (self._revert, 3),
            (self._reset, 3),
            (self._drop_branch, 2),
            (self._tag, 2),
            (self._copy, 4),
        ]
        weights = [weight for _, weight in verbs]
        for verb, _ in self._random.choices(verbs, weights, k=steps):
            self._clock += (self.now - timedelta(hours=1) - self._clock) / max(steps // 2, 1)
            try:
                verb()
            except LakeFSException:
                continue

    def _any_branch(self) -> Any:
        return self.repo.branch(self._random.choice([b.id for b in self.repo.branches()]))

    def _any_path(self) -> str:
        return f"dir-{self._random.randrange(4)}/file-{self._random.randrange(12)}"

    def _upload(self) -> None:
        self._number += 1
        content = f"{self.seed} {self._number} ".encode() * self._random.randrange(1, 9)
        self._any_branch().object(self._any_path()).upload(content)

    def _delete(self) -> None:
        self._any_branch().object(self._any_path()).delete()

    def _commit(self) -> None:
        self._number += 1
        self._any_branch().commit(f"commit {self._number}", date=int(self._clock.timestamp()))

    def _branch(self) -> None:
        self._number += 1
        self.repo.branch(f"branch-{self._number}").create(self._any_branch().id)

    def _merge(self) -> None:
        self._any_branch().merge_into(self._any_branch())

    def _revert(self) -> None:
        branch = self._any_branch()
        branch.revert(branch.id)

    def _reset(self) -> None:
        self._any_branch().reset_changes("reset")

    def _drop_branch(self) -> None:
        branch = self._any_branch()
        if branch.id != "main":
            branch.delete()

    def _tag(self) -> None:
        self._number += 1
        self.repo.tag(f"tag-{self._number}").create(self._any_branch().id)

    def _copy(self) -> None:
        branch = self._any_branch()
        branch.object(self._any_path()).copy(branch.id, self._any_path())


def addresses_read_by(repo: Any, ref: str, namespace: str) -> dict[str, str]:
    """Path → address relative to the namespace, of everything that a ref reads inside it."""
    prefix = namespace.rstrip("/") + "/"
    return {
        entry.path: entry.physical_address.removeprefix(prefix)
        for entry in repo.ref(ref).objects()
        if entry.physical_address.startswith(prefix)
    }


def expected_garbage(
    repo: Any,
    namespace: str,
    store: ObjectStore,
    commits: dict[str, Any],
    default_days: int,
    branch_days: dict[str, int],
    now: datetime,
) -> set[str]:
    """Listed under data/, and read by no branch and no retained commit. `commits` holds dangling ones too."""
    listed = set(store.keys("data/"))
    live: set[str] = set()
    for branch in repo.branches():
        live |= set(addresses_read_by(repo, branch.id, namespace).values())
    heads = {branch.id: branch.get_commit().id for branch in repo.branches()}
    for commit in _retained(commits, heads, default_days, branch_days, now):
        live |= set(addresses_read_by(repo, commit, namespace).values())
    return listed - live


def _retained(
    commits: dict[str, Any],
    heads: dict[str, str],
    default_days: int,
    branch_days: dict[str, int],
    now: datetime,
) -> Iterator[str]:
    """By the words of the seeds: whatever was the head of its line at some moment of the window."""
    first_parents = {c.parents[0] for c in commits.values() if c.parents}
    leaves = set(commits) - first_parents - set(heads.values())
    lines = [(head, branch_days.get(branch, default_days)) for branch, head in heads.items()]
    for start, days in [*lines, *((leaf, default_days) for leaf in leaves)]:
        since = now.timestamp() - days * 86400
        superseded_at = now.timestamp() if start in heads.values() else commits[start].creation_date
        current: str | None = start
        while current is not None:
            if superseded_at > since:
                yield current
            superseded_at = commits[current].creation_date
            parents = commits[current].parents
            current = parents[0] if parents else None
