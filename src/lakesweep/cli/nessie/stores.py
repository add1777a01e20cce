"""Which live sets, and which of them: the groups that nessie-gc wants exactly one of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lakesweep.cli.nessie.given import Given
from lakesweep.cli.nessie.parsing import count
from lakesweep.domain.live_sets import LiveSetId, parse_live_set_id
from lakesweep.errors import ConfigError

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore

__all__ = ["Database", "chosen_database", "named_live_set", "opened_live_sets"]

_STRATEGIES = ("CREATE", "DROP_AND_CREATE", "CREATE_IF_NOT_EXISTS")


@dataclass(frozen=True, slots=True)
class Database:
    """A database of live sets and how it is reached."""

    url: str = field(repr=False)  # may hold a password
    user: str | None
    password: str | None = field(repr=False)
    properties: dict[str, str] = field(repr=False)
    fetch_size: int
    pool_size: int
    schema: str | None  # one of _STRATEGIES


def chosen_database(
    given: Given, *, may_be_in_memory: bool = False, may_drop: bool = False
) -> Database | None:
    """The database, or None for live sets in memory.

    Raises:
        ConfigError: none or both are chosen on the command line, or this command works with a database only.
    """
    in_memory, jdbc = given.chosen("storage"), given.chosen("jdbc")
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
        from_env = given.is_given("jdbc_url")
        raise ConfigError(
            "Where are the live sets? "
            + ("NESSIE_GC_JDBC_URL counts once --jdbc is given" if from_env else "Give --jdbc-url")
            + (", or --inmemory. " if may_be_in_memory else ". ")
            + "Nothing was touched.",
            kind="no-store",
        )
    return _database(given, may_drop)


def _database(given: Given, may_drop: bool) -> Database:
    url = given.text("jdbc_url")
    if not url:
        raise ConfigError(
            "Which database? Give --jdbc-url or NESSIE_GC_JDBC_URL. Nothing was touched.",
            kind="no-jdbc-url",
        )
    schema = given.read("jdbc_schema", _strategy)
    if schema == "DROP_AND_CREATE" and not may_drop:
        raise ConfigError(
            f"{given.where('jdbc_schema')} DROP_AND_CREATE would drop the live sets that this command is to work on. "
            "Nothing was touched. `lakesweep nessie create-sql-schema` drops and makes the tables.",
            kind="would-drop",
        )
    return Database(
        url=url,
        user=given.text("jdbc_user"),
        password=given.text("jdbc_password"),
        properties=given.pairs("jdbc_properties"),
        fetch_size=given.must_read("jdbc_fetch_size", count(1)),
        pool_size=max(2, given.must_read("jdbc_pool_max_size", count(1))),
        schema=schema,
    )


def named_live_set(given: Given) -> LiveSetId:
    """The live set that the command line names, by its id or by the file that holds it.

    Raises:
        ConfigError: none or both are given, or what is given is no id.
    """
    chosen = given.chosen("id")
    if len(chosen) != 1:
        raise ConfigError(
            "Which live set? Give "
            + ("one of " if chosen else "")
            + "--live-set-id or --read-live-set-id-from"
            + (", not both. " if chosen else " on the command line. ")
            + "Nothing was touched.",
            kind="no-live-set-id",
        )
    file = given.text("read_live_set_id_from")
    if file is None:
        return given.must_read("live_set_id", parse_live_set_id)
    return _id_in(Path(file))


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
    try:
        return parse_live_set_id(lines[0])
    except ConfigError as error:
        raise ConfigError(
            f"{file}: {error.message} Nothing was touched.", kind=error.kind
        ) from None


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
    with open_live_sets(
        database.url,
        user=database.user,
        password=database.password,
        properties=database.properties,
        pool_size=database.pool_size,
        fetch_size=database.fetch_size,
    ) as store:
        if database.schema is not None:
            store.create_schema(SchemaStrategy[database.schema])
        yield store


def _strategy(text: str) -> str:
    if text not in _STRATEGIES:
        raise ConfigError(f"{text!r} is none of {', '.join(_STRATEGIES)}.", kind="bad-schema")
    return text
