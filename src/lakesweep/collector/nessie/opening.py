"""From a request to what a run on a live set works with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.collector.guards import ClockReading, refuse_long_requests
from lakesweep.collector.lease import Lease
from lakesweep.collector.nessie.catalog_now import CatalogNow
from lakesweep.collector.nessie.clocks import clock_readings
from lakesweep.collector.nessie.context import NessieContext, SetFolder
from lakesweep.collector.nessie.live_catalog import LiveCatalog, read_newly_live
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.nessie.same_catalog import assert_same_catalog
from lakesweep.domain.live_sets import LiveSet, MarkFacts


@dataclass(frozen=True, slots=True)
class LiveSetRun:
    """One live set, what a user asks to do with it, and the Nessie that is asked what became live since."""

    context: NessieContext
    request: ExpireRequest
    client: NessieClient | None  # None: Nessie is not asked again
    live_set: LiveSet
    facts: MarkFacts | None
    notes: list[str]  # on the catalog, for the record

    def lease(self, purpose: str) -> Lease:
        """The lease on the files of this set's runs."""
        return Lease(
            self.context.store,
            purpose,
            purpose,
            folder=SetFolder(self.live_set.id).root,
            process_tree=lambda: self.context.engine.process_tree,
        )

    def clock_readings(self, found: LiveCatalog, our_time: datetime) -> Iterator[ClockReading]:
        """Nessie's clock beside our own store's, which says `our_time` now, and beside those that tables lie in."""
        bases = (base.location for base in found.folders.bases)
        return clock_readings(self.context, our_time, bases, self.client)

    def catalog_now(self, found: LiveCatalog) -> CatalogNow | None:
        """Tells what became live since the mark."""
        if self.client is None:
            return None
        return CatalogNow(
            self.client,
            self.context.live_sets,
            self.live_set,
            self.facts,
            found.known,
            lambda states: read_newly_live(self.context, states, self.request),
        )


def open_live_set(
    context: NessieContext, request: ExpireRequest, client: NessieClient | None
) -> LiveSetRun:
    """Look the live set up; refuses another catalog than the one that was marked."""
    refuse_long_requests(context.storage, context.margins)
    context = replace(context, files_in_flight=request.files_in_flight)
    live_set = context.live_sets.get(request.live_set_id)
    facts = context.live_sets.facts(live_set.id)
    notes = []
    if client is not None:
        is_moved = request.is_catalog_moved
        notes = assert_same_catalog(client, context.live_sets, live_set, facts, is_moved=is_moved)
    context.phases.saved_record = None  # of an earlier run in this process
    return LiveSetRun(context, request, client, live_set, facts, notes)
