"""From a request to what a run on a live set works with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.collector.guards import ClockReading, refuse_long_requests
from lakesweep.collector.lease import Lease
from lakesweep.collector.nessie.catalog_now import CatalogNow
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.identify import NESSIE_CLOCK
from lakesweep.collector.nessie.live_catalog import (
    LiveCatalog,
    LiveReader,
    read_live_catalog,
    refuse_own_files_below,
)
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.nessie.same_catalog import assert_same_catalog
from lakesweep.collector.nessie.set_files import SetFolder
from lakesweep.collector.resources import Resources
from lakesweep.domain.live_sets import LiveSet, MarkFacts
from lakesweep.storage.clocks import store_time


@dataclass(frozen=True, slots=True)
class LiveSetRun:
    """One live set, what a user asks to do with it, and the Nessie that is asked what became live since."""

    resources: Resources
    live_sets: LiveSetStore
    reader: LiveReader
    request: ExpireRequest
    client: NessieClient | None  # None: Nessie is not asked again
    live_set: LiveSet
    facts: MarkFacts | None
    notes: list[str]  # on the catalog, for the record

    @property
    def folder(self) -> SetFolder:
        """The files of this set's runs."""
        return SetFolder(self.live_set.id)

    def lease(self, purpose: str) -> Lease:
        """The lease on the files of this set's runs."""
        engine = self.resources.engine
        return Lease(
            self.resources.store,
            purpose,
            purpose,
            folder=self.folder.root,
            process_tree=lambda: engine.process_tree,
        )

    def read_live_catalog(self) -> LiveCatalog:
        """What is live; refuses what can't be read, and files of ours that lie below a table."""
        found = read_live_catalog(self.reader, self.live_sets, self.live_set, self.facts)
        ours = {
            "--work-location": self.resources.target.namespace.uri,
            "the record of collected files": self.reader.collected.namespace.uri,
        }
        if self.live_sets.local_file is not None:
            ours["the database of live sets"] = self.live_sets.local_file
        refuse_own_files_below(ours, found.folders.bases)
        return found

    def clock_readings(self, found: LiveCatalog, our_time: datetime) -> Iterator[ClockReading]:
        """Nessie's clock beside our own store's, which says `our_time` now, and beside each that tables lie in."""
        containers = {replace(base.location, key="") for base in found.folders.bases}
        stores = (self.reader.table_reader.stores.open(one) for one in sorted(containers, key=str))
        for time in chain([our_time], map(store_time, stores)):
            if time is not None:
                server_time = self.client.server_time() if self.client is not None else None
                yield ClockReading(time, NESSIE_CLOCK, server_time)

    def catalog_now(self, found: LiveCatalog) -> CatalogNow | None:
        """Tells what became live since the mark."""
        if self.client is None:
            return None
        return CatalogNow(
            self.client,
            self.live_sets,
            self.live_set,
            self.facts,
            found.known,
            self.reader.read_newly_live,
            found.folders.live.collected,
        )


def open_live_set(
    context: NessieContext, request: ExpireRequest, client: NessieClient | None, command: str
) -> LiveSetRun:
    """Look the live set up for a command; refuses another catalog than the one that was marked."""
    refuse_long_requests(context.storage, context.margins)
    live_set = context.live_sets.get(request.live_set_id)
    facts = context.live_sets.facts(live_set.id)
    notes = []
    if client is not None:
        is_moved = request.is_catalog_moved
        notes = assert_same_catalog(client, context.live_sets, live_set, facts, is_moved=is_moved)
    context.phases.saved_record = None  # of an earlier run in this process
    reader = LiveReader(
        replace(context, files_in_flight=request.files_in_flight).table_reader,
        context.record_of_collected,
        f"lakesweep nessie {command} --live-set-id {live_set.id}",
        request.give_up,
        request.keep_all_snapshots,
        facts.head_contents if facts is not None else None,
    )
    resources, live_sets = context.resources, context.live_sets
    return LiveSetRun(resources, live_sets, reader, request, client, live_set, facts, notes)
