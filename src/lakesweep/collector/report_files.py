"""Reports of tasks on other machines: small files in the run's own folder, a few seconds apart, gone with the scatter.

Executors can reach the store, and often nothing else of the driver's world.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from lakesweep.collector.target import Target
from lakesweep.json_text import parse_json
from lakesweep.progress.task_reports import Counts, Report

EVERY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class FileChannel:
    """Where tasks leave their reports: one file for each task, written over and over."""

    target: Target
    folder: str
    every_seconds: float
    tells_all: bool = False  # a task that is done within seconds is not worth a request

    def open(self) -> Callable[[Report], None]:
        """A function that writes one report into the task's file."""
        store = self.target.open()

        def send(report: Report) -> None:
            key = f"{self.folder}{report.task}.json"
            store.write(key, json.dumps(asdict(report)).encode())

        return send


class FileMailbox:
    """Where the driver reads the reports of its tasks, no more often than they write; it removes no others' files."""

    def __init__(self, target: Target, folder: str, every_seconds: float = EVERY_SECONDS) -> None:
        self._store = target.open()
        self._folder = f"{folder}{uuid.uuid4().hex}/"
        self._next_at = time.monotonic() + every_seconds
        self.channel = FileChannel(target, self._folder, every_seconds)

    def take(self) -> Iterator[Report]:
        """All present reports; none where the last reading was less than `every_seconds` ago."""
        if time.monotonic() >= self._next_at:
            yield from self._read(list(self._store.keys(self._folder)))
            self._next_at = time.monotonic() + self.channel.every_seconds

    def finish(self) -> Iterator[Report]:
        """All present reports for the last time: their files are removed then."""
        keys = list(self._store.keys(self._folder))
        try:
            yield from self._read(keys)
        finally:
            if keys:
                self._store.delete_many(keys)

    def _read(self, keys: list[str]) -> Iterator[Report]:
        for _, data in self._store.read_many(keys):
            values = parse_json(data)
            yield Report(**{**values, "counts": Counts(**values["counts"])})
