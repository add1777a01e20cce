"""What Nessie says now, held against what a mark found: contents that became live since are read and kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.identify import read_references
from lakesweep.catalogs.nessie.live_sets.store import DistinctContent, LiveSetStore
from lakesweep.catalogs.nessie.second_look import Known, NewContents, find_new_contents
from lakesweep.catalogs.nessie.values import CatalogConfig, Reference, TableState
from lakesweep.catalogs.nessie.whole_states import read_agreed_state
from lakesweep.collector.judge.references import LIVE
from lakesweep.collector.nessie.ages import earliest_mark
from lakesweep.collector.nessie.folders import named_files
from lakesweep.collector.nessie.live_files import LiveFiles
from lakesweep.collector.nessie.references import ReferenceItem
from lakesweep.domain.cutoff_policies import CutoffPolicies, CutoffPolicy, parse_policies
from lakesweep.domain.durations import format_time
from lakesweep.domain.live_sets import LiveSet, MarkFacts, OtherContent


@dataclass(frozen=True, slots=True)
class NewlyLive:
    """Contents that became live after the mark, and the files that they need."""

    states: list[DistinctContent] = field(default_factory=list)
    files: LiveFiles = field(default_factory=LiveFiles)
    others: tuple[OtherContent, ...] = ()

    def items(self) -> list[ReferenceItem]:
        """All files that these contents need, as live references for the judge to read."""
        items: list[ReferenceItem] = [*self.files.items(LIVE)]
        named = named_files("others now", self.others)
        return [*items, named] if named else items


@dataclass
class CatalogNow:
    """Asks the catalog again with the mark's own policies. Only references that have moved are walked."""

    _client: NessieClient
    _live_sets: LiveSetStore
    _live_set: LiveSet
    _facts: MarkFacts | None
    _known: set[tuple[str, int]]  # (metadata location, snapshot id) of the mark
    _read_files: Callable[[list[DistinctContent]], LiveFiles]  # reads what others need
    # Metadata files of old states that are not whole any more: no head may have one. Grows as more is read.
    _collected: Set[str] = frozenset()

    def __post_init__(self) -> None:
        self._policies = mark_policies(self._live_set, self._facts)
        self._heads: Mapping[str, str] = self._facts.heads if self._facts is not None else {}
        self._ends: dict[CutoffPolicy, set[str]] | None = None
        self._states: dict[DistinctContent, None] = {}
        self._others: dict[OtherContent, None] = {}
        self._seen = NewlyLive()

    def look(self) -> NewlyLive:
        """What is live now and was not when the set was marked."""
        config, references = read_references(self._client)
        if all(self._heads.get(str(reference)) == reference.hash for reference in references):
            return self._seen
        found = find_new_contents(
            self._client,
            config,
            references,
            self._policies,
            Known(self._heads, self._known_ends()),
            keep_state_at_cutoff=self._facts is not None and self._facts.keep_state_at_cutoff,
        )
        self._take(found, self._collected_at_heads(config, references))
        return self._seen

    def _collected_at_heads(
        self, config: CatalogConfig, references: Iterable[Reference]
    ) -> Iterator[DistinctContent]:
        """States that are not whole any more and that a reference has come back to: readers find a broken table there."""
        if not self._collected:
            return
        moved = {r.hash for r in references if self._heads.get(str(r)) != r.hash}
        for hash in sorted(moved - {config.no_ancestor_hash}):
            for content in read_agreed_state(self._client, hash):
                if isinstance(content, TableState) and content.metadata_location in self._collected:
                    yield DistinctContent(content.content_id, *content[2:])

    def _known_ends(self) -> dict[CutoffPolicy, set[str]]:
        """Commits where a walk may end: all that its policy keeps from there on was read, by the mark or a look before."""
        if self._ends is None:
            self._ends = {}
            self._add_ends(self._heads)
            # With one policy for all, every live commit is such an end. By number, it depends on the head.
            only = next(iter(self._ends)) if len(self._ends) == 1 else None
            if self._facts is not None and only is not None and only.commits is None:
                contents = self._live_sets.contents(self._live_set.id)
                self._ends[only].update(ref.commit_id for ref in contents)
        return self._ends

    def _add_ends(self, heads: Mapping[str, str]) -> None:
        for reference, hash in heads.items():
            for policy in self._policies.policies_for(reference.partition(" ")[2]):
                self._known_ends().setdefault(policy, set()).add(hash)

    def _take(self, found: NewContents, at_heads: Iterable[DistinctContent]) -> None:
        """Keep what is new for this run: of a reference that moves again, only its newest commits are walked."""
        self._states |= dict.fromkeys(at_heads)
        for content in found.contents:
            if isinstance(content, OtherContent):
                self._others[content] = None
            elif (content.metadata_location, content.snapshot_id) not in self._known:
                state = DistinctContent(content.content_id, *content[2:])
                self._states[state] = None
        states = list(self._states)
        files = self._read_files(states) if states else LiveFiles()
        self._seen = NewlyLive(states, files, tuple(self._others))
        # Only now: what could not be read is asked for again.
        self._add_ends(found.heads)
        self._heads = found.heads


def mark_policies(live_set: LiveSet, facts: MarkFacts | None) -> CutoffPolicies:
    """The policies of the mark; where nobody wrote them down, all that was committed since it may have begun is live."""
    if facts is not None:
        return parse_policies(facts.default_policy, facts.policies, facts.reference_time)
    since = earliest_mark(live_set)
    return parse_policies(format_time(since), (), since)
