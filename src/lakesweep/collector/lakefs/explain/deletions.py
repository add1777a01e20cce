"""What our own runs did to objects: which run deleted one, when, where copies were made, and what was restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.references import GONE, RESTORED
from lakesweep.collector.lakefs.between_runs.history import DamagedRun, list_runs
from lakesweep.collector.lakefs.between_runs.saved import EVENT_FILE, event_files
from lakesweep.collector.lakefs.paths import EVENTS
from lakesweep.collector.lakefs.references import EventFile
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.ledger.deleting import DELETED
from lakesweep.collector.parts import read_events
from lakesweep.collector.record import BACKUP, RunRecord, RunStatus
from lakesweep.domain.durations import format_time
from lakesweep.domain.explanations import Deletion
from lakesweep.storage import ObjectStore

__all__ = ["Events", "deletions_by_server", "read_events_about"]

_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMPACTED = "compacted-"
_GONE_BY_SERVER = frozenset({"gone", "already-absent"})


@dataclass(frozen=True, slots=True)
class _Event:
    """The last event of one kind about an address."""

    order: int
    label: str  # of the run


class Events:
    """Of each address the last deletion, the last restoration, and the last time that a sweep found it gone."""

    def __init__(
        self,
        store: ObjectStore,
        gone: dict[str, _Event],
        restored: dict[str, _Event],
        missed: dict[str, _Event],
    ) -> None:
        self._store, self._gone, self._restored = store, gone, restored
        self._missed = missed
        self._runs: dict[str, RunRecord] | None = None

    def restored_until(self, address: str, min_age: timedelta) -> datetime | None:
        """From when on a restored address is not as young as its restoration; None for one that was never restored."""
        event = self._restored.get(address)
        return None if event is None else _EPOCH + (event.order + 1) * _MILLISECOND + min_age

    def deletion(self, address: str) -> Deletion | None:
        """Which run deleted it; None where none did, or where a later restore brought it back."""
        gone = self._gone.get(address)
        if gone is None or self._came_back_after(gone, address):
            return None
        at = _EPOCH + gone.order * _MILLISECOND
        if gone.label.startswith(_COMPACTED):
            return Deletion("", at)  # many runs were written together, and their names are lost
        run = self._known_runs().get(gone.label)
        if run is None:
            return Deletion(gone.label, at)
        return Deletion(run.run_id, at, run.mark_id, tuple(self._copies(run)))

    def missed(self, address: str) -> str:
        """That a sweep found the object gone when it came to delete it; empty where none did."""
        event = self._missed.get(address)
        if event is None or self._came_back_after(event, address):
            return ""
        at = format_time(_EPOCH + event.order * _MILLISECOND)
        run = "an earlier run" if event.label.startswith(_COMPACTED) else f"run {event.label}"
        return f"{run} found it gone at {at}: somebody else deleted it, or a sweep that was interrupted"

    def _came_back_after(self, event: _Event, address: str) -> bool:
        restored = self._restored.get(address)
        return restored is not None and restored.order >= event.order

    def _known_runs(self) -> dict[str, RunRecord]:
        if self._runs is None:
            found = list_runs(self._store)
            self._runs = {run.run_id: run for run in found if not isinstance(run, DamagedRun)}
        return self._runs

    def _copies(self, deleting: RunRecord) -> Iterator[str]:
        """Where the objects of a mark were copied to: by its sweep, or by backups."""
        if deleting.backup_to:
            yield deleting.backup_to
        for run in self._known_runs().values():
            is_backup = run.flow == BACKUP and run.status is RunStatus.BACKED_UP
            if is_backup and run.mark_id == deleting.mark_id != "":
                yield from (n.removeprefix("to ") for n in run.notes if n.startswith("to "))


def read_events_about(
    store: ObjectStore, addresses: Iterable[str], *, with_deletions: bool
) -> Events:
    """Read what was restored and, where it matters, what was deleted."""
    wanted = pa.array(sorted(set(addresses)), pa.string())
    gone: dict[str, _Event] = {}
    restored: dict[str, _Event] = {}
    missed: dict[str, _Event] = {}
    for event in event_files(store):
        if event.kind == GONE and not with_deletions:
            continue
        for rows in read_events(store.read(event.key), event.key):
            about = rows.filter(pc.is_in(rows.column("address"), value_set=wanted))
            outcomes = about.column("outcome").to_pylist()
            for address, outcome in zip(about.column("address").to_pylist(), outcomes, strict=True):
                # A sweep also notes what was gone when it came: that it did not delete.
                last = gone if outcome == DELETED else missed
                last = restored if event.kind == RESTORED else last
                known = last.get(address)
                if known is None or event.order >= known.order:
                    last[address] = _Event(event.order, _label(event))
    return Events(store, gone, restored, missed)


def deletions_by_server(
    repository: LakeFSRepository, addresses: Sequence[str]
) -> dict[str, Deletion]:
    """What an embedded lake has deleted of these by itself, because nothing referred to it any more."""
    if not addresses or not repository.profile.tells_hard_deletes:
        return {}
    return {
        told.address: Deletion(
            "",
            told.deleted_at,
            dropped_from=f"{told.path!r} on {told.branch_id}" if told.path else "an upload",
            undo_until=told.undo_until,
        )
        for told in repository.client.hard_deletes(repository.name, addresses)
        if told.outcome in _GONE_BY_SERVER
    }


def _label(event: EventFile) -> str:
    name = EVENT_FILE.fullmatch(event.key.removeprefix(EVENTS))
    assert name is not None
    return name["run"]
