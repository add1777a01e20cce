"""What a mark and an expiry need of a place that keeps live sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple, Protocol, Self

from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy
from lakesweep.domain.live_sets import (
    ContentKind,
    ContentReference,
    DeferredFile,
    LiveSet,
    LiveSetId,
    MarkFacts,
)

__all__ = ["DistinctContent", "LiveSetStore"]


class DistinctContent(NamedTuple):
    """One state of a table or view, however many commits and references have it."""

    content_id: str
    content_type: ContentKind
    metadata_location: str
    snapshot_id: int


class LiveSetStore(Protocol):
    """Live sets by id. Every step checks the status it starts from; a set that is not there is an error.

    Raises:
        ConfigError: kind `wrong-status`; nothing was changed.
        CatalogNotFoundError: kind `no-live-set`.
        CatalogError: the database refused or could not be reached.
        UnsafeToSweepError: a value does not fit its column (kind `too-long`), or would not come back as it is;
            nothing of that call was stored.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...

    def close(self) -> None: ...

    @property
    def local_file(self) -> str | None:
        """The URI of the file that holds the sets, where they lie in one: no collection may touch it."""

    def create_schema(self, strategy: SchemaStrategy) -> list[str]:
        """Make the tables, and commit; returns the statements that were run."""

    def start_identify(self, live_set_id: LiveSetId, created: datetime) -> None:
        """A new set, IDENTIFY_IN_PROGRESS."""

    def add_contents(self, live_set_id: LiveSetId, references: Iterable[ContentReference]) -> int:
        """Store what is live, all or nothing; one per content and commit. Returns how many were new."""

    def finish_identify(self, live_set_id: LiveSetId, at: datetime, facts: MarkFacts) -> None:
        """IDENTIFY_IN_PROGRESS → IDENTIFY_SUCCESS."""

    def fail_identify(self, live_set_id: LiveSetId, at: datetime, error: str) -> None:
        """IDENTIFY_IN_PROGRESS → IDENTIFY_FAILED."""

    def start_expire(
        self, live_set_id: LiveSetId, at: datetime, *, again: bool = False, work: str = ""
    ) -> None:
        """IDENTIFY_SUCCESS → EXPIRY_IN_PROGRESS; `again` also from an expiry that lakesweep began before.

        `work` is where that expiry keeps its files.
        """

    def work_of(self, live_set_id: LiveSetId) -> str | None:
        """Where lakesweep's last expiry of the set kept its files; None where that is not known."""

    def finish_expire(self, live_set_id: LiveSetId, at: datetime) -> None:
        """EXPIRY_IN_PROGRESS → EXPIRY_SUCCESS."""

    def fail_expire(self, live_set_id: LiveSetId, at: datetime, error: str) -> None:
        """EXPIRY_IN_PROGRESS → EXPIRY_FAILED."""

    def get(self, live_set_id: LiveSetId) -> LiveSet: ...

    def all(self) -> list[LiveSet]:
        """Every live set, the newest first."""

    def facts(self, live_set_id: LiveSetId) -> MarkFacts | None:
        """What the mark stored; None of a set that nessie-gc marked, and of a mark that did not finish."""

    def contents(self, live_set_id: LiveSetId) -> Iterator[ContentReference]: ...

    def distinct_contents(self, live_set_id: LiveSetId) -> Iterator[DistinctContent]:
        """Each state once per content id, contents that belong together after another."""

    def content_count(self, live_set_id: LiveSetId) -> int:
        """How many different content ids the set has."""

    def add_base_locations(self, live_set_id: LiveSetId, rows: Iterable[tuple[str, str]]) -> None:
        """Store (content id, base location), duplicates once; while EXPIRY_IN_PROGRESS."""

    def base_locations(self, live_set_id: LiveSetId) -> Iterator[tuple[str, str]]: ...

    def add_deferred(self, live_set_id: LiveSetId, files: Iterable[DeferredFile]) -> int:
        """Record files for a later delete, all or nothing, while EXPIRY_IN_PROGRESS. Returns how many were new."""

    def deferred(self, live_set_id: LiveSetId) -> Iterator[DeferredFile]:
        """Recorded files, ordered by base and path."""

    def clear_deferred(self, live_set_id: LiveSetId) -> None:
        """Forget the recorded files, before an expiry that starts over; while EXPIRY_IN_PROGRESS."""

    def delete(self, live_set_id: LiveSetId) -> None:
        """Remove the set and all its rows, whatever its status. No file of the lake is touched."""
