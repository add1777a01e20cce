"""What a run on a live set works with. Built once, handed down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.collector.nessie.places import TableStores
from lakesweep.collector.nessie.table_reader import TableReader
from lakesweep.collector.phases import Phases
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.target import Target
from lakesweep.domain.cutoff import SAFETY_FULL, SafetyMargins
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Engine
from lakesweep.storage import StorageOptions


@dataclass(frozen=True, slots=True)
class NessieContext:
    """The live sets, the lake, and a folder of our own for listings, plans and ledgers."""

    live_sets: LiveSetStore
    engine: Engine
    storage: StorageOptions
    work_location: Location
    phases: Phases
    collected: Location | None = (
        None  # where the record of collected files lies; None: in `work_location`
    )
    clock: Callable[[], datetime] = field(default=utc_now)
    most_tasks: int = 200
    files_in_flight: int = 32  # metadata files or manifests that one task reads at the same time
    margins: SafetyMargins = SAFETY_FULL

    @property
    def table_reader(self) -> TableReader:
        """The files of tables, and the tasks that read them."""
        stores = TableStores(self.storage, self.files_in_flight)
        return TableReader(stores, self.engine, self.phases, self.most_tasks)

    @property
    def record_of_collected(self) -> Target:
        """The folder with the names of metadata files that sweeps deleted, which outlives every live set."""
        return Target(self.collected or self.work_location, self.storage)

    @property
    def resources(self) -> Resources:
        """What the shared steps work with."""
        target = Target(self.work_location, self.storage)
        tools = (target, self.engine, self.phases, self.clock, self.margins)
        return Resources(*tools, self.most_tasks)
