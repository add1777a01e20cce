"""Tasks report over a channel that may lose everything without the task noticing."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from lakesweep.progress import advance
from lakesweep.progress.loopback import LoopbackChannel, LoopbackMailbox
from lakesweep.progress.task_reports import Counts, Report, ReportedWork, note_retry


def work(items: Iterator[int]) -> Iterator[int]:
    for item in items:
        advance(1, item)
        if item == 13:
            note_retry(is_throttled=True)
        yield item


@dataclass(frozen=True)
class Failing:
    """A channel that fails, at once or when it sends."""

    at: str
    every_seconds: float = 0.0
    tells_all: bool = True

    def open(self) -> Callable[[Report], None]:
        if self.at == "open":
            raise OSError("no socket")

        def send(report: Report) -> None:
            raise OSError("no way")

        return send


def test_reports_arrive_over_the_loopback() -> None:
    """The last one says all that the task did, and no other program's datagrams are believed."""
    mailbox = LoopbackMailbox()
    reported = pickle.loads(pickle.dumps(ReportedWork(work, mailbox.channel, "s")))
    assert list(reported(iter([1, 13]))) == [1, 13]
    forged = LoopbackChannel(mailbox.channel.port, "guessed").open()
    forged(Report("s", "t", "p", Counts(objects=10**9)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        for junk in (b"", b"\xff", b"[]", b'{"key": 1}', b'{"key": "\xc3\xa9"}'):
            other.sendto(junk, ("127.0.0.1", mailbox.channel.port))
    (last,) = {report.task: report for report in mailbox.take()}.values()
    assert last.counts == Counts(2, 14, retries=1, throttled=1)
    assert list(mailbox.finish()) == []


@pytest.mark.parametrize("at", ["open", "send"])
def test_a_channel_that_fails_is_nothing_to_the_task(at: str) -> None:
    """The work gives what it gives without one."""
    assert list(ReportedWork(work, Failing(at), "s")(iter([1, 2]))) == [1, 2]


def test_nobody_listens_outside_of_reported_work() -> None:
    """Also after a task that failed."""

    def fails(items: Iterator[int]) -> Iterator[int]:
        raise ValueError("x")
        yield

    mailbox = LoopbackMailbox()
    with pytest.raises(ValueError, match="x"):
        list(ReportedWork(fails, mailbox.channel, "s")(iter([])))
    list(mailbox.take())
    advance(5)
    assert list(mailbox.finish()) == []
