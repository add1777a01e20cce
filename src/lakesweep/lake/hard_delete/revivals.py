"""Making references out of commits: branches, tags, merges, reverts, resets, restored refs.

Reviews never take what a commit holds that stays, so for these the fence matters while a collector's sweep is deleting:
what the sweep has named may not come back. Each is done in the order of `hard_delete.fence`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.domain.commits import CommitId, MetaRangeId
from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.hard_delete.fence import Fence, FoundFence
from lakesweep.lake.values import Repository


@dataclass(eq=False, repr=False)
class Revivals:
    """What operations on commits ask before they make a commit reachable."""

    _fence: Fence
    _committed: Committed

    def fence(self, repository: Repository) -> FoundFence:
        """The fence as it is now, to be read before the commit is looked up."""
        return self._fence.read(repository)

    def refuse_commit(
        self, repository: Repository, fence: FoundFence, commit_id: CommitId, not_done: str
    ) -> None:
        """Raise `CondemnedError` when the commit holds what a sweep is deleting."""
        if fence.state.batches:
            metarange_id = self._committed.metarange_of(repository, commit_id)
            self.refuse_metarange(repository, fence, metarange_id, not_done)

    def refuse_metarange(
        self, repository: Repository, fence: FoundFence, metarange_id: MetaRangeId, not_done: str
    ) -> None:
        """Raise `CondemnedError` when the metarange holds what a sweep is deleting."""
        if self._fence.standing_batches(fence):
            for info in self._committed.ranges(repository, metarange_id):
                addresses = self._committed.addresses(repository, info).to_pylist()
                self._fence.refuse_condemned(repository, fence, addresses, not_done)
