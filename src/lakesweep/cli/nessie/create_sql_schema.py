"""`lakesweep nessie create-sql-schema`: make the tables of live sets."""

from __future__ import annotations

import dataclasses

from lakesweep.cli.nessie.live_sets import chosen_database, opened_live_sets
from lakesweep.cli.nessie.options import nessie_command
from lakesweep.cli.render import print_result
from lakesweep.settings.nessie_values import OptionValues
from lakesweep.settings.values import Settings

__all__ = ["create_sql_schema"]


@nessie_command("jdbc")
def create_sql_schema(*, options: OptionValues, settings: Settings) -> None:
    """Make the tables of live sets.

    They are nessie-gc's own, and one beside them for what those have no column for. --jdbc-schema says how
    [default here: CREATE, which fails where they exist].
    """
    from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy

    database = chosen_database(options, may_drop=True)
    assert database is not None  # there is no --inmemory here
    strategy = SchemaStrategy[database.schema or "CREATE"]
    with opened_live_sets(dataclasses.replace(database, schema=None)) as live_sets:
        statements = live_sets.create_schema(strategy)
    document = {"schema": "lakesweep.nessie-schema/1", "strategy": strategy.value}
    lines = [f"{statement.strip().rstrip(';')};\n" for statement in statements]
    lines.append("Done." if statements else "All tables are there already.")
    print_result(settings.output, {**document, "statements": statements}, lines)
