"""The server's list of everything staged on any branch, all pages of it, or an error.

Every object in this list is live. A page lost is data lost, so each way in which a page can go missing is looked for.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.catalogs.lakefs.wire import PrepareUncommittedWire
from lakesweep.domain.commits import BranchId
from lakesweep.errors import UnsafeToSweepError
from lakesweep.storage import ObjectStore

__all__ = ["UncommittedList", "prepare_all_pages"]

logger = logging.getLogger(__name__)

_TRIES = 5


@dataclass(frozen=True, slots=True)
class UncommittedList:
    """The files of one uncommitted list. `rows_promised` is None where the server gives no counts."""

    run_id: str
    location: str
    files: tuple[str, ...]
    pages: int
    rows_promised: int | None

    def assert_rows_read(self, rows: int) -> None:
        """Refuse when the files held another number of rows than the server wrote."""
        if self.rows_promised is not None and rows != self.rows_promised:
            raise UnsafeToSweepError(
                f"The uncommitted list {self.run_id} has {rows} rows, but the server wrote {self.rows_promised}. "
                "Nothing was deleted. Run again.",
                kind="uncommitted-rows-missing",
            )


def prepare_all_pages(
    client: LakeFSClient,
    store: ObjectStore,
    repository: str,
    normaliser: AddressNormaliser,
    *,
    tries: int = _TRIES,
) -> UncommittedList:
    """Have the server write its list, page after page, and find the files.

    A real server that meets a branch deleted under its hands may drop the rows of the whole page and call it empty. So
    an empty page during which a branch went away is taken again, and after `tries` times refused.

    Raises:
        UnsafeToSweepError: the list is not complete, or it can't be told whether it is.
    """
    pages = _all_pages(client, repository, tries)
    return _found_files(store, repository, normaliser, pages)


class _BranchWatch:
    """Looks at the branches before, between and after pages, and tells which went away."""

    def __init__(self, client: LakeFSClient, repository: str) -> None:
        self._client = client
        self._repository = repository
        self._last_seen = self._branches()

    def look(self) -> set[BranchId]:
        """Branches that went away since the last look."""
        before, self._last_seen = self._last_seen, self._branches()
        return before - self._last_seen

    def _branches(self) -> set[BranchId]:
        return {head.id for head in self._client.branches(self._repository)}


def _whole_page(
    client: LakeFSClient, repository: str, watch: _BranchWatch, token: str | None, tries: int
) -> PrepareUncommittedWire:
    """The page at a token (the first one, of a new run, without). A token may be used again: it names a place."""
    for attempt in range(1, tries + 1):
        page = client.prepare_uncommitted(repository, token)
        vanished = watch.look()
        # A count of rows proves the page whole, and a page that was written has all its rows.
        if not vanished or page.rows_written is not None or page.gc_uncommitted_location:
            return page
        logger.warning(
            "repo#%s run#%s branches %s went away while the server listed them (try %d of %d)",
            repository,
            page.run_id,
            ", ".join(sorted(vanished)[:5]),
            attempt,
            tries,
        )
    raise UnsafeToSweepError(
        f"A page of the uncommitted list of {repository} was taken {tries} times, and each time it was empty and a branch "
        "was deleted meanwhile, which makes a server lose rows. Nothing was deleted. Run again when fewer branches are "
        "being deleted.",
        kind="branches-vanish",
    )


def _all_pages(client: LakeFSClient, repository: str, tries: int) -> list[PrepareUncommittedWire]:
    watch = _BranchWatch(client, repository)
    pages = [_whole_page(client, repository, watch, None, tries)]
    tokens: set[str] = set()
    while token := pages[-1].continuation_token:
        if token in tokens:
            # Seen on a real server whose page interval is shorter than its first row takes.
            raise UnsafeToSweepError(
                f"The server gave the same continuation token twice while it listed what is uncommitted in "
                f"{repository} (run {pages[0].run_id}, page {len(pages)}), so the list would never end. Nothing was "
                "deleted. Raise the server's ugc.prepare_interval.",
                kind="token-repeats",
            )
        tokens.add(token)
        page = _whole_page(client, repository, watch, token, tries)
        if page.run_id != pages[0].run_id:
            raise UnsafeToSweepError(
                f"The server went on with run {page.run_id} while it listed what is uncommitted in {repository}, but "
                f"the list began as run {pages[0].run_id}. Nothing was deleted. Run again.",
                kind="run-changed",
            )
        pages.append(page)
    return pages


def _found_files(
    store: ObjectStore,
    repository: str,
    normaliser: AddressNormaliser,
    pages: list[PrepareUncommittedWire],
) -> UncommittedList:
    run_id = pages[0].run_id
    # Where files of this run belong, asked or not: a location that only some pages name holds the files of all.
    own_location = f"_lakefs/retention/gc/uncommitted/{run_id}/uncommitted/"
    locations = {own_location}
    with_rows = [page for page in pages if page.gc_uncommitted_location]
    for page in with_rows:
        relative = normaliser.relative(page.gc_uncommitted_location)
        if relative is None or not relative.startswith("_lakefs/"):
            raise UnsafeToSweepError(
                f"The server wrote what is uncommitted in {repository} to {page.gc_uncommitted_location}, which is "
                f"not under {normaliser.namespace}/_lakefs/. Nothing was deleted.",
                kind="location-outside",
            )
        locations.add(relative.rstrip("/") + "/")
    files = tuple(sorted({key for location in locations for key in store.keys(location)}))
    if len(files) < len(with_rows):
        raise UnsafeToSweepError(
            f"The server says that {len(with_rows)} pages of the uncommitted list {run_id} of {repository} have rows, "
            f"but only {len(files)} files are in {', '.join(sorted(locations))}. Nothing was deleted. Check that the "
            "storage namespace and its credentials are those of the server.",
            kind="location-missing",
        )
    rows = _rows_promised(repository, pages)
    if rows and not files:
        raise UnsafeToSweepError(
            f"The server wrote {rows} rows of the uncommitted list {run_id} of {repository}, but no file is there. "
            "Nothing was deleted.",
            kind="location-missing",
        )
    logger.info(
        "repo#%s run#%s list of uncommitted objects; pages: %d, pages with rows: %d, files: %d, rows that the server says it wrote: %s",
        repository,
        run_id,
        len(pages),
        len(with_rows),
        len(files),
        "not said" if rows is None else rows,
    )
    return UncommittedList(run_id, own_location, files, len(pages), rows)


def _rows_promised(repository: str, pages: list[PrepareUncommittedWire]) -> int | None:
    counts = [page.rows_written for page in pages]
    total = pages[-1].total_rows
    if total is None and all(count is None for count in counts):
        return None  # a real server: it does not say
    summed = sum(count or 0 for count in counts)
    if total is None or None in counts or summed != total:
        raise UnsafeToSweepError(
            f"The server's counts of what is uncommitted in {repository} do not add up: the pages have {counts[:20]} "
            f"rows, the whole {total}. Nothing was deleted. Run again.",
            kind="uncommitted-rows-missing",
        )
    return total
