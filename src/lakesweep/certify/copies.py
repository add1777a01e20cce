"""Promises of copies: shallow or full, a copy outlives its source."""

from __future__ import annotations

from lakesweep.certify.promise import BrokenError, NotOfferedError, promise
from lakesweep.certify.throwaway import ThrowAway

__all__ = ["PROMISES"]

_SUBJECT = "copies"
_SHALLOW, _FULL = "it shares the address of its source", "it has an address of its own"


def _kind(source: str, copy: str) -> str:
    return _SHALLOW if source == copy else _FULL


def _require_listed(lake: ThrowAway, address: str, what: str) -> None:
    if address not in lake.uncommitted():
        raise BrokenError(f"{what} is staged, and its address is not in the uncommitted list.")


@promise(
    _SUBJECT,
    "within a branch",
    needed=True,
    without="A rename, which is a copy and a delete, loses the object at the next collection.",
)
def within_a_branch(lake: ThrowAway) -> str:
    """Stage an object, copy it within its branch, delete the source, take the uncommitted list, and commit."""
    branch = lake.branch("copy")
    source = lake.upload(branch, "source")
    copied = lake.copy(branch, "source", "copy")
    lake.delete(branch, "source")
    _require_listed(lake, copied, "The copy")
    head = lake.commit(branch, "renamed")
    if lake.address(head, "copy") != copied:
        raise BrokenError("The committed copy has another address than the staged one had.")
    return f"The copy is listed and committed; {_kind(source, copied)}."


@promise(
    _SUBJECT,
    "across branches",
    needed=True,
    without="An address staged on two branches: whoever resets one of them may lose the other's bytes.",
)
def across_branches(lake: ThrowAway) -> str:
    """Stage an object, copy it to another branch, delete the first branch, and take the uncommitted list."""
    branch, other = lake.branch("copy-from"), lake.branch("copy-to")
    source = lake.upload(branch, "source")
    copied = lake.copy(other, "source", "copy", source_ref=branch)
    lake.drop_branch(branch)
    _require_listed(lake, copied, "The copy")
    if copied == source:
        raise BrokenError("The copy shares the address of an object on another branch.")
    return f"The copy is listed; {_FULL}."


@promise(
    _SUBJECT,
    "through the S3 gateway",
    needed=True,
    without="A rename by an S3 client, which is a copy and a delete, loses the object at the next collection.",
)
def through_the_gateway(lake: ThrowAway) -> str:
    """Put an object through the S3 gateway, copy it within its branch, delete the source, take the uncommitted list."""
    branch = lake.branch("copy-s3")
    put = lake.raw.send_s3("PUT", lake.name, f"{branch}/source", content=b"s3")
    if put.status_code >= 300:
        raise NotOfferedError(f"Putting an object answers {put.status_code}.")
    source = lake.address(branch, "source")
    headers = {"x-amz-copy-source": f"/{lake.name}/{branch}/source"}
    answer = lake.raw.send_s3("PUT", lake.name, f"{branch}/copy", headers=headers)
    if answer.status_code >= 300:
        raise NotOfferedError(f"Copying an object answers {answer.status_code}.")
    lake.raw.send_s3("DELETE", lake.name, f"{branch}/source")
    copied = lake.address(branch, "copy")
    if copied is None or source is None:
        raise BrokenError("What was put or copied through the gateway is not on the branch.")
    _require_listed(lake, copied, "The copy")
    return f"The copy is listed; {_kind(source, copied)}."


PROMISES = (within_a_branch, across_branches, through_the_gateway)
