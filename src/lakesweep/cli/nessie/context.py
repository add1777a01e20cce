"""What a run on a Nessie catalog works with: the stores, a folder of our own, and Spark when it is needed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lakesweep.cachefolder import home_folder
from lakesweep.cli.running import jvm_started, may_work_here, progress_display, start_engine
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError
from lakesweep.metrics.watched import current_run
from lakesweep.settings.nessie_values import OptionValues

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
    from lakesweep.collector.nessie.context import NessieContext
    from lakesweep.collector.phases import Phases
    from lakesweep.engine.tasks import Engine
    from lakesweep.settings.values import Settings, SparkSettings

__all__ = ["lasting_location", "opened_context", "with_file_access", "work_location"]


@contextmanager
def opened_context(
    settings: Settings, live_sets: LiveSetStore, work: Location, collected: Location | None = None
) -> Iterator[NessieContext]:
    """Everything that a run on a live set needs; `collected` is where the record of collected files lies."""
    from lakesweep.collector.nessie.context import NessieContext
    from lakesweep.collector.phases import Phases, reporting_engine
    from lakesweep.collector.report_files import FileMailbox
    from lakesweep.collector.target import Target

    phases = current_run().phases = Phases("nessie", progress_display(settings.output))
    target = Target(work, settings.storage)

    def mailbox() -> FileMailbox | None:
        return FileMailbox(target, "reports/") if phases.may_write_reports else None

    with _engine(settings, phases) as engine:
        yield NessieContext(
            live_sets=live_sets,
            engine=reporting_engine(engine, phases, mailbox),
            storage=settings.storage,
            work_location=work,
            phases=phases,
            collected=collected,
        )


def _engine(settings: Settings, phases: Phases) -> AbstractContextManager[Engine]:
    """Spark where a master is named; else this process, until there is more to do than a start of Spark is worth."""
    from lakesweep.engine.here_first import HereFirst
    from lakesweep.engine.late import LateEngine

    def start() -> Engine:
        with jvm_started(settings.spark):
            return start_engine(settings, phases)

    if not may_work_here(settings.spark):
        return LateEngine(start)
    return HereFirst(start, on_tasks=phases.show_tasks)


def with_file_access(
    options: OptionValues, settings: Settings, *, deletes: bool = False
) -> Settings:
    """The settings with what `--iceberg` and `--hadoop` say of the stores.

    `s3.delete-enabled=false` lets Iceberg say "deleted" and keep the file; here a run that deletes is not begun.
    """
    from lakesweep.settings.iceberg_options import read_file_access, with_file_access

    access = read_file_access(options["iceberg"], options["hadoop"])
    if deletes and not access.may_delete:
        raise ConfigError(
            "--iceberg s3.delete-enabled=false forbids deletes, and this command is to delete. Nothing was touched. "
            "Use --defer-deletes to record what would go, or leave the property out.",
            kind="deletes-disabled",
        )
    return with_file_access(settings, access)


@contextmanager
def work_location(
    options: OptionValues, spark: SparkSettings, *, lasting: bool = True
) -> Iterator[Location]:
    """The folder for listings, plans and ledgers.

    Args:
        lasting: a run that can't be gone on with (`--inmemory`) has a folder that goes with it.
    """
    if options["work_location"] is not None:
        yield options["work_location"]
    elif not _is_on_this_machine(spark):
        raise ConfigError(
            "On a cluster, executors and driver share a folder for listings, plans and what was deleted. Nothing was "
            "touched. Give --work-location (or LAKESWEEP_NESSIE_WORK_LOCATION): a place in a store that all of them "
            "reach, and below no table.",
            kind="no-work-location",
        )
    elif lasting:
        yield lasting_location(options)
    else:
        with tempfile.TemporaryDirectory(prefix="lakesweep-nessie-") as folder:
            yield Location.parse(f"file://{Path(folder).resolve()}")


def lasting_location(options: OptionValues, last: str | None = None) -> Location:
    """The folder for what later runs need: the one that is named, else that of the last run, else on this machine."""
    return options["work_location"] or Location.parse(last or f"file://{_state_folder(os.environ)}")


def _is_on_this_machine(spark: SparkSettings) -> bool:
    master = spark.master or spark.conf.get("spark.master") or "local[*]"
    return spark.remote is None and master.startswith("local")


def _state_folder(env: Mapping[str, str]) -> Path:
    home = env.get("XDG_STATE_HOME") or home_folder(env) / ".local/state"
    return Path(home).absolute() / "lakesweep" / "nessie"
