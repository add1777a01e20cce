"""Live sets for one process: `--inmemory`, and tests."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Self

from lakesweep.catalogs.nessie.live_sets import statuses
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy
from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.domain.live_sets import (
    ContentReference,
    DeferredFile,
    LiveSet,
    LiveSetId,
    LiveSetStatus,
    MarkFacts,
    cut_error_message,
)

__all__ = ["InMemoryLiveSets"]


@dataclass(slots=True)
class _Kept:
    header: LiveSet
    contents: dict[tuple[str, str], ContentReference] = field(default_factory=dict)
    facts: MarkFacts | None = None
    work: str | None = None
    locations: dict[tuple[str, str], None] = field(default_factory=dict)
    deferred: dict[tuple[str, str], DeferredFile] = field(default_factory=dict)


class InMemoryLiveSets:
    """Gone with the process. Safe to use from several threads; readers see a copy."""

    def __init__(self) -> None:
        self._sets: dict[LiveSetId, _Kept] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held open."""

    @property
    def local_file(self) -> str | None:
        """None: nothing is written."""
        return None

    def create_schema(self, strategy: SchemaStrategy) -> list[str]:
        return []

    def start_identify(self, live_set_id: LiveSetId, created: datetime) -> None:
        with self._lock:
            if live_set_id in self._sets:
                raise statuses.live_set_exists(live_set_id)
            status = LiveSetStatus.IDENTIFY_IN_PROGRESS
            header = LiveSet(live_set_id, status, _in_utc(created), None, None, None, None)
            self._sets[live_set_id] = _Kept(header)

    def add_contents(self, live_set_id: LiveSetId, references: Iterable[ContentReference]) -> int:
        new = {(ref.content_id, ref.commit_id): ref for ref in reversed(list(references))}
        with self._lock:
            kept = self._kept_while(live_set_id, LiveSetStatus.IDENTIFY_IN_PROGRESS, "add contents")
            before = len(kept.contents)
            kept.contents = new | kept.contents
            return len(kept.contents) - before

    def finish_identify(self, live_set_id: LiveSetId, at: datetime, facts: MarkFacts) -> None:
        with self._lock:
            kept = self._move(live_set_id, statuses.FINISH_IDENTIFY)
            kept.header = replace(kept.header, identify_finished=_in_utc(at), error_message=None)
            kept.facts = facts

    def fail_identify(self, live_set_id: LiveSetId, at: datetime, error: str) -> None:
        with self._lock:
            kept = self._move(live_set_id, statuses.FAIL_IDENTIFY)
            kept.header = replace(
                kept.header, identify_finished=_in_utc(at), error_message=cut_error_message(error)
            )

    def start_expire(
        self, live_set_id: LiveSetId, at: datetime, *, again: bool = False, work: str = ""
    ) -> None:
        with self._lock:
            step = statuses.REPEAT_EXPIRE if again else statuses.START_EXPIRE
            kept = self._move(live_set_id, step)
            kept.header = replace(
                kept.header, expire_started=_in_utc(at), expire_finished=None, error_message=None
            )
            kept.work = work or None

    def work_of(self, live_set_id: LiveSetId) -> str | None:
        with self._lock:
            return self._kept(live_set_id).work

    def finish_expire(self, live_set_id: LiveSetId, at: datetime) -> None:
        with self._lock:
            kept = self._move(live_set_id, statuses.FINISH_EXPIRE)
            kept.header = replace(kept.header, expire_finished=_in_utc(at), error_message=None)

    def fail_expire(self, live_set_id: LiveSetId, at: datetime, error: str) -> None:
        with self._lock:
            kept = self._move(live_set_id, statuses.FAIL_EXPIRE)
            kept.header = replace(
                kept.header, expire_finished=_in_utc(at), error_message=cut_error_message(error)
            )

    def get(self, live_set_id: LiveSetId) -> LiveSet:
        with self._lock:
            return self._kept(live_set_id).header

    def all(self) -> list[LiveSet]:
        with self._lock:
            headers = [kept.header for kept in self._sets.values()]
        return sorted(headers, key=lambda header: header.created, reverse=True)

    def facts(self, live_set_id: LiveSetId) -> MarkFacts | None:
        with self._lock:
            return self._kept(live_set_id).facts

    def contents(self, live_set_id: LiveSetId) -> Iterator[ContentReference]:
        with self._lock:
            contents = self._kept(live_set_id).contents
            in_order = [contents[key] for key in sorted(contents)]
        return iter(in_order)

    def distinct_contents(self, live_set_id: LiveSetId) -> Iterator[DistinctContent]:
        states = (
            DistinctContent(
                ref.content_id, ref.content_type, ref.metadata_location, ref.snapshot_id
            )
            for ref in self.contents(live_set_id)
        )
        return iter(list(dict.fromkeys(states)))

    def content_count(self, live_set_id: LiveSetId) -> int:
        return len({ref.content_id for ref in self.contents(live_set_id)})

    def add_base_locations(self, live_set_id: LiveSetId, rows: Iterable[tuple[str, str]]) -> None:
        new = dict.fromkeys(rows)
        with self._lock:
            self._expiring(live_set_id, "add base locations").locations |= new

    def base_locations(self, live_set_id: LiveSetId) -> Iterator[tuple[str, str]]:
        with self._lock:
            return iter(sorted(self._kept(live_set_id).locations))

    def add_deferred(self, live_set_id: LiveSetId, files: Iterable[DeferredFile]) -> int:
        new = {(file.base_uri, file.path_uri): file for file in reversed(list(files))}
        with self._lock:
            kept = self._expiring(live_set_id, "record files for a later delete")
            before = len(kept.deferred)
            kept.deferred = new | kept.deferred
            return len(kept.deferred) - before

    def deferred(self, live_set_id: LiveSetId) -> Iterator[DeferredFile]:
        with self._lock:
            deferred = self._kept(live_set_id).deferred
            in_order = [deferred[key] for key in sorted(deferred)]
        return iter(in_order)

    def clear_deferred(self, live_set_id: LiveSetId) -> None:
        with self._lock:
            self._expiring(live_set_id, "clear the recorded files").deferred.clear()

    def delete(self, live_set_id: LiveSetId) -> None:
        with self._lock:
            self._kept(live_set_id)
            del self._sets[live_set_id]

    # Called with the lock held.

    def _kept(self, live_set_id: LiveSetId) -> _Kept:
        try:
            return self._sets[live_set_id]
        except KeyError:
            raise statuses.no_such_live_set(live_set_id) from None

    def _kept_while(self, live_set_id: LiveSetId, status: LiveSetStatus, doing: str) -> _Kept:
        kept = self._kept(live_set_id)
        if kept.header.status is not status:
            raise statuses.wrong_status(live_set_id, doing, {status}, kept.header.status)
        return kept

    def _expiring(self, live_set_id: LiveSetId, doing: str) -> _Kept:
        return self._kept_while(live_set_id, LiveSetStatus.EXPIRY_IN_PROGRESS, doing)

    def _move(self, live_set_id: LiveSetId, step: statuses.Transition) -> _Kept:
        kept = self._kept(live_set_id)
        if kept.header.status not in step.sources:
            raise statuses.wrong_status(live_set_id, step.doing, step.sources, kept.header.status)
        kept.header = replace(kept.header, status=step.target)
        return kept


def _in_utc(time: datetime) -> datetime:
    if time.tzinfo is None:
        raise ValueError(f"{time} has no zone, so it is not an instant")
    return time.astimezone(UTC)
