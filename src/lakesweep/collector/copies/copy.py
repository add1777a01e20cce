"""Backup and restore of what a mark names: any store to any store, verified, resumable by running it again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from lakesweep.collector.copies.copier import MISSING, VERIFIED, CopyChunk, CopyRoad, copy_chunks
from lakesweep.collector.copies.lookups import NEIGHBOURS
from lakesweep.collector.copies.order import in_order
from lakesweep.collector.outcomes import OUTCOMES_SCHEMA, Outcomes
from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.target import own_name
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Engine, Scatter, tasks_for
from lakesweep.errors import (
    ConfigError,
    ObjectNotFoundError,
    StorageDeniedError,
    StorageError,
    UnsafeToSweepError,
)
from lakesweep.storage import ObjectStore

_MOST_ROWS_PER_CHUNK = 2 * NEIGHBOURS
_FEWEST_ROWS_PER_CHUNK = 200
_CHUNKS_PER_SLOT = 4
_MOST_TASKS = 200


class Copied(Outcomes):
    """What became of the objects of a backup or restore.

    Verified rows may be deleted or count as restored, missing ones are recorded as gone, the unverified stay as they are.
    """

    @property
    def verified(self) -> list[Part]:
        """Rows whose copies are as their originals."""
        return [part for outcome in VERIFIED for part in self.parts[outcome]]

    @property
    def missing(self) -> list[Part]:
        """Rows whose originals are not in the source."""
        return self.parts[MISSING]

    @property
    def unverified(self) -> list[Part]:
        """Rows that are in the source and whose copies could not be verified."""
        return [part for outcome in self._failures for part in self.parts[outcome]]

    @property
    def failed(self) -> Tally:
        """Objects that are in the source and whose copy could not be verified."""
        return self.tally(*self._failures)

    @property
    def why_failed(self) -> str:
        """One example for each way of failing."""
        return "; ".join(f"{outcome}: {self.examples[outcome]}" for outcome in self._failures)

    @property
    def _failures(self) -> list[str]:
        return [o for o in self.examples if o not in VERIFIED and o != MISSING]


def refuse_inside(namespace: Location, other: Location) -> None:
    """Refuse a backup location in or around the namespace: it would be listed as data, or could swallow the data."""
    if namespace.contains(other) or other.contains(namespace):
        raise ConfigError(
            f"{other.uri} overlaps the storage namespace {namespace.uri}. Nothing was copied. Choose a location outside it.",
            kind="backup-inside-namespace",
        )


def _refuse_same_place(road: CopyRoad) -> None:
    """Refuse source and target that are one place by two names, as links, mounts and aliases of buckets make them: each
    object would be taken for its own copy."""
    key = own_name(road.folder, "same-place", ".json")
    is_restore = road.target == road.own_folder
    other = road.source if is_restore else road.target
    own = road.own_folder.open()
    own.write(key, b"{}")
    try:
        other.open().stat(key)
    except ObjectNotFoundError:
        return
    except StorageDeniedError:
        # Who may read a backup need not be told what it does not hold. A restore deletes nothing.
        if not is_restore:
            raise
        return
    finally:
        own.delete_many([key])
    source, target = (end.namespace.uri for end in (road.source, road.target))
    raise ConfigError(
        f"{source} and {target} are one place by two names. Nothing was copied. Choose a location outside the "
        "storage namespace.",
        kind="backup-inside-namespace",
    )


def copy_parts(engine: Engine, road: CopyRoad, parts: Sequence[Part]) -> Copied:
    """Copy every object that the parts name."""
    _refuse_same_place(road)
    asked = sum(part.rows for part in parts)
    marks, parts = in_order(engine, road.marks, road.own_folder, road.folder, parts)
    road = replace(road, marks=marks, is_target_empty=_is_empty(road.target.open()))
    # Few objects are spread over all slots, many are not held in one task's memory.
    size = math.ceil(asked / (_CHUNKS_PER_SLOT * max(engine.slots, 1)))
    size = min(max(size, _FEWEST_ROWS_PER_CHUNK), _MOST_ROWS_PER_CHUNK)
    chunks = [
        CopyChunk(part.key, start, min(size, part.rows - start))
        for part in parts
        for start in range(0, part.rows, size)
    ]
    tasks = tasks_for(len(chunks), engine.slots, at_most=_MOST_TASKS, waves=4)
    # Neighbours go to one task, so that it reads their part once.
    task_of = [number * tasks // len(chunks) for number in range(len(chunks))]
    scatter = Scatter(
        chunks,
        partial(copy_chunks, road),
        OUTCOMES_SCHEMA,
        tasks,
        task_of,
        objects=asked,
        size_bytes=tally_of(parts).bytes,
    )
    copied = Copied.of(engine.collect(scatter).to_pylist())
    seen, sure = copied.objects, copied.tally(*VERIFIED).objects
    if asked != seen or sure != tally_of(copied.verified).objects:
        raise UnsafeToSweepError(
            f"{asked} objects were to be copied, {seen} have an outcome, {sure} are verified. Nothing was deleted. Run again.",
            kind="not-conserved",
        )
    return copied


def _is_empty(store: ObjectStore) -> bool:
    try:
        return store.first_key() is None
    except StorageError:
        return False  # Nobody knows; what becomes of each copy is told by its own requests.
