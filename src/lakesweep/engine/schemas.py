"""Arrow schemas as Spark reads them."""

from __future__ import annotations

import pyarrow as pa

_SPARK_TYPES = {
    pa.int8(): "tinyint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.list_(pa.string()): "array<string>",
}


def spark_ddl(schema: pa.Schema) -> str:
    """The schema in Spark's DDL, for the few types that work functions return."""
    return ", ".join(f"`{field.name}` {_SPARK_TYPES[field.type]}" for field in schema)
