"""Where live sets are kept, and which one is meant: options of which nessie-gc wants exactly one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakesweep.domain.live_sets import LiveSetId, parse_live_set_id
from lakesweep.errors import ConfigError
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.resolve import errors_naming

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore

__all__ = ["Database", "chosen_database", "named_live_set", "opened_live_sets"]


@dataclass(frozen=True, slots=True)
class Database:
    """A database of live sets and how it is reached."""

    connection: Mapping[str, Any] = field(repr=False)  # for `open_live_sets`; holds a password
    schema: str | None  # the name of a SchemaStrategy


def chosen_database(
    options: OptionValues, *, may_be_in_memory: bool = False, may_drop: bool = False
) -> Database | None:
    """The database, or None for live sets in memory.

    Raises:
        ConfigError: none or both are chosen on the command line, or this command works with a database only.
    """
    in_memory, jdbc = options.flags_in("inmemory"), options.flags_in("jdbc")
    if in_memory and jdbc:
        raise ConfigError(
            f"--inmemory and {jdbc[0]} exclude each other. Nothing was touched. Leave one out.",
            kind="two-stores",
        )
    if in_memory and not may_be_in_memory:
        raise ConfigError(
            "--inmemory leaves nothing for another command to work on, so only `gc` without --defer-deletes takes it. "
            "Nothing was touched. Give --jdbc-url.",
            kind="in-memory",
        )
    if in_memory:
        return None
    if not jdbc:
        from_env = options.is_given("jdbc_url")
        raise ConfigError(
            "Where are the live sets? "
            + ("NESSIE_GC_JDBC_URL counts once --jdbc is given" if from_env else "Give --jdbc-url")
            + (", or --inmemory. " if may_be_in_memory else ". ")
            + "Nothing was touched.",
            kind="no-store",
        )
    return _database(options, may_drop)


def _database(options: OptionValues, may_drop: bool) -> Database:
    if not options["jdbc_url"]:
        raise ConfigError(
            "Which database? Give --jdbc-url or NESSIE_GC_JDBC_URL. Nothing was touched.",
            kind="no-jdbc-url",
        )
    schema = options["jdbc_schema"]
    if schema == "DROP_AND_CREATE" and not may_drop:
        raise ConfigError(
            f"{options.where('jdbc_schema')} DROP_AND_CREATE would drop the live sets that this command is to work on. "
            "Nothing was touched. `lakesweep nessie create-sql-schema` drops and makes the tables.",
            kind="would-drop",
        )
    names = ("url", "user", "password", "properties", "fetch_size")
    connection = {name: options[f"jdbc_{name}"] for name in names}
    return Database(connection | {"pool_size": max(2, options["jdbc_pool_max_size"])}, schema)


def named_live_set(options: OptionValues) -> LiveSetId:
    """The live set that the command line names, by its id or by the file that holds it.

    Raises:
        ConfigError: none or both are given, or what is given is no id.
    """
    chosen = options.flags_in("id")
    if len(chosen) != 1:
        raise ConfigError(
            "Which live set? Give "
            + ("one of " if chosen else "")
            + "--live-set-id or --read-live-set-id-from"
            + (", not both. " if chosen else " on the command line. ")
            + "Nothing was touched.",
            kind="no-live-set-id",
        )
    file = options["read_live_set_id_from"]
    return _id_in(Path(file)) if file is not None else options["live_set_id"]


def _id_in(file: Path) -> LiveSetId:
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"The live set's id can't be read from {file}: {error}. Nothing was touched.",
            kind="no-live-set-id",
        ) from error
    if not lines or not lines[0].strip():
        raise ConfigError(
            f"{file} is empty: the mark that was to write its live set's id did not come to its end. "
            "Nothing was touched. Mark again.",
            kind="no-live-set-id",
        )
    with errors_naming(str(file)):
        return parse_live_set_id(lines[0])


@contextmanager
def opened_live_sets(database: Database | None) -> Iterator[LiveSetStore]:
    """The live sets, closed with the block; their tables are made first where `--jdbc-schema` asks for it."""
    from lakesweep.catalogs.nessie.live_sets.memory import InMemoryLiveSets
    from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
    from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy

    if database is None:
        with InMemoryLiveSets() as in_memory:
            yield in_memory
        return
    with open_live_sets(**database.connection) as store:
        if database.schema is not None:
            store.create_schema(SchemaStrategy[database.schema])
        yield store
