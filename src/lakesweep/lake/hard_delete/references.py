"""The look: what still refers to given addresses.

The order is that of a collection: uploads under way, then what is staged, then tracked copies, then commits. Each of
them turns only into a later one, so what is read later finds what moved on meanwhile. Every token of a branch is read
as it is, also what newer entries hide. A look proves that nothing refers to an address only while it is condemned, when
no reference can be made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum

from lakesweep.domain.commits import Commit, MetaRangeId
from lakesweep.formats.metaranges import RangeInfo
from lakesweep.lake.addresses.inside import staged_address
from lakesweep.lake.collection.staged_scan import common_addresses, staged_among
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.refs.tags import Tags
from lakesweep.lake.uploads.pending import PendingUploads
from lakesweep.lake.values import Repository


class Holder(Enum):
    """What refers to an address."""

    PASSING = "passing"  # something that may go: an upload, a staged entry, a copy, a commit that nothing points at
    COMMIT = "commit"  # a commit that stays


@dataclass(slots=True)
class _KnownRanges:
    """The ranges of a repository's commits, each with the least and the greatest name among its addresses."""

    metaranges: set[MetaRangeId] = field(default_factory=set)
    ranges: dict[str, tuple[RangeInfo, str, str]] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class References:
    """Looks for references. Ranges never change, so each is opened once by a process, and again only when an address
    that it may hold is looked for: names of addresses begin with their time, so old ranges are passed over."""

    _context: LakeContext
    _branches: Branches
    _tags: Tags
    _commits: Commits
    _committed: Committed
    _pending: PendingUploads
    _copies: TrackedCopies
    _known: dict[str, _KnownRanges] = field(default_factory=dict, init=False)

    def find(self, repository: Repository, addresses: Collection[str]) -> dict[str, Holder]:
        """Those of the addresses that something refers to, each with whether that may pass or stays for good."""
        found: dict[str, Holder] = {}
        wanted = set(addresses)

        def meet(met: Iterable[str]) -> None:
            found.update((address, Holder.PASSING) for address in met if address in wanted)

        # One whose time is over is retired here, so that it can't become an entry after it was looked at.
        meet(upload.address for upload in self._pending.live(repository, self._context.now()))
        heads = set()
        for record in self._branches.all(repository):
            heads.add(record.head.commit_id)
            for token in record.tokens:
                meet(staged_among(self._context, repository, token, wanted))
        meet(
            staged_address(self._context, repository, value)
            for _, value in self._copies.all(repository)
        )
        commits = list(self._commits.all_with_maker(repository))
        heads.update(tag.commit_id for tag in self._tags.all(repository))
        heads.update(parent for commit, _ in commits for parent in commit.parents)
        by_range = self._in_ranges(repository, [commit for commit, _ in commits], wanted)
        for commit, maker in commits if by_range else ():
            # Its maker may remove a commit that nothing points at.
            holder = Holder.PASSING if maker and commit.id not in heads else Holder.COMMIT
            for info in self._committed.ranges(repository, commit.meta_range_id):
                for address in by_range.get(info.id, ()):
                    if found.get(address) is not Holder.COMMIT:
                        found[address] = holder
        return found

    def _in_ranges(
        self, repository: Repository, commits: Iterable[Commit], wanted: set[str]
    ) -> dict[str, list[str]]:
        """Those of the addresses that ranges of commits hold, by the id of the range."""
        known = self._known.setdefault(partition_of(repository), _KnownRanges())
        for commit in commits:
            if commit.meta_range_id in known.metaranges:
                continue
            for info in self._committed.ranges(repository, commit.meta_range_id):
                if info.id not in known.ranges:
                    names = [
                        _name(a) for a in self._committed.addresses(repository, info).to_pylist()
                    ]
                    known.ranges[info.id] = (info, min(names, default=""), max(names, default=""))
            known.metaranges.add(commit.meta_range_id)
        held: dict[str, list[str]] = {}
        for info, least, greatest in known.ranges.values():
            if any(least <= _name(address) <= greatest for address in wanted):
                met = common_addresses(self._committed.addresses(repository, info), wanted)
                if met:
                    held[info.id] = met
        return held


def _name(address: str) -> str:
    return address[address.rfind("/") + 1 :]
