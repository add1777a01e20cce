"""The lake that a program plays in: one repository in memory, put back to its first state before every schedule."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakesweep.domain.commits import CommitId
from lakesweep.domain.rules import RetentionRules
from lakesweep.lake.caches import SizedCache
from lakesweep.lake.lake import Lake
from lakesweep.lake.values import LakeSettings, Repository
from lakesweep.storage.memory import MemoryBackend, MemoryContainer
from lakesweep_testing.memory_kv import MemoryKeyValueStore
from lakesweep_testing.schedules.names import CountedNames
from lakesweep_testing.schedules.stepped_kv import Step, SteppedKeyValueStore
from lakesweep_testing.schedules.stepped_store import SteppedStore
from lakesweep_testing.schedules.steps import Access

NAMESPACE = "mem://schedules/ns"
RETENTION_DAYS = 5
_BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)
_LINK_SECRET = "physical-address"


@dataclass
class _Snapshot:
    rows: dict[str, dict[bytes, bytes]]
    objects: dict[str, Any]
    now: datetime
    counts: dict[int, int]
    rules: RetentionRules | None
    promises: dict[tuple[str, str], bytes]


@dataclass
class World:
    """A repository `repo` with a branch `main`, and everything that a program sets up in it before its actors begin.

    Each actor gets a server of its own (`new_lake`), as if the servers shared one PostgreSQL: what one of them keeps in
    its memory hides nothing from the others. Its caches of immutable records begin warm with all that was there when
    the schedule began; reads of those are no steps, and no step of anybody could change them.
    """

    keep_tags: bool = False
    hard_delete: bool = False
    now: datetime = _BEGINNING
    min_age: timedelta = timedelta(days=1)
    """How old an object must be to be collected."""
    promises: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """What users were told is there: content by ref and path."""
    takers: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """Who has taken away or overwritten what since the schedule began."""

    def __post_init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="schedules-")
        self.settings = LakeSettings(
            Path(self._folder.name),
            allow_namespaces=("mem://",),
            slice_max_size=2,
            hard_delete=self.hard_delete,
            delete_grace=timedelta(0),
            undo_window=timedelta(hours=1) if self.hard_delete else timedelta(0),
        )
        self.names = CountedNames()
        self.kv = MemoryKeyValueStore()
        self.container = MemoryContainer(self.clock)
        self._before_access: Step = _go_on
        self._stepped_kv = SteppedKeyValueStore(self.kv, self._step)
        self._caches: list[OrderedDict[Any, Any]] = []
        self._secrets: dict[str, bytes] = {}
        self.lake = Lake(self._stepped_kv, self.settings, self.clock)
        context = self.lake.repositories._context
        self._location = context.locate(NAMESPACE)
        self.backend = MemoryBackend(self.container, self._location.key)
        self.store = SteppedStore(self._location, self.backend, self._step)
        context._stores[self._location] = self.store

    def close(self) -> None:
        """Remove the folder of the key file."""
        self._folder.cleanup()

    def begin(self) -> None:
        """Make the repository, with retention rules."""
        self.repository: Repository = self.lake.repositories.create("repo", NAMESPACE)
        self.lake.rules.set(self.repository, RetentionRules(RETENTION_DAYS))
        self._secrets[_LINK_SECRET] = self.lake.credentials.signing_secret(_LINK_SECRET)

    def clock(self) -> datetime:
        """The time, which stands still unless somebody moves it."""
        return self.now

    def pass_time(self, **by: float) -> None:
        """Move the clock: `pass_time(days=2)`."""
        self.now += timedelta(**by)

    def _step(self, access: Access) -> None:
        self._before_access(access)

    def at_each_access(self, before_access: Step) -> None:
        """From now on call this before each access."""
        self._before_access = before_access

    def undisturbed(self) -> None:
        """From now on let accesses happen at once."""
        self._before_access = _go_on

    # -- what users do before the schedule begins

    def upload(self, branch: str, path: str, content: str) -> str:
        """Stage an object; its address."""
        made = self.lake.objects.upload(self.repository, branch, path, [content.encode()])
        self.promises[(branch, path)] = content.encode()
        return self.relative(made.physical_address)

    def delete(self, branch: str, path: str) -> None:
        """Delete a path."""
        self.promises.pop((branch, path), None)
        self.lake.objects.delete(self.repository, branch, path)

    def commit(self, branch: str = "main") -> CommitId:
        """Commit what is staged, a minute after whatever was done before."""
        self.pass_time(minutes=1)
        message = f"commit {self.now:%d %H:%M}"
        return self.lake.committing.commit(self.repository, branch, message, committer="user").id

    def relative(self, address: str) -> str:
        """An address as the store has it."""
        return address.removeprefix(f"{NAMESPACE}/")

    def read(self, ref: str, path: str) -> bytes:
        """What a reader gets."""
        opened = self.lake.objects.open(self.repository, ref, path)
        return b"".join(opened.chunks)

    def full_key(self, address: str) -> str:
        """The key of an address in the container of all objects."""
        return f"{self._location.key}/{address}"

    def object_keys(self) -> list[str]:
        """The keys of all objects, relative to the namespace."""
        return self.backend._keys("", None)

    def labels(self) -> dict[str, str]:
        """What the objects say, by their addresses, those of the first state included."""
        objects = {**self._first.objects, **self.container.objects}
        prefix = self.full_key("")
        return {
            key.removeprefix(prefix): found.data.decode(errors="replace")
            for key, found in objects.items()
            if key.startswith(f"{prefix}data/")
        }

    def fingerprint(self) -> int:
        """A number that is the same for equal states of both stores."""
        rows = (
            (partition, row) for partition, found in self.kv.rows().items() for row in found.items()
        )
        return hash((frozenset(rows), frozenset(self.container.objects), self.now, str(self.rules)))

    # -- first state and back

    def keep_as_first_state(self) -> None:
        """What is there now is what every schedule begins with."""
        self._warm(self.lake)
        self.rules = self.lake.rules.find(self.repository)
        """The rules that users were told are in force."""
        self._first = _Snapshot(
            self.kv.rows(),
            dict(self.container.objects),
            self.now,
            self.names.counts,
            self.rules,
            dict(self.promises),
        )

    def put_back(self) -> None:
        """Go back to the first state."""
        first = self._first
        self.kv.put_back(first.rows)
        self.container.objects = dict(first.objects)
        self.now = first.now
        self.names.restart(first.counts)
        self.rules = first.rules
        self.promises = dict(first.promises)
        self.takers = {}

    def new_lake(self) -> Lake:
        """A server that just started, its caches filled with what the first state holds."""
        lake = Lake(self._stepped_kv, self.settings, self.clock)
        lake.repositories._context._stores[self._location] = self.store
        lake.credentials._signing_secrets.update(self._secrets)
        return lake

    def restart(self, lake: Lake) -> None:
        """Have a server forget all that it learned since the first state. Cheaper than a new one."""
        for cache, values in zip(_caches_of(lake), self._caches, strict=True):
            cache._values = values.copy()
        lake.slices._began_at = None
        lake.fence._hashes = None
        lake.reviewer._references._known.clear()

    def _warm(self, lake: Lake) -> None:
        committed = lake.committing._committed
        for commit in list(lake.commits.all(self.repository)):
            lake.commits.get(self.repository, commit.id)
            for info in committed.ranges(self.repository, commit.meta_range_id):
                committed.table(self.repository, info)
        self._caches = [cache._values.copy() for cache in _caches_of(lake)]


def _caches_of(lake: Lake) -> list[SizedCache[Any]]:
    committed = lake.committing._committed
    return [lake.commits._cache, committed._metaranges, committed._tables]


def _go_on(_: Access) -> None:
    return None
