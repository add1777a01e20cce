"""Refs dumps: all commits, branches and tags of a repository, as ranges of their own and a manifest.

lakeFS writes them on `refs/dump` and reads them on `refs/restore`, so a repository can go either way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lakesweep.domain.commits import (
    BranchHead,
    BranchId,
    Commit,
    CommitId,
    MetaRangeId,
    Tag,
    TagId,
)
from lakesweep.errors import FormatError
from lakesweep.formats.commit_columns import CommitColumns
from lakesweep.formats.metaranges import read_metarange, write_metarange
from lakesweep.formats.proto import (
    Message,
    bytes_field,
    decode_timestamp,
    encode_timestamp,
    int_field,
    map_field,
    text_field,
)
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.ranges import open_range
from lakesweep.formats.refs_schemas import SCHEMA_DEFINITIONS
from lakesweep.formats.sstable import Records
from lakesweep.formats.values import join_value, split_value
from lakesweep.json_text import parse_json

__all__ = [
    "MANIFEST_KEY",
    "DumpedRefs",
    "RefsDump",
    "RefsManifest",
    "WrittenRefsDump",
    "commit_files",
    "decode_commit",
    "dump_files",
    "read_commit_columns",
    "read_dumped_refs",
    "read_refs_dump",
    "write_refs_dump",
]

MANIFEST_KEY = "_lakefs/refs_manifest.json"
_FOLDER = "_lakefs/"


@dataclass(frozen=True, slots=True)
class RefsDump:
    """A repository's references. Branches of a real server's dump carry no staging tokens."""

    commits: list[Commit]
    branches: list[BranchHead]
    tags: list[Tag]


@dataclass(frozen=True, slots=True, eq=False)
class DumpedRefs:
    """What a collector reads of a dump: there may be a million commits, so they come in columns."""

    commits: CommitColumns
    branches: list[BranchHead]
    tags: list[Tag]


@dataclass(frozen=True, slots=True)
class RefsManifest:
    """The three metaranges of a dump, by what they list."""

    commits_meta_range_id: MetaRangeId
    tags_meta_range_id: MetaRangeId
    branches_meta_range_id: MetaRangeId

    def encode(self) -> bytes:
        """The manifest file."""
        ids = {name: getattr(self, name) for name in sorted(self.__slots__)}
        return json.dumps(ids, indent=2).encode()

    @classmethod
    def decode(cls, data: bytes) -> RefsManifest:
        """The manifest in a file. Raises FormatError."""
        try:
            ids = parse_json(data)
            values = [ids[name] for name in cls.__slots__]
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(
                f"refs_manifest.json can't be read: {error!r}", kind="bad-manifest"
            ) from error
        if not all(isinstance(value, str) for value in values):
            raise FormatError(
                f"refs_manifest.json holds ids that are not text: {values}", kind="bad-manifest"
            )
        return cls(*(MetaRangeId(value) for value in values))


@dataclass(frozen=True, slots=True)
class WrittenRefsDump:
    """Files of a dump as (key relative to the storage namespace, bytes); write the manifest last."""

    files: list[tuple[str, bytes]]
    manifest: RefsManifest


def read_refs_dump(read: Callable[[str], bytes], manifest: bytes | RefsManifest) -> RefsDump:
    """Read a dump through `read(key relative to the storage namespace)`. Raises FormatError for damaged files."""
    ids = manifest if isinstance(manifest, RefsManifest) else RefsManifest.decode(manifest)
    commits = _read_entity(read, ids.commits_meta_range_id, "commit")
    found = [decode_commit(value) for records in commits for _, value in records]
    return RefsDump(found, _read_branches(read, ids), _read_tags(read, ids))


def read_dumped_refs(read: Callable[[str], bytes], manifest: RefsManifest) -> DumpedRefs:
    """What a collector needs of a dump. Reads and raises as `read_refs_dump`."""
    commits = _read_entity(read, manifest.commits_meta_range_id, "commit")
    return DumpedRefs(
        CommitColumns.joined([CommitColumns.of_commits([]), *map(read_commit_columns, commits)]),
        _read_branches(read, manifest),
        _read_tags(read, manifest),
    )


def read_commit_columns(records: Records) -> CommitColumns:
    """The commits of one file of a dump."""
    scanned = CommitColumns.of_records(records)
    if scanned is not None:
        return scanned
    # Says what is wrong, or reads what a later lakeFS may write.
    return CommitColumns.of_commits(decode_commit(value) for _, value in records)


def write_refs_dump(dump: RefsDump) -> WrittenRefsDump:
    """The files that a lakeFS server restores from, and their manifest."""
    files: list[tuple[str, bytes]] = []
    commits = _write_entity(
        files, "commit", ((c.id, c.id, _encode_commit(c)) for c in dump.commits)
    )
    branches = _write_entity(
        files, "branch", ((b.id, b.commit_id, _encode_branch(b)) for b in dump.branches)
    )
    tags = _write_entity(files, "tag", ((t.id, t.commit_id, _encode_tag(t)) for t in dump.tags))
    return WrittenRefsDump(files, RefsManifest(commits, tags, branches))


def _read_entity(
    read: Callable[[str], bytes], metarange_id: MetaRangeId, entity: str
) -> Iterator[Records]:
    """The records of each range of a dump's commits, branches or tags."""
    for info in read_metarange(read(_FOLDER + metarange_id), entity=entity.encode()):
        data = read(_FOLDER + info.id)
        yield open_range(data, expected_count=info.count, entity=entity.encode()).records()


def _read_branches(read: Callable[[str], bytes], manifest: RefsManifest) -> list[BranchHead]:
    parts = _read_entity(read, manifest.branches_meta_range_id, "branch")
    return [_decode_branch(split_value(value)[1]) for records in parts for _, value in records]


def _read_tags(read: Callable[[str], bytes], manifest: RefsManifest) -> list[Tag]:
    parts = _read_entity(read, manifest.tags_meta_range_id, "tag")
    return [_decode_tag(split_value(value)[1]) for records in parts for _, value in records]


def commit_files(read: Callable[[str], bytes], ids: RefsManifest) -> list[str]:
    """Keys of the files that hold a dump's commits."""
    return _files(read, ids.commits_meta_range_id, b"commit")


def dump_files(read: Callable[[str], bytes], ids: RefsManifest) -> list[str]:
    """Keys of the files that hold a dump's commits, branches and tags."""
    others = (ids.branches_meta_range_id, b"branch"), (ids.tags_meta_range_id, b"tag")
    return [*commit_files(read, ids), *(key for some in others for key in _files(read, *some))]


def _files(read: Callable[[str], bytes], metarange_id: MetaRangeId, entity: bytes) -> list[str]:
    key = _FOLDER + metarange_id
    return [key, *(_FOLDER + info.id for info in read_metarange(read(key), entity=entity))]


def _write_entity(
    files: list[tuple[str, bytes]], entity: str, rows: Iterable[tuple[str, CommitId, bytes]]
) -> MetaRangeId:
    properties = {
        "entity": entity,
        "schema_name": f"io.treeverse.lakefs.graveler.{entity.capitalize()}Data",
        "schema_definition": SCHEMA_DEFINITIONS[entity],
    }
    records = sorted(
        (key.encode(), join_value(commit.encode(), data)) for key, commit, data in rows
    )
    ranges = []
    for written in write_ranges(records, properties=properties):
        files.append((_FOLDER + written.id, written.data))
        ranges.append(written)
    metarange_id, data = write_metarange(ranges, properties=properties)
    files.append((_FOLDER + metarange_id, data))
    return metarange_id


def _encode_commit(commit: Commit) -> bytes:
    return (
        text_field(1, commit.id)
        + text_field(2, commit.committer)
        + text_field(3, commit.message)
        + bytes_field(4, encode_timestamp(commit.creation_date))
        + text_field(5, commit.meta_range_id)
        + map_field(6, commit.metadata)
        + b"".join(bytes_field(7, parent.encode()) for parent in commit.parents)
        + int_field(8, commit.version)
        + int_field(9, commit.generation)
    )


def decode_commit(value: bytes) -> Commit:
    """The commit in a record's value, whole."""
    message = Message(split_value(value)[1], "CommitData")
    return Commit(
        id=CommitId(message.text(1)),
        committer=message.text(2),
        message=message.text(3),
        creation_date=decode_timestamp(message.raw(4))[0],
        meta_range_id=MetaRangeId(message.text(5)),
        parents=tuple(CommitId(parent) for parent in message.texts(7)),
        metadata=message.text_map(6),
        version=message.int32(8),
        generation=message.int32(9),
    )


def _encode_branch(branch: BranchHead) -> bytes:
    # A server that restores a branch gives it a staging token of its own, so none is written.
    return text_field(1, branch.id) + text_field(2, branch.commit_id) + int_field(5, branch.hidden)


def _decode_branch(data: bytes) -> BranchHead:
    message = Message(data, "BranchData")
    return BranchHead(
        id=BranchId(message.text(1)),
        commit_id=CommitId(message.text(2)),
        staging_token=message.text(3),
        sealed_tokens=message.texts(4),
        hidden=message.int64(5) != 0,
    )


def _encode_tag(tag: Tag) -> bytes:
    return text_field(1, tag.id) + text_field(2, tag.commit_id)


def _decode_tag(data: bytes) -> Tag:
    message = Message(data, "TagData")
    return Tag(TagId(message.text(1)), CommitId(message.text(2)))
