"""What a run that touches the lake works with: Spark, the stores, and a folder of our own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lakesweep.cli.nessie.given import Given
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError

if TYPE_CHECKING:
    from lakesweep.settings.iceberg_options import FileAccess
    from lakesweep.settings.values import Settings, SparkSettings

__all__ = ["file_access", "lasting_location", "refuse_disabled_deletes", "work_location"]


def file_access(given: Given, settings: Settings) -> tuple[Settings, FileAccess]:
    """The settings with what `--iceberg` and `--hadoop` say of the stores."""
    from lakesweep.settings.iceberg_options import read_file_access, with_file_access

    access = read_file_access(given.pairs("iceberg"), given.pairs("hadoop"))
    return with_file_access(settings, access), access


def refuse_disabled_deletes(access: FileAccess) -> None:
    """`s3.delete-enabled=false` lets Iceberg say "deleted" and keep the file; here the run is not begun."""
    if not access.may_delete:
        raise ConfigError(
            "--iceberg s3.delete-enabled=false forbids deletes, and this command is to delete. Nothing was touched. "
            "Use --defer-deletes to record what would go, or leave the property out.",
            kind="deletes-disabled",
        )


@contextmanager
def work_location(
    given: Given, spark: SparkSettings, *, lasting: bool = True
) -> Iterator[Location]:
    """The folder for listings, plans and ledgers.

    Args:
        lasting: a run that can't be gone on with (`--inmemory`) has a folder that goes with it.
    """
    wanted = given.read("work_location", Location.parse)
    if wanted is not None:
        yield wanted
    elif not _is_on_this_machine(spark):
        raise ConfigError(
            "On a cluster, executors and driver share a folder for listings, plans and what was deleted. Nothing was "
            "touched. Give --work-location (or LAKESWEEP_NESSIE_WORK_LOCATION): a place in a store that all of them "
            "reach, and below no table.",
            kind="no-work-location",
        )
    elif lasting:
        yield Location.parse(f"file://{_state_folder(os.environ)}")
    else:
        with tempfile.TemporaryDirectory(prefix="lakesweep-nessie-") as folder:
            yield Location.parse(f"file://{Path(folder).resolve()}")


def lasting_location(given: Given, last: str | None = None) -> Location:
    """The folder for what later runs need: the one that is named, else that of the last run, else on this machine."""
    default = last or f"file://{_state_folder(os.environ)}"
    return given.read("work_location", Location.parse) or Location.parse(default)


def _is_on_this_machine(spark: SparkSettings) -> bool:
    master = spark.master or spark.conf.get("spark.master") or "local[*]"
    return spark.remote is None and master.startswith("local")


def _state_folder(env: Mapping[str, str]) -> Path:
    home = env.get("XDG_STATE_HOME") or os.path.join(env.get("HOME") or Path.home(), ".local/state")
    return Path(home).absolute() / "lakesweep" / "nessie"
