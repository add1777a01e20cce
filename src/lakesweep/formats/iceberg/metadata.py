"""Table and view metadata: where a table lies and which files its snapshots begin with. All other fields are passed over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakesweep.formats.damage import named_damage
from lakesweep.formats.iceberg.documents import Document, metadata_error, read_document

__all__ = [
    "LoggedMetadata",
    "MetadataFiles",
    "SnapshotFiles",
    "TableMetadata",
    "ViewMetadata",
    "files_of",
    "read_table_metadata",
    "read_view_metadata",
]

_NEWEST_TABLE_VERSION = 3
_NEWEST_VIEW_VERSION = 1
# How many files a snapshot has, in its summary.
_TOTALS = ("total-data-files", "total-delete-files")
# Properties by which writers put files elsewhere than below the table's location.
_WRITE_PATHS = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


class SnapshotFiles(NamedTuple):
    """The files that a snapshot names itself: a manifest list, or (version 1 only) manifests one by one."""

    snapshot_id: int
    manifest_list: str | None
    manifests: tuple[str, ...] = ()
    total_files: int | None = None  # data and delete files, where its summary tells


class LoggedMetadata(NamedTuple):
    """An earlier metadata file of a table, and when it was written by its writer's clock (None: nobody says)."""

    path: str
    written_ms: int | None


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """What a table's metadata file says about files."""

    format_version: int
    uuid: str | None
    location: str
    current_snapshot_id: int | None
    snapshots: tuple[SnapshotFiles, ...]
    statistics: tuple[str, ...]  # statistics files of all listed snapshots, those of partitions too
    metadata_log: tuple[LoggedMetadata, ...]
    write_paths: tuple[str, ...] = ()  # folders that its properties send writers to
    refs: frozenset[int] = frozenset()  # snapshots that the table's own branches and tags name

    def snapshot(self, snapshot_id: int) -> SnapshotFiles | None:
        """The snapshot of this id, if the metadata lists it."""
        return next((one for one in self.snapshots if one.snapshot_id == snapshot_id), None)


@dataclass(frozen=True, slots=True)
class ViewMetadata:
    """What a view's metadata file says: a view has no files but that one."""

    uuid: str | None
    location: str


@dataclass(frozen=True, slots=True)
class MetadataFiles:
    """Live files named by the metadata itself. The metadata file is live too; lists and manifests name further ones."""

    snapshots: tuple[SnapshotFiles, ...] = ()
    is_doubtful: bool = False  # a snapshot that was asked for is not listed, so all that are count


def read_table_metadata(data: bytes, what: str) -> TableMetadata:
    """Read a table's `metadata.json`, gzipped or not.

    Args:
        data: the whole file.
        what: the file's name for messages.

    Raises:
        FormatError: damage, a version that is not known, or a shape that is not as specified.
    """
    with named_damage(what):
        document = read_document(data)
        version = document.number("format-version")
        if not 1 <= version <= _NEWEST_TABLE_VERSION:
            raise metadata_error(f"its format version {version} is not known")
        if "view-uuid" in document or "last-column-id" not in document:
            raise metadata_error("it is not the metadata of a table")
        current = document.number_or_none("current-snapshot-id")
        write_paths = document.texts_by_name("properties", _WRITE_PATHS).values()
        return TableMetadata(
            format_version=version,
            uuid=document.text("table-uuid")
            if version > 1
            else document.text_or_none("table-uuid"),
            location=document.text("location"),
            current_snapshot_id=None if current == -1 else current,
            snapshots=_snapshots(document),
            statistics=tuple(
                one.text("statistics-path")
                for field in ("statistics", "partition-statistics")
                for one in document.documents(field)
            ),
            metadata_log=tuple(
                LoggedMetadata(one.text("metadata-file"), one.number_or_none("timestamp-ms"))
                for one in document.documents("metadata-log")
            ),
            write_paths=tuple(dict.fromkeys(path for path in write_paths if path)),
            refs=frozenset(
                one.number("snapshot-id") for one in document.documents_by_name("refs").values()
            ),
        )


def read_view_metadata(data: bytes, what: str) -> ViewMetadata:
    """What a view's metadata file says. Damage of any kind is a `FormatError`."""
    with named_damage(what):
        document = read_document(data)
        version = document.number("format-version")
        if not 1 <= version <= _NEWEST_VIEW_VERSION:
            raise metadata_error(f"its format version {version} is not known for views")
        # Dremio writes views as a draft of the specification had them, without an id.
        if "last-column-id" in document or "versions" not in document:
            raise metadata_error("it is not the metadata of a view")
        return ViewMetadata(document.text_or_none("view-uuid"), document.text("location"))


def files_of(
    metadata: TableMetadata, snapshot_id: int, *, all_snapshots: bool = False
) -> MetadataFiles:
    """The files of the snapshots that are live. Statistics files are live whatever snapshot they are of.

    Live are the snapshot that the catalog names, the metadata's current one, and those of the table's own branches and
    tags, since readers ask for any of them. Where one of the first two is not listed, nobody knows which snapshot is
    meant, and every listed one is live.

    Args:
        metadata: what the referenced metadata file says.
        snapshot_id: the snapshot that the catalog names; below 0 means the metadata's current one.
        all_snapshots: take every snapshot.

    Raises:
        FormatError: the current snapshot is asked for and the metadata does not list it.
    """
    current = metadata.current_snapshot_id
    if snapshot_id < 0 and current is not None and metadata.snapshot(current) is None:
        raise metadata_error(
            f"metadata of the table at {metadata.location} does not list its current snapshot "
            f"{current}; nothing was deleted. Repair the table, or give up its content."
        )
    named = current if snapshot_id < 0 else snapshot_id
    wanted = {named, current} if current is not None else {named}
    listed = {one.snapshot_id for one in metadata.snapshots}
    is_doubtful = bool(listed) and not wanted <= listed
    if all_snapshots or is_doubtful:
        return MetadataFiles(metadata.snapshots, is_doubtful)
    wanted |= metadata.refs
    return MetadataFiles(tuple(one for one in metadata.snapshots if one.snapshot_id in wanted))


def _snapshots(document: Document) -> tuple[SnapshotFiles, ...]:
    snapshots = tuple(_snapshot(one) for one in document.documents("snapshots"))
    if len({one.snapshot_id for one in snapshots}) != len(snapshots):
        raise metadata_error("it lists two snapshots of one id")
    return snapshots


def _snapshot(document: Document) -> SnapshotFiles:
    snapshot_id = document.number("snapshot-id")
    manifest_list = document.text_or_none("manifest-list")
    summary = document.texts_by_name("summary", _TOTALS)
    totals = [int(count) for count in summary.values() if count.isdecimal()]
    total = sum(totals) if totals else None
    if manifest_list is not None:
        # As Iceberg does: a list, where there is one, is all that counts.
        return SnapshotFiles(snapshot_id, manifest_list, (), total)
    if "manifests" not in document:
        raise metadata_error(f"its snapshot {snapshot_id} names no manifests")
    return SnapshotFiles(snapshot_id, None, tuple(document.texts("manifests")), total)
