"""Promises of the uncommitted list: everything staged on any branch, in the form of the store's keys."""

from __future__ import annotations

from lakesweep.certify.promise import BrokenError, NotOfferedError, promise
from lakesweep.certify.throwaway import ThrowAway
from lakesweep.certify.uploads import uploaded_address

__all__ = ["PROMISES"]

_SUBJECT = "uncommitted list"


@promise(
    _SUBJECT,
    "everything staged, on every branch",
    needed=True,
    without="What is staged and not listed looks like garbage, and is deleted.",
)
def everything_staged(lake: ThrowAway) -> str:
    """Stage objects on three branches, one of them hidden, one of them with an overwritten and a committed object too."""
    plain, mixed = lake.branch("staged"), lake.branch("staged-mixed")
    hidden = lake.branch("staged-hidden", hidden=True)
    lake.upload(mixed, "overwritten")
    lake.upload(mixed, "committed")
    lake.commit(mixed, "first")
    staged = {lake.upload(plain, f"{n}") for n in range(3)}
    staged |= {lake.upload(hidden, "one"), lake.upload(mixed, "overwritten", b"anew")}
    lake.upload(mixed, "twice")
    staged.add(lake.upload(mixed, "twice", b"again"))
    if missing := staged - lake.uncommitted():
        raise BrokenError(f"{len(missing)} of {len(staged)} staged addresses are not in the list.")
    return "Every staged address is in the list, spelt like the object's key below the namespace."


@promise(
    _SUBJECT,
    "after a failed commit",
    needed=True,
    without="A commit that fails half-way moves what is staged to a place that must be listed too.",
)
def after_a_failed_commit(lake: ThrowAway) -> str:
    """Stage an object, have a commit and a merge refused, and take the list."""
    branch, other = lake.branch("refused"), lake.branch("refused-other")
    lake.upload(other, "object", b"theirs")
    lake.commit(other, "theirs")
    lake.upload(branch, "object", b"ours")
    lake.commit(branch, "ours")
    staged = lake.upload(branch, "staged")
    lake.ask("POST", "branches", branch, "commits", body={})
    lake.ask("POST", "refs", other, "merge", branch, body={})
    if staged not in lake.uncommitted():
        raise BrokenError("The staged address is not in the list.")
    return "The staged address is in the list."


@promise(
    _SUBJECT,
    "re-upload of what is committed",
    without="Such an object reads 410 once it is collected. lakesweep looks up, for garbage of the same size, what "
    "branches read at staged paths, and keeps what it finds.",
)
def same_content_again(lake: ThrowAway) -> str:
    """Commit an object, upload the same bytes to the same path, and take the list."""
    branch = lake.branch("re-upload")
    lake.upload(branch, "object", b"same")
    lake.commit(branch, "first")
    staged = lake.upload(branch, "object", b"same")
    if lake.address(branch, "object") == staged and staged not in lake.uncommitted():
        raise BrokenError("The branch reads the new address, and it is not in the list.")
    return "The address that the branch reads is in the list, or in the commit."


@promise(
    _SUBJECT,
    "linked objects",
    needed=True,
    without="What was uploaded past the server and linked looks like garbage, and is deleted.",
)
def linked_objects(lake: ThrowAway) -> str:
    """Upload to an issued address, link it, and take the list."""
    branch = lake.branch("linked")
    address = uploaded_address(lake, branch, "object")
    if lake.link(branch, "object", address).status_code >= 300:
        raise NotOfferedError("The server links no issued address.")
    if lake.relative(address) not in lake.uncommitted():
        raise BrokenError("The linked address is not in the list.")
    return "The linked address is in the list."


@promise(
    _SUBJECT,
    "uploads under way",
    without="An upload that takes longer than the minimum age may be collected before it is linked. lakesweep keeps "
    "everything younger than a day, or than the life of a token if that is longer.",
)
def uploads_under_way(lake: ThrowAway) -> str:
    """Upload to an issued address, do not link it, and take the list."""
    address = uploaded_address(lake, lake.branch("pending"), "object")
    if lake.relative(address) not in lake.uncommitted():
        raise NotOfferedError("The list has no address that is issued and not yet linked.")
    return "The address is in the list."


@promise(
    _SUBJECT,
    "one run, tokens that end",
    needed=True,
    without="A page that is lost or read for another takes the staged data that it lists with it.",
)
def continuation(lake: ThrowAway) -> str:
    """Take the list to its last page, and send a continuation token that the server never gave."""
    lake.upload(lake.branch("paged"), "object")
    pages = lake.uncommitted_pages()
    if len({page.run_id for page in pages}) != 1:
        raise BrokenError("Pages of one list have different run ids.")
    if lake.uncommitted_pages()[0].run_id == pages[0].run_id:
        raise BrokenError("Two lists have one run id.")
    body = {"continuation_token": "no-such-token"}
    status = lake.ask("POST", "gc", "prepare_uncommited", body=body).status_code
    if status < 300:
        raise BrokenError("A token that was never given is accepted.")
    return "All pages have one run id, the next list another; a wrong token is refused."


@promise(
    _SUBJECT,
    "rows are counted",
    without="A page that lost rows on its way can't be told by its count. lakesweep takes an empty page again when a "
    "branch went away meanwhile, and tries canaries: objects that it knows to be live.",
)
def rows_counted(lake: ThrowAway) -> str:
    """Take the list and compare the number of its rows with what the pages say."""
    lake.upload(lake.branch("counted"), "object")
    pages = lake.uncommitted_pages()
    counts = [page.rows_written for page in pages]
    if all(count is None for count in counts):
        raise NotOfferedError("Pages say nothing of their number of rows.")
    rows = len(lake.addresses_in(pages))
    if sum(count or 0 for count in counts) < rows or pages[-1].total_rows != sum(
        count or 0 for count in counts
    ):
        raise BrokenError("The counts of the pages do not add up to the rows of the files.")
    return "The counts of the pages add up to the rows of the files."


PROMISES = (
    *(everything_staged, after_a_failed_commit, same_content_again, linked_objects),
    *(uploads_under_way, continuation, rows_counted),
)
