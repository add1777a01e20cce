"""An embedded lake on local files with a clock of the test's own, and collections of it.

The clock stands in the past and only moves when told; objects get its time as their file time, so ages, retention,
tokens and tracked copies all follow it. No clock ever runs ahead of the machine's.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from unittest.mock import patch

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.explain.explain import ExplainRequest, ExplainSource, explain
from lakesweep.collector.lakefs.mark import mark
from lakesweep.collector.lakefs.marks import load_plan
from lakesweep.collector.lakefs.paths import parse_mark_id
from lakesweep.collector.lakefs.request import MarkRequest
from lakesweep.collector.lakefs.sweep import load_record, sweep
from lakesweep.collector.lease import NoLease
from lakesweep.collector.record import RunRecord
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.cutoff import SafetyMargins
from lakesweep.domain.explanations import Explanations
from lakesweep.engine.tasks import Engine
from lakesweep.lake.server import LakeServer
from lakesweep.lake.values import LakeSettings
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.quick_client import QuickClient
from lakesweep_testing.user import User

MIN_AGE = timedelta(hours=24, minutes=10)

# The server's answers carry the machine's time, which has nothing to do with the lake's clock here.
_ANY_CLOCK = SafetyMargins(
    least_age=timedelta(hours=24),
    clock_skew=timedelta(days=3650),
    delete_not_after=timedelta(days=3650),
    lease_life=timedelta(days=3651),
)


@dataclass
class MovableClock:
    """Tells the time that it was set to."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(days=400))

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> None:
        """Move on, never beyond the machine's own time."""
        self.now = min(self.now + by, datetime.now(UTC))


class _ClockLease(NoLease):
    """No lease, and the test's clock as the store's."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context.store, context.name, "test")
        self.store_time = context.resources.clock()
        self._clock = context.resources.clock

    def renew(self, life: timedelta = timedelta(0)) -> datetime:
        """The test's clock."""
        return self._clock()


class EmbeddedLake:
    """`with EmbeddedLake(folder) as lake: user = lake.new_user("repo")`."""

    def __init__(self, folder: Path, settings: LakeSettings | None = None) -> None:
        self.folder = folder
        self.clock = MovableClock()
        self._settings = settings or LakeSettings(folder, allow_namespaces=("mem://",))
        self._stack = ExitStack()

    def __enter__(self) -> EmbeddedLake:
        # Upkeep would take away what expires while a test has set the clock ahead, and another one sets it back.
        with patch("lakesweep.lake.server.housekeeping", lambda lake: nullcontext()):
            server = LakeServer(self.folder, settings=self._settings, clock=self.clock)
            self.server = self._stack.enter_context(server)
        auth = (self.server.access_key_id, self.server.secret_access_key)
        self.api = self._stack.enter_context(QuickClient(self.server.endpoint, auth, timeout=60))
        self.client = self._stack.enter_context(LakeFSClient(self.server.endpoint, *auth))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def new_user(self, repository: str) -> User:
        """A new repository in this lake's folder, and a user of it."""
        return User.create(self.api, repository, f"local://{repository}", self.clock)

    def open_run(self, repository: str, engine: Engine | None = None) -> RunContext:
        """A run context on the lake's clock, in process unless an engine is given."""
        return open_repository(
            self.client,
            repository,
            StorageOptions(),
            engine or InProcessEngine(),
            namespace_root=str(self.folder),
            margins=_ANY_CLOCK,
            clock=self.clock,
        )

    def mark(
        self, repository: str, request: MarkRequest, engine: Engine | None = None
    ) -> RunRecord:
        """Mark by the lake's clock."""
        context = self.open_run(repository, engine)
        return mark(context, _aged(request), _ClockLease(context))[0]

    def sweep(
        self,
        repository: str,
        mark_id: str,
        request: SweepRequest | None = None,
        engine: Engine | None = None,
    ) -> RunRecord:
        """Sweep an earlier mark by the lake's clock."""
        context = self.open_run(repository, engine)
        plan = load_plan(context.store, repository, parse_mark_id(mark_id))
        record = load_record(context.store, plan)
        return sweep(context, plan, record, request or SweepRequest(), _ClockLease(context))

    def gc(
        self, repository: str, request: MarkRequest | None = None, engine: Engine | None = None
    ) -> RunRecord:
        """Mark and sweep."""
        marked = self.mark(repository, request or MarkRequest(), engine)
        return self.sweep(repository, marked.mark_id, engine=engine)

    def explain(self, repository: str, *objects: str) -> Explanations:
        """Explain objects by the lake's clock and the minimum age of its marks."""
        request = ExplainRequest(min_age=MIN_AGE)
        return explain(source_of(self.open_run(repository)), objects, request)

    def file_of(self, address: str) -> Path:
        """The file behind a physical address, full or relative to the namespace of `repository/…`."""
        path = address.removeprefix("local://").removeprefix("file://")
        return Path(path) if path.startswith("/") else self.folder / path

    def date_file(self, address: str) -> None:
        """Give an object the lake's time."""
        seconds = self.clock.now.timestamp()
        os.utime(self.file_of(address), (seconds, seconds))


def source_of(context: RunContext) -> ExplainSource:
    """What a run works with, as explanations work with it."""
    how = context.resources
    return ExplainSource(context.repository, how.target, how.engine, how.clock, how.margins)


def _aged(request: MarkRequest) -> MarkRequest:
    return replace(request, min_age=request.min_age or MIN_AGE, allow_lower_min_age=True)
