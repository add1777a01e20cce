"""Promises of the server's clock, which ages and cut-offs are compared with."""

from __future__ import annotations

from datetime import timedelta

from lakesweep.certify.promise import BrokenError, NotDecidedError, promise
from lakesweep.certify.throwaway import ThrowAway

__all__ = ["PROMISES"]

_SUBJECT = "clocks"
_MOST_APART = timedelta(minutes=10)  # as runs tolerate


@promise(
    _SUBJECT,
    "answers have a date",
    needed=True,
    without="lakesweep compares the server's clock with the store's before it deletes, and refuses what it can't compare.",
)
def answers_have_a_date(lake: ThrowAway) -> str:
    """Ask for the server's health, and compare the date of the answer with this machine's clock."""
    told = lake.client.server_time()
    if told is None:
        raise BrokenError("The answer has no date.")
    if abs(told - lake.clock()) > _MOST_APART:
        raise BrokenError("The date is more than ten minutes off this machine's clock.")
    return "It has one, within ten minutes of this machine's clock."


@promise(
    _SUBJECT,
    "server and store agree",
    needed=True,
    without="What is young by one clock is old by the other: lakesweep refuses to run.",
)
def server_and_store_agree(lake: ThrowAway) -> str:
    """Write an object into the store and compare its time with the date of an answer of the server."""
    key = "_lakefs/certify-clock"
    lake.store.write(key, b"")
    written, told = lake.store.stat(key).last_modified, lake.client.server_time()
    if written is None or told is None:
        raise NotDecidedError("The store or the server tells no time.")
    if abs(written - told) > _MOST_APART:
        raise BrokenError("They are more than ten minutes apart.")
    return "They are within ten minutes of each other."


PROMISES = (answers_have_a_date, server_and_store_agree)
