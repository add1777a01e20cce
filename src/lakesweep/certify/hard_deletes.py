"""Promises about objects whose bytes a collector has deleted."""

from __future__ import annotations

from lakesweep.certify.promise import BrokenError, NotDecidedError, NotOfferedError, promise
from lakesweep.certify.throwaway import ThrowAway
from lakesweep.storage import DeleteStatus

__all__ = ["PROMISES"]

_SUBJECT = "hard-deleted objects"


def _hard_deleted(lake: ThrowAway, branch: str) -> str:
    """A commit with an object whose bytes are gone."""
    address = lake.upload(lake.branch(branch), "object", b"to be deleted")
    head = lake.commit(branch, "with the object")
    (outcome,) = lake.store.delete_many([address])
    if outcome.status is not DeleteStatus.GONE:
        raise NotDecidedError("The bytes could not be deleted from the store.")
    return head


@promise(
    _SUBJECT,
    "410 in the REST API",
    without="Users can't tell what was collected from what was never there.",
)
def rest_410(lake: ThrowAway) -> str:
    """Commit an object, delete its bytes from the store, and read it through the REST API."""
    head = _hard_deleted(lake, "gone")
    answer = lake.ask("GET", "refs", head, "objects", params={"path": "object"})
    if answer.status_code != 410:
        raise BrokenError(f"It answers {answer.status_code}.")
    return "It answers 410."


@promise(
    _SUBJECT,
    "410 in the S3 gateway",
    without="S3 clients can't tell what was collected from what was never there.",
)
def s3_410(lake: ThrowAway) -> str:
    """Commit an object, delete its bytes from the store, and read it through the S3 gateway; read another one first."""
    head = _hard_deleted(lake, "gone-s3")
    lake.upload("gone-s3", "there")
    there = lake.raw.send_s3("GET", lake.name, "gone-s3/there")
    if there.status_code != 200:
        raise NotOfferedError(f"Reading an object that is there answers {there.status_code}.")
    answer = lake.raw.send_s3("GET", lake.name, f"{head}/object")
    if answer.status_code != 410:
        raise BrokenError(f"It answers {answer.status_code}.")
    return "It answers 410."


@promise(
    _SUBJECT,
    "the entry stays",
    needed=True,
    without="History would change under its readers; a restore from a backup could not be read again.",
)
def entry_stays(lake: ThrowAway) -> str:
    """Commit an object, delete its bytes from the store, list the commit, put the bytes back, and read them."""
    head = _hard_deleted(lake, "restored")
    address = lake.address(head, "object")
    if address is None:
        raise BrokenError("The commit has no entry for it any more.")
    lake.store.write(address, b"to be deleted")
    answer = lake.ask("GET", "refs", head, "objects", params={"path": "object"})
    if answer.content != b"to be deleted":
        raise BrokenError(f"With its bytes back, it answers {answer.status_code}.")
    return "The entry is there, and reads again when its bytes are back."


PROMISES = (rest_410, s3_410, entry_stays)
