"""Pages and plots that a command writes when its run has ended: beside the record, and where the user wants them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lakesweep.errors import ConfigError

if TYPE_CHECKING:
    from lakesweep.collector.record import RunRecord
    from lakesweep.collector.resources import Resources
    from lakesweep.domain.run_summary import RunSummary
    from lakesweep.domain.what_if import WhatIf
    from lakesweep.report.html.beside import RunPlace
    from lakesweep.settings.values import OutputSettings
    from lakesweep.storage import ObjectStore

__all__ = [
    *("PageSums", "add_what_if_to_page", "check_page_files", "lakefs_place", "nessie_place"),
    *("write_files", "write_pages", "write_to"),
]


def check_page_files(output: OutputSettings) -> None:
    """Refuse files that can't be written before a run begins rather than after it."""
    for flag, path in (("--report", output.report), ("--plot", output.plot)):
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise ConfigError(
                f"{flag} {path}: there is no folder {Path(path).absolute().parent}. Nothing was touched. Make it first.",
                kind="no-folder",
            )
    if output.plot is not None:
        from lakesweep.report.html.plot import plot_kind

        plot_kind(output.plot)


def lakefs_place(store: ObjectStore, run_id: str) -> RunPlace:
    """Where a run on a repository keeps its files."""
    from lakesweep.collector.lakefs.paths import LATEST_WHAT_IF, RunFolder
    from lakesweep.collector.run_files import RunId
    from lakesweep.report.html.beside import RunPlace

    return RunPlace(store, RunFolder(RunId(run_id)), LATEST_WHAT_IF)


def nessie_place(resources: Resources, live_set_id: str) -> RunPlace | None:
    """Where runs on a live set keep their files; None where this one has written no record there.

    Until it has, nobody knows whether the work location lies below a table.
    """
    saved = resources.phases.saved_record
    if saved is None:
        return None
    return _place_of_set(resources.store, live_set_id, saved.repository)


def add_what_if_to_page(store: ObjectStore, answer: WhatIf) -> None:
    """Write the page of the last run on a catalog anew, where the answer to what-if was kept for it."""
    from lakesweep.collector.nessie.what_if.saved_answers import last_run
    from lakesweep.report.html.beside import tried, write_page

    record = tried("No page shows this answer yet", lambda: last_run(store, answer.name))
    if record is None:
        return
    place = _place_of_set(store, record.run_id, answer.name)
    if place.last_what_if() == answer:
        write_page(place, record)


def _place_of_set(store: ObjectStore, live_set_id: str, catalog: str) -> RunPlace:
    from lakesweep.collector.nessie.set_files import SetFolder
    from lakesweep.collector.nessie.what_if.saved_answers import answer_file
    from lakesweep.domain.live_sets import LiveSetId
    from lakesweep.report.html.beside import RunPlace

    return RunPlace(store, SetFolder(LiveSetId(live_set_id)), answer_file(catalog))


@dataclass(frozen=True, slots=True)
class PageSums:
    """What a page tells besides the record, where it is known."""

    summary: RunSummary | None = None
    what_if: WhatIf | None = None

    @classmethod
    def read(cls, place: RunPlace) -> PageSums:
        """The sums of a run, and the last answer to what-if."""
        return cls(place.summary(), place.last_what_if())


def write_pages(output: OutputSettings, record: RunRecord, place: RunPlace | None) -> None:
    """The page beside the record, `--report` and `--plot`. What can't be written is said; the run's result stays."""
    from lakesweep.report.html.beside import tried, write_page

    if place is not None:
        write_page(place, record)
    if output.report is not None or output.plot is not None:
        sums = PageSums.read(place) if place is not None and record.run_id else PageSums()
        for one in (replace(output, plot=None), replace(output, report=None)):
            tried("A page or plot is missing", partial(write_files, one, record, sums))


def write_files(output: OutputSettings, record: RunRecord, sums: PageSums) -> None:
    """`--report` and `--plot`.

    Raises:
        ConfigError: a file can't be written.
    """
    if output.report is not None:
        from lakesweep.report.html.page import run_page

        write_to(output.report, run_page(record, sums.summary, sums.what_if).encode())
    if output.plot is not None:
        from lakesweep.report.html.plot import as_png, plot, plot_kind

        svg = plot(record, sums.summary, sums.what_if)
        write_to(output.plot, svg.encode() if plot_kind(output.plot) == "svg" else as_png(svg))


def write_to(path: str, data: bytes) -> None:
    """Write a file of the user's.

    Raises:
        ConfigError: it can't be written.
    """
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error}.", kind="not-written") from error
