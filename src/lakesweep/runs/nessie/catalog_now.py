"""What Nessie says now, held against what a mark found: contents that became live since are read and kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.identify import Identified, identify
from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.domain.cutoff_policies import CutoffPolicies, parse_policies
from lakesweep.domain.durations import format_time
from lakesweep.domain.live_sets import LiveSet, MarkFacts, OtherContent
from lakesweep.runs.nessie.ages import earliest_mark
from lakesweep.runs.nessie.folders import named_files
from lakesweep.runs.nessie.live_files import LiveFiles
from lakesweep.runs.nessie.work.references import LIVE, ReferenceItem


@dataclass(frozen=True, slots=True)
class NewlyLive:
    """Contents that the mark does not have, and the files they need."""

    states: list[DistinctContent] = field(default_factory=list)
    files: LiveFiles = field(default_factory=LiveFiles)
    others: tuple[OtherContent, ...] = ()

    def items(self) -> list[ReferenceItem]:
        """All of it as work."""
        items: list[ReferenceItem] = [*self.files.items(LIVE)]
        named = named_files("others now", self.others)
        return [*items, named] if named else items


class CatalogNow:
    """Asks the catalog again with the mark's own policies. A walk is made only where a reference has moved."""

    def __init__(
        self,
        client: NessieClient,
        live_set: LiveSet,
        facts: MarkFacts | None,
        known: set[tuple[str, int]],
        read_files: Callable[[list[DistinctContent]], LiveFiles],
    ) -> None:
        """`known` are the (metadata location, snapshot id) of the mark; `read_files` reads what others need."""
        self._client = client
        self._facts = facts
        self._policies = mark_policies(live_set, facts)
        self._known = known
        self._read_files = read_files
        self._heads = facts.heads if facts is not None else None
        self._seen = NewlyLive()

    def look(self) -> NewlyLive:
        """What is live now and was not when the set was marked."""
        heads = {f"{r.kind} {r.name}": r.hash for r in self._client.references()}
        if heads == self._heads:
            return self._seen
        found = identify(
            self._client,
            self._policies,
            keep_state_at_cutoff=self._facts is not None and self._facts.keep_state_at_cutoff,
        )
        self._seen = self._read(found)
        self._heads = found.heads
        return self._seen

    def _read(self, found: Identified) -> NewlyLive:
        states = list(
            dict.fromkeys(
                DistinctContent(r.content_id, r.content_type, r.metadata_location, r.snapshot_id)
                for r in found.references
                if (r.metadata_location, r.snapshot_id) not in self._known
            )
        )
        files = self._read_files(states) if states else LiveFiles()
        return NewlyLive(states, files, found.others)


def mark_policies(live_set: LiveSet, facts: MarkFacts | None) -> CutoffPolicies:
    """The policies of the mark; where nobody wrote them down, all that was committed since it may have begun is live."""
    if facts is not None:
        return parse_policies(facts.default_policy, facts.policies, facts.reference_time)
    since = earliest_mark(live_set)
    return parse_policies(format_time(since), (), since)
