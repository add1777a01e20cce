"""The JSON that a lakeFS server answers, validated where it comes in.

Strict on purpose: a field that decides what is live has no default that could mean "nothing". Fields that we do not use
are ignored, so that newer servers keep working.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Generic, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lakesweep.catalogs.lakefs.values import Repository
from lakesweep.domain.commits import BranchId, Commit, CommitId, MetaRangeId
from lakesweep.domain.durations import time_of_second

__all__ = [
    "AddressHolderWire",
    "AddressHoldersWire",
    "BranchRuleWire",
    "CommitWire",
    "ConfigWire",
    "DiffWire",
    "ErrorWire",
    "ExactCommitWire",
    "GcConfigWire",
    "GcRulesWire",
    "HardDeleteSettingWire",
    "HardDeleteWire",
    "HardDeletesWire",
    "HeadMoveListWire",
    "HeadMoveWire",
    "ObjectStatsWire",
    "PageWire",
    "PaginationWire",
    "PrepareCommitsWire",
    "PrepareTaskStatusWire",
    "PrepareUncommittedWire",
    "RefWire",
    "RefsDumpWire",
    "RepositoryWire",
    "StorageConfigWire",
    "TaskWire",
]

NonEmpty = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Item = TypeVar("Item")


class _Wire(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class ErrorWire(_Wire):
    """The body of every refusal."""

    message: str


class RepositoryWire(_Wire):
    """A repository and where its objects lie."""

    id: NonEmpty
    storage_namespace: NonEmpty
    default_branch: NonEmpty
    creation_date: int
    storage_id: str = ""
    read_only: bool = False

    def to_repository(self) -> Repository:
        """The repository as a value of the domain."""
        return Repository(
            id=self.id,
            storage_namespace=self.storage_namespace,
            default_branch=BranchId(self.default_branch),
            creation_date=datetime.fromtimestamp(self.creation_date, UTC),
            storage_id=self.storage_id,
            read_only=self.read_only,
        )


class StorageConfigWire(_Wire):
    """One object store behind the server."""

    blockstore_type: NonEmpty
    blockstore_id: str = ""


class VersionConfigWire(_Wire):
    """Which server this is."""

    version: str = ""


class LakesweepWire(_Wire):
    """The embedded lake says what it is and what it promises beyond lakeFS."""

    version: str
    features: frozenset[str]


class ConfigWire(_Wire):
    """The server's configuration; `lakesweep` is there on the embedded lake alone."""

    version_config: VersionConfigWire
    storage_config: StorageConfigWire | None = None
    storage_config_list: list[StorageConfigWire] | None = None
    lakesweep: LakesweepWire | None = None

    def storage_of(self, storage_id: str) -> StorageConfigWire | None:
        """The store that a repository with this storage id lies in; None when the server names none.

        A server with one store sends an empty list and the store on its own.
        """
        stores = self.storage_config_list or []
        if len(stores) > 1:
            return next((store for store in stores if store.blockstore_id == storage_id), None)
        return stores[0] if stores else self.storage_config


class GcConfigWire(_Wire):
    """How long, in seconds, an issued address may still be linked."""

    grace_period: Count


class BranchRuleWire(_Wire):
    """The days of one branch."""

    branch_id: NonEmpty
    retention_days: int


def _null_is_no_branches(value: object) -> object:
    # A real server sends null for rules without branch rules; a missing key still fails.
    return [] if value is None else value


class GcRulesWire(_Wire):
    """Retention rules, in the JSON that users write too."""

    default_retention_days: int
    branches: Annotated[list[BranchRuleWire], BeforeValidator(_null_is_no_branches)]


class PaginationWire(_Wire):
    """Where the next page begins."""

    has_more: bool
    next_offset: str
    results: Count


class PageWire(_Wire, Generic[Item]):
    """A page of any list. One that holds fewer items than it says was cut short on its way."""

    pagination: PaginationWire
    results: list[Item]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if len(self.results) != self.pagination.results:
            raise ValueError(
                f"says it has {self.pagination.results} results, but has {len(self.results)}"
            )
        return self


class RefWire(_Wire):
    """A branch or a tag."""

    id: NonEmpty
    commit_id: NonEmpty


class CommitWire(_Wire):
    """A commit."""

    id: NonEmpty
    parents: list[NonEmpty]
    committer: str
    message: str
    creation_date: int
    meta_range_id: str
    metadata: dict[str, str] | None = None
    version: int = 0
    generation: int = 0

    def to_commit(self) -> Commit:
        """The commit as a value of the domain."""
        return Commit(
            id=CommitId(self.id),
            committer=self.committer,
            message=self.message,
            creation_date=time_of_second(self.creation_date),
            meta_range_id=MetaRangeId(self.meta_range_id),
            parents=tuple(CommitId(parent) for parent in self.parents),
            metadata=self.metadata or {},
            version=self.version,
            generation=self.generation,
        )


class ObjectStatsWire(_Wire):
    """An entry, or a common prefix without an address."""

    path: str
    path_type: str
    physical_address: str
    checksum: str
    mtime: int
    size_bytes: int | None = None  # as a client told it


class DiffWire(_Wire):
    """A path that a branch has changed since its last commit."""

    type: str
    path: str
    path_type: str


class RefsDumpWire(_Wire):
    """The metaranges that a refs dump wrote."""

    commits_meta_range_id: NonEmpty
    tags_meta_range_id: NonEmpty
    branches_meta_range_id: NonEmpty


class PrepareCommitsWire(_Wire):
    """Where the server wrote its list of retained commits."""

    run_id: NonEmpty
    gc_commits_location: NonEmpty


class TaskWire(_Wire):
    """A task that the server started."""

    id: NonEmpty


class PrepareTaskStatusWire(_Wire):
    """How far such a task is; when completed it has a result or an error."""

    task_id: NonEmpty
    completed: bool
    result: PrepareCommitsWire | None = None
    error: ErrorWire | None = None


class PrepareUncommittedWire(_Wire):
    """One page of the uncommitted list; the location is empty when this page wrote no rows."""

    run_id: NonEmpty
    gc_uncommitted_location: str
    continuation_token: str | None = None
    rows_written: Count | None = None
    total_rows: Count | None = None


class HeadMoveWire(_Wire):
    """A branch stopped pointing at a commit at this time (unix seconds)."""

    branch_id: NonEmpty
    commit_id: NonEmpty
    until: int


class HeadMoveListWire(PageWire[HeadMoveWire]):
    """A page of head moves, from the embedded lake."""

    results: list[HeadMoveWire] = Field(alias="moves")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ExactCommitWire(CommitWire):
    """A commit with the exact time at which it was made, from the embedded lake."""

    creation_micros: int

    def to_commit(self) -> Commit:
        """The commit as a value of the domain."""
        made = _EPOCH + timedelta(microseconds=self.creation_micros)
        return replace(super().to_commit(), creation_date=made)


class AddressHolderWire(_Wire):
    """What holds an address outside of commits, from the embedded lake."""

    kind: NonEmpty
    address: NonEmpty
    branch_id: str
    path: str
    until_micros: int | None

    @property
    def until(self) -> datetime | None:
        """When it ends by itself; None where it does not."""
        micros = self.until_micros
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)


class AddressHoldersWire(_Wire):
    """Everything that holds the addresses that were asked for."""

    holders: list[AddressHolderWire]


class HardDeleteWire(_Wire):
    """An object that the server deleted by itself; `outcome` is "deleting" until it is known."""

    address: NonEmpty
    branch_id: str
    path: str
    dropped_micros: int
    deleted_micros: int
    outcome: NonEmpty
    undo_until_micros: int | None

    @property
    def deleted_at(self) -> datetime:
        """When its delete began."""
        return _EPOCH + timedelta(microseconds=self.deleted_micros)

    @property
    def undo_until(self) -> datetime | None:
        """Until when it can be brought back; None when it can't."""
        micros = self.undo_until_micros
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)


class HardDeletesWire(_Wire):
    """What the server deleted by itself."""

    hard_deletes: list[HardDeleteWire]


class HardDeleteSettingWire(_Wire):
    """Whether a server deletes by itself in a repository, and the repository's own word (None: the server's)."""

    enabled: bool
    own_setting: bool | None
