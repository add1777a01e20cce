"""A user of pyiceberg whose tables live in a Nessie catalog that pyiceberg itself need not know.

Each change is made in a catalog in memory that forgets it; Nessie is then told of the new metadata file.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record, TableVersion
from pyiceberg.types import IntegerType, ListType, NestedField, StructType

from lakesweep_testing.nessie_contents import Key, table
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.table_places import TablePlace

__all__ = ["PyIcebergUser", "rest_catalog"]


@dataclass(frozen=True, slots=True)
class PyIcebergUser:
    """Makes, opens and commits tables that lie in one place."""

    place: TablePlace
    nessie: NessieWriter

    def create(
        self, schema: pa.Schema, location: str, properties: Mapping[str, str] | None = None
    ) -> Table:
        """A table that Nessie has not heard of yet."""
        return self._catalog().create_table(
            "work.t", schema, location, properties=dict(properties or {})
        )

    def open(self, metadata_location: str) -> Table:
        """A table as one of its metadata files has it; what is written to it builds on that."""
        return self._catalog().register_table("work.t", metadata_location)

    def commit(self, branch: str, key: Key, found: Table) -> str:
        """Let Nessie point to a table as it is now; gives the new commit."""
        snapshot = found.current_snapshot()
        snapshot_id = snapshot.snapshot_id if snapshot else -1
        return self.nessie.commit(branch, {key: table(found.metadata_location, snapshot_id)})

    def delete_where_equal(self, found: Table, column: str, values: Sequence[int]) -> str:
        """Delete rows by an equality delete file, which pyiceberg itself neither writes nor reads; gives its path."""
        field = found.schema().find_field(column)
        ids = {"PARQUET:field_id": str(field.field_id)}
        written = io.BytesIO()
        rows = pa.table({column: values}, pa.schema([pa.field(column, pa.int64(), True, ids)]))
        pq.write_table(rows, written)
        path = f"{found.location()}/data/{uuid.uuid4()}-equality-deletes.parquet"
        self.place.write(path, written.getvalue())
        deletes = DataFile.from_args(
            content=DataFileContent.EQUALITY_DELETES,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=len(values),
            file_size_in_bytes=len(written.getvalue()),
            equality_ids=[field.field_id],
        )
        deletes.spec_id = 0
        with (
            found.transaction() as transaction,
            _AppendDeletes(Operation.DELETE, transaction, found.io) as append,
        ):
            append.append_data_file(deletes)
        return path

    def _catalog(self) -> SqlCatalog:
        memory = {"uri": "sqlite:///:memory:", "warehouse": self.place.root}
        catalog = SqlCatalog(str(uuid.uuid4()), **memory, **self.place.properties)
        catalog.create_namespace("work")
        return catalog


def rest_catalog(uri: str, properties: Mapping[str, str]) -> Callable[[str], Catalog]:
    """Nessie's own Iceberg REST catalog, by branch; there the server writes the metadata."""
    return lambda branch: load_catalog("nessie", type="rest", uri=f"{uri}{branch}", **properties)


class _DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def _with_partition(self, format_version: TableVersion) -> Schema:
        # Field ids are ints by the specification; pyiceberg writes longs, which Iceberg's own reader refuses.
        ids = ListType(element_id=136, element_type=IntegerType(), element_required=True)
        fields = super()._with_partition(format_version).fields
        return Schema(*(_with_equality_ids(field, ids) for field in fields))


class _AppendDeletes(_FastAppendFiles):
    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        return _DeleteManifestWriter(
            spec, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
        )


def _with_equality_ids(field: NestedField, ids: ListType) -> NestedField:
    if field.name == "equality_ids":
        return field.model_copy(update={"field_type": ids})
    if isinstance(field.field_type, StructType):
        inner = StructType(*(_with_equality_ids(below, ids) for below in field.field_type.fields))
        return field.model_copy(update={"field_type": inner})
    return field
