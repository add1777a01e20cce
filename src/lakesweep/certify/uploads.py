"""Promises of issued addresses: what may be linked, where, how often and for how long."""

from __future__ import annotations

from datetime import timedelta

from lakesweep.certify.promise import BrokenError, NotOfferedError, promise
from lakesweep.certify.throwaway import ThrowAway
from lakesweep.domain.addresses import is_candidate
from lakesweep.formats.xid import new_descending_xid, new_xid

__all__ = ["PROMISES", "uploaded_address"]

_SUBJECT = "upload tokens"


def uploaded_address(lake: ThrowAway, branch: str, path: str) -> str:
    """An issued address, as the server spells it, with one byte uploaded to it past the server."""
    address = lake.issue(branch, path)
    lake.store.write(lake.relative(address), b"x")
    return address


def _linked(lake: ThrowAway, branch: str, path: str, address: str) -> None:
    status = lake.link(branch, path, address).status_code
    if status >= 300:
        raise BrokenError(f"Linking an address that was issued for it answers {status}.")


@promise(
    _SUBJECT,
    "an issued address is linked",
    needed=True,
    without="Uploads past the server can't be told from litter, nor litter from them.",
)
def issue_and_link(lake: ThrowAway) -> str:
    """Ask for an address, upload a byte to it in the store, link it, and read it back."""
    branch = lake.branch("link")
    address = uploaded_address(lake, branch, "linked")
    _linked(lake, branch, "linked", address)
    if not is_candidate(lake.relative(address)):
        raise BrokenError("The issued address is not of the form `data/<slice>/<object>`.")
    if lake.address(branch, "linked") != lake.relative(address):
        raise BrokenError("The entry has another address than the one that was linked.")
    return "The entry has the issued address, `data/<slice>/<object>`."


@promise(
    _SUBJECT,
    "for one path",
    without="One address can become two entries, of which one may be collected with the bytes of both.",
)
def one_path(lake: ThrowAway) -> str:
    """Link an issued address to another path than the one that it was issued for."""
    branch = lake.branch("one-path")
    address = uploaded_address(lake, branch, "asked")
    if lake.link(branch, "other", address).status_code < 300:
        raise BrokenError("It is accepted.")
    return "It is refused."


@promise(
    _SUBJECT,
    "for one use",
    without="A token that is used again revives an address that was deleted meanwhile. lakesweep keeps what is "
    "younger than the server's grace period, during which a token can be used.",
)
def one_use(lake: ThrowAway) -> str:
    """Link an issued address, delete the entry, and link the address again."""
    branch = lake.branch("one-use")
    address = uploaded_address(lake, branch, "used")
    _linked(lake, branch, "used", address)
    lake.delete(branch, "used")
    if lake.link(branch, "used", address).status_code < 300:
        raise BrokenError("The second link is accepted.")
    return "The second link is refused."


@promise(
    _SUBJECT,
    "only what was issued",
    without="Anybody can make an entry of an old address that nobody refers to, while a sweep deletes it.",
)
def forged(lake: ThrowAway) -> str:
    """Link an address of the right form, a year old, that the server never issued; its bytes are there."""
    branch = lake.branch("forged")
    then = lake.clock() - timedelta(days=365)
    address = f"data/{new_descending_xid(then)}/{new_xid(then)}"
    lake.store.write(address, b"x")
    if lake.link(branch, "forged", f"{lake.namespace}/{address}").status_code < 300:
        raise BrokenError("It is accepted.")
    return "It is refused."


@promise(
    _SUBJECT,
    "not another repository's",
    without="An entry whose bytes lie in another repository's namespace is lost when that repository is collected: "
    "no collector of that one can see it.",
)
def other_repository(lake: ThrowAway) -> str:
    """Link an address that was issued by another repository of the server."""
    other = lake.others()
    address = uploaded_address(other, "main", "theirs")
    if lake.link(lake.branch("others"), "theirs", address).status_code < 300:
        raise BrokenError("It is accepted.")
    return "It is refused."


@promise(
    _SUBJECT,
    "only what was uploaded",
    without="An entry without bytes: it reads as if a collector had deleted it.",
)
def nothing_uploaded(lake: ThrowAway) -> str:
    """Link an issued address to which nothing was uploaded."""
    branch = lake.branch("empty")
    if lake.link(branch, "empty", lake.issue(branch, "empty")).status_code < 300:
        raise BrokenError("It is accepted.")
    return "It is refused."


@promise(
    _SUBJECT,
    "their life is told",
    without="lakesweep then takes six hours for the life of a token, as in servers from before it was told, and "
    "keeps everything younger than a day anyway.",
)
def life_told(lake: ThrowAway) -> str:
    """Ask how long an issued address may be linked."""
    answer = lake.raw.send("GET", ("config", "garbage-collection"))
    if answer.status_code in (404, 405, 501):
        raise NotOfferedError(f"The server answers {answer.status_code}.")
    life = lake.client.grace_period()
    if not timedelta(0) < life <= timedelta(days=30):
        raise BrokenError(f"It is {life.total_seconds():.0f} seconds.")
    return f"It is {life.total_seconds():.0f} seconds. That a token ends then was not waited for."


PROMISES = (
    *(issue_and_link, one_path, one_use, forged),
    *(other_repository, nothing_uploaded, life_told),
)
