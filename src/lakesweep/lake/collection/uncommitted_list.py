"""Prepare uncommitted: the address of everything that is live though no commit says so.

The order is what makes the list complete, whatever happens meanwhile:

1. Uploads under way. Linking turns one into a staged entry, which the next step meets.
2. Staged entries of every branch. Each branch is read afresh, then its tokens, oldest first: an entry that a commit took
   from there before is in that commit, and a collector reads commits after this list; a token that is dropped while it
   is being read stays readable. Whatever is staged is listed, identical to the committed entry or not.
3. Tracked copies, last: a rename that slipped past step 2 is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from lakesweep.formats.entries import Entry
from lakesweep.formats.xid import new_descending_xid
from lakesweep.lake.addresses.inside import address_inside
from lakesweep.lake.collection.continuation import Place
from lakesweep.lake.collection.staged_scan import scan_staged_values
from lakesweep.lake.collection.uncommitted_file import UncommittedFile
from lakesweep.lake.context import LakeContext, full_address
from lakesweep.lake.objects.tracked_copies import TrackedCopies
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.staging.staged_values import decode_staged
from lakesweep.lake.uploads.pending import PendingUploads
from lakesweep.lake.values import Repository, UncommittedPage

_SCAN_ROWS = 50_000


@dataclass(eq=False, repr=False)
class GcUncommitted:
    """Writes the list page by page. A page is one file of about `prepare_max_file_bytes`."""

    _context: LakeContext
    _branches: Branches
    _pending: PendingUploads
    _copies: TrackedCopies

    def prepare(
        self, repository: Repository, continuation_token: str | None = None
    ) -> UncommittedPage:
        """Write one page, and say where the next begins."""
        place = (
            Place.decode(continuation_token)
            if continuation_token
            else Place(new_descending_xid(self._context.now()))
        )
        file = UncommittedFile(self._context.settings.prepare_max_file_bytes)
        next_place = self._fill(repository, place, file)
        rows = file.rows
        total = place.rows_before + rows
        folder = f"_lakefs/retention/gc/uncommitted/{place.run_id}/uncommitted/"
        if rows:
            store = self._context.store(repository)
            store.write(f"{folder}{file.name(self._context.now())}", file.finish())
        return UncommittedPage(
            run_id=place.run_id,
            # Also on a page that wrote nothing, once the run has written something: clients that look only at the last
            # page's location would take an empty one for "nothing is staged".
            location=full_address(repository, folder) if total else "",
            rows_written=rows,
            continuation_token=None if next_place is None else next_place.with_rows(total).encode(),
            total_rows=total if next_place is None else None,
        )

    def _fill(self, repository: Repository, place: Place, file: UncommittedFile) -> Place | None:
        """Write rows; the place to go on from when the page is over, None at the end of the list."""
        deadline = self._context.now() + self._context.settings.prepare_interval
        if place.branch_id is None:
            for upload in self._pending.live(repository, self._context.now()):
                file.add(upload.address, upload.created_at)
        if not place.is_in_copies:
            for branch_id in self._branch_ids(repository, place):
                start = place if branch_id == place.branch_id else Place(place.run_id, branch_id)
                for reached in self._add_branch(repository, start, file):
                    if file.is_full or self._context.now() >= deadline:
                        return reached
        for reached in self._add_copies(repository, place, file):
            if file.is_full or self._context.now() >= deadline:
                return reached
        return None

    def _branch_ids(self, repository: Repository, place: Place) -> Iterator[str]:
        """The branch the last page stopped in, also when it is gone by now, then those behind it."""
        if place.branch_id is not None:
            yield place.branch_id
        for record in self._branches.all(repository, after=place.branch_id):
            yield record.head.id

    def _add_branch(
        self, repository: Repository, place: Place, file: UncommittedFile
    ) -> Iterator[Place]:
        """Add a branch's staged entries from a place on; yields the place reached after every batch."""
        assert place.branch_id is not None
        record = self._branches.find(repository, place.branch_id)
        if record is None:
            # Deleted: what was staged there is not live any more.
            return
        # A commit lets go of the oldest tokens first and new ones join at the end, so a place between tokens stays one.
        tokens = record.tokens[::-1]
        after = None
        if place.token in tokens:
            tokens = tokens[tokens.index(place.token) :]
            after = place.key
        for token in tokens:
            while True:
                rows = self._context.kv.page(token, after=after, limit=_SCAN_ROWS)
                if rows:
                    self._add_values(repository, [value for _, value in rows], file)
                    after = rows[-1][0]
                    yield Place(place.run_id, place.branch_id, token, after)
                if len(rows) < _SCAN_ROWS:
                    break
            after = None

    def _add_copies(
        self, repository: Repository, place: Place, file: UncommittedFile
    ) -> Iterator[Place]:
        """Add tracked copies from a place on. Only those count that are there when the first of them is read.

        A copy that is tracked later has a source that was staged, and so listed, or was tracked before. So the list may
        be cut here as well, though a later copy may sort before one that was passed.
        """
        after = place.key if place.is_in_copies else None
        while True:
            rows = self._copies.page(repository, after=after, limit=_SCAN_ROWS)
            if rows:
                self._add_values(repository, [value for _, value in rows], file)
                after = rows[-1][0]
            if len(rows) < _SCAN_ROWS:
                return
            yield Place.in_copies(place.run_id, after)

    def _add_values(
        self, repository: Repository, values: list[bytes], file: UncommittedFile
    ) -> None:
        scanned = scan_staged_values(values)
        file.add_columns(scanned.addresses, scanned.seconds)
        for position in scanned.other_positions:
            self._add_entry(repository, decode_staged(values[position]), file)

    def _add_entry(self, repository: Repository, entry: Entry, file: UncommittedFile) -> None:
        relative = address_inside(self._context, repository, entry)
        if relative:
            file.add(relative, entry.last_modified or datetime.fromtimestamp(0, UTC))
