"""The values that go in and out of the embedded lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from lakesweep.domain.commits import BranchHead, Commit, CommitId, MetaRangeId

if TYPE_CHECKING:
    from lakesweep.storage import StorageOptions

T = TypeVar("T")

Clock = Callable[[], datetime]
"""Gives the time now, in UTC."""

PathType = Literal["object", "common_prefix"]
DiffType = Literal["added", "removed", "changed", "conflict", "prefix_changed"]
DiffMode = Literal["two_dot", "three_dot"]
ResetType = Literal["reset", "object", "common_prefix"]
MergeStrategy = Literal["", "dest-wins", "source-wins"]
MAX_PAGE = 1000
NO_METADATA: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """How one server process behaves. Processes that share a ref store should share these."""

    data_dir: Path
    """Folder under which `local://NAME` namespaces live."""
    storage: StorageOptions | None = None
    """How to reach the stores; None leaves it to the environment."""
    slice_max_age: timedelta = timedelta(hours=1)
    slice_max_size: int = 50_000
    token_life: timedelta = timedelta(hours=24)
    """How long an issued physical address may be linked; also the grace period told to collectors."""
    copy_life: timedelta = timedelta(days=14)
    """How long a shallow copy stays tracked; no collection may take longer."""
    claim_life: timedelta = timedelta(hours=1)
    """How long after its claim an upload whose server died stays protected."""
    dropped_token_life: timedelta = timedelta(hours=1)
    """How long a staging token stays readable after its branch let go of it, for readers still at it."""
    prepare_max_file_bytes: int = 20 * 1024 * 1024
    prepare_interval: timedelta = timedelta(minutes=1)
    is_default_branch_protected: bool = True
    key_file: Path | None = None
    """The file under which secrets in the ref store are encrypted; None for one in `data_dir`."""
    allow_namespaces: tuple[str, ...] = ()
    """URI prefixes at which repositories may lie, beside folders in `data_dir`. `mem://` is for tests: it forgets."""
    allow_imports: tuple[str, ...] = ()
    """URI prefixes that users may stage and import from; the server reads there with its own rights."""
    hard_delete: bool = False
    """Whether objects are deleted for good soon after their last reference, where a repository does not say otherwise."""
    delete_grace: timedelta = timedelta(minutes=1)
    """How long a dropped object stays at least, for readers that are at it."""
    undo_window: timedelta = timedelta(0)
    """How long an object that was deleted for good can be brought back."""
    presigned_store: str = ""
    """The kind of store (s3, gs, azure) that clients get presigned URLs of; empty makes none."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository. `instance_uid` tells it from an earlier one of the same name."""

    id: str
    storage_namespace: str
    default_branch: str
    creation_date: datetime
    instance_uid: str
    is_read_only: bool = False
    is_in_deletion: bool = False
    storage_id: str = ""
    hard_delete: bool | None = None
    """Whether objects are deleted for good soon after their last reference; None leaves it to the server's setting."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of a list. `next_offset` is what to pass as `after`, and empty when there is no more."""

    results: tuple[T, ...]
    has_more: bool = False
    next_offset: str = ""


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """What a ref expression means: a commit and, for a plain branch name, the branch with its staging area."""

    commit_id: CommitId
    branch: BranchHead | None = None


@dataclass(frozen=True, slots=True)
class ObjectStats:
    """An entry as clients see it. A common prefix has only `path` and `path_type`."""

    path: str
    path_type: PathType = "object"
    physical_address: str = ""
    checksum: str = ""
    size_bytes: int = 0
    mtime: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes asked for: `first`..`last` inclusive (`last` None = to the end), or the last `suffix` bytes."""

    first: int = 0
    last: int | None = None
    suffix: int | None = None


@dataclass(frozen=True, slots=True)
class ObjectContent:
    """An open object: its entry, which bytes of it these are, and the bytes."""

    stats: ObjectStats
    start: int
    length: int
    is_partial: bool
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class PathError:
    """Why one path of a batch was not deleted."""

    path: str
    error: Exception


@dataclass(frozen=True, slots=True)
class DiffEntry:
    """One difference, seen from the left side."""

    type: DiffType
    path: str
    path_type: PathType = "object"
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MergeBase:
    """The commits a merge would start from."""

    source_commit_id: CommitId
    destination_commit_id: CommitId
    base_commit_id: CommitId


@dataclass(frozen=True, slots=True)
class StagingLocation:
    """An issued address. The token is the part of `physical_address` after its comma."""

    physical_address: str
    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class MultipartUpload:
    """A multipart upload under way."""

    upload_id: str
    branch_id: str
    path: str
    physical_address: str
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PresignedUpload:
    """A multipart upload in the store itself, with URLs of its first parts."""

    upload_id: str
    physical_address: str
    urls: Sequence[str]


@dataclass(frozen=True, slots=True)
class NamedUpload:
    """A presigned upload as a client names it: its id, and what it was begun for."""

    id: str
    branch_id: str
    path: str
    physical_address: str


@dataclass(frozen=True, slots=True)
class UploadedPart:
    """One part of a multipart upload; `etag` is the hex MD5 of its bytes, without quotes."""

    part_number: int
    etag: str
    size_bytes: int = 0
    last_modified: datetime | None = None


@dataclass(frozen=True, slots=True)
class CompletedUpload:
    """A finished multipart upload. `etag` is S3's (`md5-N`), `stats.checksum` the part before the dash."""

    stats: ObjectStats
    etag: str


@dataclass(frozen=True, slots=True)
class ImportSource:
    """What to import, and where to: a prefix (or one object) of any store → a path prefix (or one path)."""

    type: PathType
    path: str
    destination: str


@dataclass(frozen=True, slots=True)
class ImportStatus:
    """How far an import has come."""

    id: str
    completed: bool
    update_time: datetime
    ingested_objects: int = 0
    meta_range_id: MetaRangeId | None = None
    commit: Commit | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedCommits:
    """Where a prepare-commits run left its list of retained commits (full URIs)."""

    run_id: str
    commits_location: str
    addresses_location: str


@dataclass(frozen=True, slots=True)
class PrepareStatus:
    """How far an asynchronous prepare-commits has come."""

    task_id: str
    completed: bool
    update_time: datetime
    result: PreparedCommits | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class UncommittedPage:
    """One page of prepare-uncommitted. `total_rows` is told on the last page, which has no continuation token."""

    run_id: str
    location: str
    rows_written: int
    continuation_token: str | None = None
    total_rows: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """An access key with its secret, which `repr` never shows."""

    access_key_id: str
    secret_access_key: str
    username: str
    creation_date: datetime
    is_read_only: bool = False
    repositories: frozenset[str] | None = None
    """The only repositories that the key reaches; None for all, also those to come."""

    def reaches(self, repository_id: str) -> bool:
        """Whether the key is good for that repository, which may not exist."""
        return self.repositories is None or repository_id in self.repositories

    def __repr__(self) -> str:
        return f"Credentials(access_key_id={self.access_key_id!r}, username={self.username!r})"
