"""Our collector pointed at a real Nessie catalog, as tests call it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.client_properties import ClientProperties
from lakesweep.catalogs.nessie.live_sets.memory import InMemoryLiveSets
from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.deferred import delete_deferred
from lakesweep.collector.nessie.expire import expire
from lakesweep.collector.nessie.identify import Marked, mark_live
from lakesweep.collector.nessie.requests import ExpireRequest, MarkRequest
from lakesweep.collector.phases import Phases
from lakesweep.collector.record import RunRecord
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Engine
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.nessie_walk import CutoffRules
from lakesweep_testing.table_places import plain

__all__ = ["CatalogCollector"]

NOW = timedelta(0)


@dataclass(slots=True)
class CatalogCollector:
    """Marks, expires and deletes without a period of grace: what tests wrote is old enough."""

    uri: str
    storage: StorageOptions
    work: Path
    engine: Engine = field(default_factory=InProcessEngine)
    live_sets: LiveSetStore = field(default_factory=InMemoryLiveSets)

    def mark(self, rules: CutoffRules, *, dropped_grace: timedelta | None = None) -> Marked:
        """Mark what is live by these rules."""
        now = datetime.now(UTC)
        pairs = tuple((pattern, cutoff.text) for pattern, cutoff in rules.by_pattern.items())
        with self._client() as client:
            names = [reference.name for reference in client.references()]
        unmatched = parse_policies(rules.default.text, pairs, now).unmatched(names)
        pairs = tuple(pair for pair in pairs if pair[0] not in unmatched)
        request = MarkRequest(
            policies=parse_policies(rules.default.text, pairs, now),
            reference_time=now,
            default_policy=rules.default.text,
            policy_texts=pairs,
            dropped_grace=dropped_grace,
        )
        with self._client() as client:
            return mark_live(client, self.live_sets, request, Phases("mark"))

    def would_delete(self, rules: CutoffRules, **request: Any) -> set[str]:
        """What a deferred expiry records, by plain names."""
        marked = self.mark(rules)
        self.expire(marked, defer=True, **request)
        return self.deferred(marked.live_set_id)

    def deferred(self, live_set_id: LiveSetId) -> set[str]:
        """The recorded files by plain names."""
        return {plain(file.uri) for file in self.live_sets.deferred(live_set_id)}

    def expire(self, marked: Marked, *, ask_nessie: bool = False, **request: Any) -> RunRecord:
        """Expire a live set."""
        wanted = ExpireRequest(marked.live_set_id, **{"grace": NOW, **request})
        with self._client() as client:
            return self.expire_set(wanted, client if ask_nessie else None)

    def expire_set(self, wanted: ExpireRequest, client: NessieClient | None = None) -> RunRecord:
        """Expire a live set, whoever marked it."""
        return expire(self._context(), wanted, client)

    def delete_deferred(
        self, marked: Marked, *, ask_nessie: bool = False, **request: Any
    ) -> RunRecord:
        """Delete what is recorded."""
        wanted = ExpireRequest(marked.live_set_id, **{"grace": NOW, **request})
        with self._client() as client:
            return delete_deferred(self._context(), wanted, client if ask_nessie else None)

    def _client(self) -> NessieClient:
        return NessieClient(self.uri, ClientProperties({}))

    def _context(self) -> NessieContext:
        return NessieContext(
            live_sets=self.live_sets,
            engine=self.engine,
            storage=self.storage,
            work_location=Location.parse(self.work.as_uri()),
            phases=Phases("expire"),
        )
