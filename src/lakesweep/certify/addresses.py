"""Promises of physical addresses: their form, and that no two objects ever share one."""

from __future__ import annotations

from datetime import timedelta

from lakesweep.certify.promise import BrokenError, NotDecidedError, promise
from lakesweep.certify.throwaway import ThrowAway
from lakesweep.domain.addresses import is_candidate
from lakesweep.formats.xid import descending_xid_time, xid_time

__all__ = ["PROMISES"]

_SUBJECT = "addresses"
_SLICE_LIFE = timedelta(hours=2)


@promise(
    _SUBJECT,
    "form of an uploaded object",
    needed=True,
    without="lakesweep takes only `data/<slice>/<object>` for an object of the lake: it would collect nothing.",
)
def uploaded_form(lake: ThrowAway) -> str:
    """Upload an object, and look for its bytes in the store at the address that the server tells."""
    address = lake.upload(lake.branch("form"), "object")
    if not is_candidate(address):
        raise BrokenError("The address is not of the form `data/<slice>/<object>`.")
    if lake.store.find(address) is None:
        raise NotDecidedError("Nothing is at the address in the store that we reach.")
    return "The address is `data/<slice>/<object>`, and the bytes are there."


@promise(
    _SUBJECT,
    "times in names",
    without="Optimised runs skip slices by the time in their name: they would list everything, or skip too much.",
)
def times_in_names(lake: ThrowAway) -> str:
    """Upload an object and read the times in the names of its slice and of itself."""
    _, slice_name, name = lake.upload(lake.branch("times"), "object").rsplit("/", 2)
    now = lake.clock()
    if not timedelta(minutes=-10) < now - descending_xid_time(slice_name) < _SLICE_LIFE:
        raise BrokenError("The slice's name is not that of the last hour, newest first.")
    if abs(now - xid_time(name.partition(",")[0])) > timedelta(minutes=10):
        raise BrokenError("The object's name does not tell when it was uploaded.")
    return "The slice is of the last hour, its name sorts newest first, the object is of now."


@promise(
    _SUBJECT,
    "a new one for each upload",
    needed=True,
    without="Two entries with one address: a collector that sees one of them go deletes the bytes of the other.",
)
def never_shared(lake: ThrowAway) -> str:
    """Upload the same bytes to two paths, to one of them twice, and on two branches."""
    branch, other = lake.branch("shared"), lake.branch("shared-too")
    uploads = [(branch, "a"), (branch, "b"), (branch, "a"), (other, "a")]
    addresses = [lake.upload(on, path, b"same bytes") for on, path in uploads]
    if len(set(addresses)) != len(addresses):
        raise BrokenError("Two uploads got one address.")
    return "Four uploads got four addresses."


@promise(
    _SUBJECT,
    "no staging of addresses inside the namespace",
    without="Two entries can share one address. lakesweep counts every staged address as live; between its last look "
    "and a delete such a call may revive an object that goes.",
)
def staging_inside(lake: ThrowAway) -> str:
    """Stage, on another path, the address of an object that was uploaded (StageObject)."""
    branch = lake.branch("stage")
    address = lake.upload(branch, "object")
    body = {
        "physical_address": f"{lake.namespace}/{address}",
        "checksum": "c",
        "size_bytes": 1,
    }
    route = ("branches", branch, "objects")
    answer = lake.ask("PUT", *route, params={"path": "staged"}, body=body)
    if answer.status_code < 300:
        raise BrokenError("It is staged, so two entries share one address.")
    return "It is refused."


PROMISES = (uploaded_form, times_in_names, never_shared, staging_inside)
