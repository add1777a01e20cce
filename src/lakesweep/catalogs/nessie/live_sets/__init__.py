"""Where live sets are kept: in memory, or in a database in nessie-gc's own tables.

SQLAlchemy is loaded when a database is opened, so that everything else works without it.
"""

from lakesweep.catalogs.nessie.live_sets.memory import InMemoryLiveSets
from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy, schema_script
from lakesweep.catalogs.nessie.live_sets.store import (
    DistinctContent,
    LiveSetStore,
)

__all__ = [
    "DistinctContent",
    "InMemoryLiveSets",
    "LiveSetStore",
    "SchemaStrategy",
    "open_live_sets",
    "schema_script",
]
