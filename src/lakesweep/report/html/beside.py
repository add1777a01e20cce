"""The page of a run, written beside its record. What a run did never depends on whether its page can be written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lakesweep.collector.record import RunRecord
from lakesweep.collector.run_files import RunFiles
from lakesweep.domain.run_summary import RunSummary, decode_summary
from lakesweep.domain.what_if import WhatIf
from lakesweep.errors import LakesweepError, ObjectNotFoundError, foreign_errors_as_ours

__all__ = ["RunPlace", "Store", "tried", "write_page"]

logger = logging.getLogger(__name__)
_T = TypeVar("_T")


class Store(Protocol):
    """Where runs keep their files."""

    def read(self, key: str) -> bytes:
        """The bytes of a file."""
        ...

    def write(self, key: str, data: bytes) -> object:
        """Write a file."""
        ...


@dataclass(frozen=True, slots=True)
class RunPlace:
    """The files of one run, and where the last answer to what-if lies; empty where there can be none."""

    store: Store
    files: RunFiles
    what_if: str = ""

    def summary(self) -> RunSummary | None:
        """The sums of the run; None where it left none that can be read."""
        return tried(
            f"The summary {self.files.summary} is left out",
            lambda: decode_summary(self.store.read(self.files.summary), self.files.summary),
        )

    def last_what_if(self) -> WhatIf | None:
        """The last answer to what-if; None where there is none that can be read."""
        if not self.what_if:
            return None
        return tried(
            f"The what-if {self.what_if} is left out",
            lambda: WhatIf.from_json(self.store.read(self.what_if)),
        )


def write_page(place: RunPlace, record: RunRecord) -> None:
    """Write the page of a run beside its record; where that fails, it is said and nothing else happens."""
    if not record.run_id:
        return

    def write() -> None:
        # The template engine is loaded by those who make a page.
        from lakesweep.report.html.page import run_page

        page = run_page(record, place.summary(), place.last_what_if())
        place.store.write(place.files.page, page.encode())

    tried(f"The page of run {record.run_id} was not written", write)


def tried(not_done: str, work: Callable[[], _T]) -> _T | None:
    """What the work gives, or None after a warning where it fails. A file that is not there is no failure."""
    try:
        with foreign_errors_as_ours(""):
            return work()
    except ObjectNotFoundError:
        return None
    except LakesweepError as error:
        logger.warning("%s; the run itself is not affected: %s", not_done, error.message)
        return None
