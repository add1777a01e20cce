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
}


def spark_ddl(schema: pa.Schema) -> str:
    """The schema in Spark's DDL, for the few types that work functions return."""
    return ", ".join(f"`{field.name}` {_spark_type(field.type)}" for field in schema)


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'`{f.name}`: {_spark_type(f.type)}' for f in kind)}>"
    return _SPARK_TYPES[kind]
