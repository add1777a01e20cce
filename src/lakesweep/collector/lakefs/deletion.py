"""Delete objects of a repository, after a last look at the shape of each address."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.collector.ledger.deleting import KeyDeletion
from lakesweep.domain.addresses import is_candidate


@dataclass(frozen=True, slots=True)
class ObjectDeletion(KeyDeletion):
    """Deletes addresses below the storage namespace, where our own folder lies too."""

    root_names: bool  # whether the repository's commits hold addresses at the root

    def why_not(self, name: str) -> str:
        """Only what has the shape of a name that lakeFS gives to data may go."""
        is_ours = is_candidate(name, root_names=self.root_names)
        return "" if is_ours else "not a name that lakeFS gives to data"
