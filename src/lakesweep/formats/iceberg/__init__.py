"""Iceberg's files, read for one question: which files does a table or view still need? Versions 1, 2 and 3."""

from lakesweep.formats.iceberg.manifests import (
    ManifestFiles,
    ManifestList,
    Promised,
    read_manifest,
    read_manifest_list,
)
from lakesweep.formats.iceberg.metadata import (
    MetadataFiles,
    SnapshotFiles,
    TableMetadata,
    ViewMetadata,
    files_of,
    read_table_metadata,
    read_view_metadata,
)

__all__ = [
    "ManifestFiles",
    "ManifestList",
    "MetadataFiles",
    "Promised",
    "SnapshotFiles",
    "TableMetadata",
    "ViewMetadata",
    "files_of",
    "read_manifest",
    "read_manifest_list",
    "read_table_metadata",
    "read_view_metadata",
]
