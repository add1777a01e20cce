"""A lake of the seed's shape at any scale, by arithmetic, with garbage that is known by construction.

Scale 1 has 20M objects in 2K slices, 1K branches, 30K commits, 120K ranges with 50M entries, 5M uncommitted objects and
1M stale ones. Branches are `main`, long-lived ones that merge it back, short ones that fork off from it and mostly are
merged into it, and deleted ones; rules differ by branch. lake_objects.py says what holds which objects, lake_history.py
which commits there are.

The second state is a day later: a hundredth of everything has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np
import pyarrow as pa

from lake_files import branch_name
from lake_history import DEFAULT_DAYS, History, Proportions, make_history
from lake_objects import (
    ENTRIES_PER_RANGE,
    NAMESPACE,
    REPOSITORY,
    ROOT,
    FlatObjects,
    Indexes,
    LakeObjects,
)
from lakesweep.formats.tables import UNCOMMITTED_SCHEMA, write_uncommitted

__all__ = [
    "NAMESPACE",
    "REPOSITORY",
    "ROOT",
    "SHAPES",
    "Expected",
    "LakeState",
    "Proportions",
    "Scenario",
]

SEED_OBJECTS = 20_000_000
SHAPES = ("even", "flat", "one-slice", "one-branch", "one-commit")
_STEP = 20_000  # objects come in multiples of it
# A real server ends a file of its uncommitted list when it has so many bytes.
_LIST_FILE_BYTES = 20 << 20
_ROWS_TO_MEASURE = 20_000
_AS_THE_SEED = Proportions()


@dataclass(frozen=True, slots=True)
class LakeState:
    """What the refs and the staging areas say: ranks that are staged by branch, and those that are only listed as such."""

    history: History
    staged: dict[int, Indexes]
    tracked: Indexes

    def uncommitted(self) -> Indexes:
        """Ranks in the server's list of what is uncommitted, branch by branch, copies last."""
        by_name = sorted(self.staged, key=branch_name)
        return np.concatenate([*(self.staged[branch] for branch in by_name), self.tracked])

    def rules(self) -> dict[str, object]:
        """The retention rules as the API gives them."""
        lives = (life for life in self.history.lives if life.number in self.history.heads)
        days = [(branch_name(life.number), life.days) for life in lives if life.days is not None]
        return {
            "default_retention_days": DEFAULT_DAYS,
            "branches": [{"branch_id": name, "retention_days": own} for name, own in days],
        }


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """Ranks of what a collection must find, no more and no less."""

    expired: Indexes
    unreferenced: Indexes

    @property
    def garbage(self) -> Indexes:
        """All of it."""
        return np.concatenate([self.expired, self.unreferenced])


class Scenario:
    """What exists, and who holds it, in two states."""

    def __init__(
        self,
        objects: int = 1_000_000,
        shape: str = "even",
        now: datetime | None = None,
        *,
        times: Proportions = _AS_THE_SEED,
        slices: int | None = None,
        changed: float = 0.01,
    ) -> None:
        if objects % _STEP or objects < _STEP or shape not in SHAPES:
            raise ValueError(
                f"a multiple of {_STEP} objects in a known shape, not {objects} {shape}"
            )
        self.shape, self._times, self._changed = shape, times, changed
        self.now = now or datetime.now(UTC).replace(microsecond=0)
        self.objects = (
            FlatObjects.make_flat(objects, self.now)
            if shape == "flat"
            else LakeObjects.make(
                objects, self.now, one_slice=shape == "one-slice", slices=slices, changed=changed
            )
        )

    @classmethod
    def at_scale(cls, scale: float, shape: str = "even") -> Scenario:
        """The seed's numbers times `scale`, which is at least 0.001."""
        return cls(max(1, round(SEED_OBJECTS * scale / _STEP)) * _STEP, shape)

    def __str__(self) -> str:
        first, objects = self.first, self.objects
        history = first.history
        slices = objects.slices - objects.new // objects.objects_per_slice
        return (
            f"{objects.count:,} objects in {slices:,} slices ({self.shape}); {len(history.heads):,} branches, "
            f"{len(history.commits):,} commits, {len(history.slots):,} ranges with "
            f"{len(history.slots) * ENTRIES_PER_RANGE:,} entries; {len(first.uncommitted()):,} uncommitted"
        )

    # -- states

    @cached_property
    def first(self) -> LakeState:
        """The lake as a first run finds it."""
        objects = self.objects
        history = make_history(objects, self._times, one_commit=self.shape == "one-commit")
        staged = objects.role("staged")
        branches = 1 if self.shape == "one-branch" else history.shape.branches
        return LakeState(
            history, dict(enumerate(np.array_split(staged, branches))), objects.role("tracked")
        )

    @cached_property
    def second(self) -> LakeState:
        """A hundredth, or another share, changed: commits made, objects staged, committed and dropped, branches deleted."""
        objects, first = self.objects, self.first
        history, staged = first.history.copy(), dict(first.staged)
        for branch in self._stale_branches(history):
            del history.heads[branch]
            staged.pop(branch, None)
        committed = [objects.role("new committed")]
        fresh, every = objects.role("new staged"), round(1 / self._changed)
        for number, branch in enumerate(sorted(staged)):
            ranks = staged[branch]
            committed.append(ranks[::every])
            new = fresh[number :: len(staged)]
            staged[branch] = np.concatenate([np.delete(ranks, np.s_[::every]), new])
        self._commit(history, np.concatenate(committed))
        return LakeState(history, staged, first.tracked)

    def _stale_branches(self, history: History) -> list[int]:
        """Branches whose commits all expire when they are deleted."""
        long_ago = history.now - timedelta(days=DEFAULT_DAYS + 1)
        stale = [
            branch
            for branch, head in history.heads.items()
            if branch
            and history.commits[head].branch == branch
            and history.commits[head].at < long_ago
        ]
        return stale[: max(1, round(history.shape.branches * self._changed))]

    def _commit(self, history: History, ranks: Indexes) -> None:
        """Commits on many branches, which bring these objects in new versions of ranges without small files."""
        shape, share = history.shape, self.objects.new / self.objects.count
        commits = max(1, round(shape.commits * share))
        changes = max(3, round(shape.ranges * share / commits))
        branches = [b for b, head in history.heads.items() if history.commits[head].branch == b]
        for number, some in enumerate(np.array_split(ranks, commits)):
            branch = branches[number * 7 % len(branches)]
            state = history.state(branch).copy()
            slots = np.array([history.slot_at(branch, place) for place in range(len(state))])
            plain = np.flatnonzero(slots % 20)
            places = plain[(np.arange(changes) * 11 + number) % len(plain)]
            for place, objects in zip(
                np.unique(places).tolist(),
                np.array_split(some, len(np.unique(places))),
                strict=True,
            ):
                state[place] = version = history.new_version(int(slots[place]))
                history.replacing[version] = objects
            at = history.now - timedelta(days=1.9) + timedelta(seconds=number)
            history.commit(branch, at, state)

    # -- what must be found

    def expected(
        self,
        state: LakeState,
        *,
        keep_tags: bool = False,
        days: Callable[[int], int] | None = None,
    ) -> Expected:
        """The garbage of a state among what exists now. `days` replaces the rules; -1 stands for what is on no branch."""
        objects, history = self.objects, state.history
        kept = history.retained(days) | (set(history.tags.values()) if keep_tags else set())
        is_live = self._held(history, history.versions_of(kept))
        is_committed = self._held(history, np.arange(len(history.slots)))
        is_live[state.uncommitted()] = True
        is_live[objects.role("young")] = True
        is_live[self.reuploads(state)] = True
        is_there = objects.is_alive[objects.indexes(np.arange(len(objects)))]
        is_garbage = is_there & ~is_live
        return Expected(
            np.flatnonzero(is_garbage & is_committed), np.flatnonzero(is_garbage & ~is_committed)
        )

    def _held(self, history: History, versions: Indexes) -> np.ndarray:
        is_held = np.zeros(len(self.objects), np.bool_)
        for version in versions.tolist():
            is_held[history.ranks(version, self.objects.head_slots)] = True
        return is_held

    def by_role(self, *, keep_tags: bool = False) -> Expected:
        """The garbage of the first state as roles have it: nobody has to look at commits."""
        role = self.objects.role
        expired = [role("expired")] if keep_tags else [role("expired"), role("tagged")]
        return Expected(np.concatenate(expired), role("unreferenced"))

    def reuploads(self, state: LakeState) -> Indexes:
        """Re-uploads that lie on branches which are there."""
        ranks = self.objects.role("reupload")
        slots = self.objects.originals(ranks) // ENTRIES_PER_RANGE
        is_on = [state.history.owner(slot) in state.history.heads for slot in slots.tolist()]
        return ranks[np.array(is_on, np.bool_)]

    # -- as the server writes it

    def list_files(self, state: LakeState, *, with_reuploads: bool = False) -> list[bytes]:
        """The server's list of uncommitted objects, in files of its size: a page each."""
        more = self.reuploads(state)[: None if with_reuploads else 0]
        ranks = np.concatenate([state.uncommitted(), more])
        sample = self._list_file(ranks[:_ROWS_TO_MEASURE])
        rows = max(1, _LIST_FILE_BYTES * min(len(ranks), _ROWS_TO_MEASURE) // len(sample))
        return [self._list_file(ranks[at : at + rows]) for at in range(0, len(ranks), rows)]

    def _list_file(self, ranks: Indexes) -> bytes:
        rows = np.ascontiguousarray(self.objects.addresses(ranks))
        offsets = np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1]
        addresses = pa.StringArray.from_buffers(
            len(rows), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(rows)
        )
        when = int((self.now - timedelta(days=3)).timestamp())
        dates = pa.array(np.full(len(rows), when, np.int64))
        return write_uncommitted(pa.table([addresses, dates], UNCOMMITTED_SCHEMA))

    def foreign_files(self) -> dict[str, bytes]:
        """Keys in the bucket of what lies in the namespace and is not the repository's: it must stay."""
        objects = self.objects
        # In slices of the first state alone: a slice that a run has seen gets no objects a day later.
        parts = (objects.new // objects.objects_per_slice, objects.slices - 1)
        slices = [objects.slice(part) for part in parts] if self.shape != "flat" else []
        names = ["README.md", "data/plain-file", "data/some folder/x", "exports/2024/part-0.csv"]
        names += [f"symlinks/table/{number:03d}" for number in range(100)]
        keys = [ROOT + name for name in names]
        keys += [
            f"{one}{name}"
            for one in slices
            for name in ("not-an-object", "d000/deeper", "_SUCCESS")
        ]
        return dict.fromkeys(keys, b"somebody else's")
