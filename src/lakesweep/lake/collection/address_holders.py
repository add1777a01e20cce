"""What holds given addresses though no commit does: staged entries, tracked copies, uploads under way.

The same three sources as the list of uncommitted addresses, read in the same order. Nothing is written here: an upload
whose time is over is left out, and its record stays for the next collection to take away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

from lakesweep.lake.addresses.inside import staged_address
from lakesweep.lake.context import LakeContext
from lakesweep.lake.kv.interface import scan
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.staging.staged_values import TOMBSTONE
from lakesweep.lake.uploads.pending import PendingUploads
from lakesweep.lake.values import Repository

_SCAN_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class AddressHolder:
    """One thing that holds an address: what kind of thing, where, and until when if it ends by itself."""

    kind: str  # staged, copy or upload
    address: str
    branch_id: str = ""
    path: str = ""
    until: datetime | None = None


class AddressHolders:
    """Looks for what holds addresses outside of commits."""

    def __init__(
        self,
        context: LakeContext,
        branches: Branches,
        pending: PendingUploads,
        copies: TrackedCopies,
    ) -> None:
        self._context = context
        self._branches = branches
        self._pending = pending
        self._copies = copies

    def find(self, repository: Repository, addresses: Collection[str]) -> Iterator[AddressHolder]:
        """Uploads under way, then staged entries of every branch, then tracked copies."""
        wanted = frozenset(addresses)
        now = self._context.now()
        for found in self._pending.all(repository):
            upload = found.upload
            until = self._pending.end_of(upload)
            if upload.address in wanted and upload.state != "ending" and now < until:
                yield AddressHolder("upload", upload.address, upload.branch_id, upload.path, until)
        for record in self._branches.all(repository):
            for token in record.tokens:
                for key, value in scan(self._context.kv, token, page_rows=_SCAN_ROWS):
                    if value == TOMBSTONE:
                        continue
                    address = staged_address(self._context, repository, value)
                    if address in wanted:
                        path = key.decode(errors="replace")
                        yield AddressHolder("staged", address, record.head.id, path)
        for key, value in self._copies.all(repository):
            address = staged_address(self._context, repository, value)
            if address in wanted:
                yield AddressHolder("copy", address, until=self._copies.end_of(key))
