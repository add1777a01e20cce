"""Reports of tasks on the driver's own machine: datagrams to a port of 127.0.0.1, sent and forgotten."""

from __future__ import annotations

import hmac
import json
import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from lakesweep.json_text import parse_json
from lakesweep.progress.task_reports import Counts, Report

__all__ = ["LoopbackChannel", "LoopbackMailbox"]

_LONGEST = 2000


@dataclass(frozen=True, slots=True)
class LoopbackChannel:
    """Where a task of this machine sends its reports. The key keeps out what other programs send to the port."""

    port: int
    key: str
    every_seconds: float = 0.2
    tells_all: bool = True

    def open(self) -> Callable[[Report], None]:
        """What sends a report."""
        return self._send

    def _send(self, report: Report) -> None:
        data = json.dumps({"key": self.key, **asdict(report)}).encode()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(data, ("127.0.0.1", self.port))


class LoopbackMailbox:
    """The driver's end. Datagrams wait in the socket until they are taken, and those that do not fit are lost."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(("127.0.0.1", 0))
        self._key = secrets.token_hex(8)
        self.channel = LoopbackChannel(self._socket.getsockname()[1], self._key)

    def take(self) -> Iterator[Report]:
        """The reports that have come in."""
        while True:
            try:
                data = self._socket.recv(_LONGEST)
            except OSError:
                return
            report = self._understood(data)
            if report is not None:
                yield report

    def finish(self) -> Iterator[Report]:
        """The last reports; nobody listens any more."""
        yield from self.take()
        self._socket.close()

    def _understood(self, data: bytes) -> Report | None:
        try:
            values = parse_json(data)
            if not hmac.compare_digest(values.pop("key"), self._key):
                return None
            return Report(**{**values, "counts": Counts(**values["counts"])})
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
