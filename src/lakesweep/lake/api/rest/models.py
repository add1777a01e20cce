"""Request bodies, validated where they come in. Types are strict: `"5"` is not a number, as in lakeFS.

Unknown keys are left alone: clients of other versions send more than we read.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# Times are unix seconds; the bounds are those of the year 1 and the year 9999, which is what a date can hold.
UnixSeconds = Annotated[int, Field(ge=-62_135_596_800, le=253_402_300_799)]
Metadata = dict[str, str]
# lakeFS keeps days as 32-bit numbers; whether they make sense is for the lake to say.
Days = Annotated[int, Field(ge=-(2**31), lt=2**31)]


class RequestBody(BaseModel):
    """A JSON document sent by a client."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class LoginBody(RequestBody):
    access_key_id: str
    secret_access_key: str


class SetupKey(RequestBody):
    access_key_id: str = Field(min_length=1)
    secret_access_key: str = Field(min_length=1)


class SetupBody(RequestBody):
    username: str = Field(min_length=1)
    key: SetupKey | None = None


class RepositoryBody(RequestBody):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{2,62}$")
    storage_namespace: str = Field(pattern=r"^(s3|gs|https?|mem|local|transient)://.*$")
    storage_id: str = ""
    default_branch: str = "main"
    sample_data: bool = False
    read_only: bool = False


class BranchBody(RequestBody):
    name: str
    source: str
    force: bool = False
    hidden: bool = False


class ResetBody(RequestBody):
    type: Literal["reset", "object", "common_prefix"]
    path: str = ""
    force: bool = False


class CommitOverrides(RequestBody):
    message: str | None = None
    metadata: Metadata | None = None


class RevertBody(RequestBody):
    ref: str
    parent_number: int
    commit_overrides: CommitOverrides | None = None
    force: bool = False
    allow_empty: bool = False


class CherryPickBody(RequestBody):
    ref: str
    parent_number: int | None = None
    commit_overrides: CommitOverrides | None = None
    force: bool = False


class TagBody(RequestBody):
    id: str
    ref: str
    force: bool = False


class MergeBody(RequestBody):
    message: str = ""
    metadata: Metadata = Field(default_factory=dict)
    strategy: str = ""
    force: bool = False
    allow_empty: bool = False
    squash_merge: bool = False


class CommitBody(RequestBody):
    message: str
    metadata: Metadata = Field(default_factory=dict)
    date: UnixSeconds | None = None
    allow_empty: bool = False
    force: bool = False


class CommitRecordBody(RequestBody):
    commit_id: str
    version: int = Field(ge=0, le=1)
    committer: str
    message: str
    metarange_id: str
    creation_date: UnixSeconds
    parents: list[str]
    metadata: Metadata = Field(default_factory=dict)
    generation: int = Field(ge=0)
    force: bool = False


class PathsBody(RequestBody):
    paths: list[str] = Field(max_length=1000)


class CopyBody(RequestBody):
    src_path: str
    src_ref: str | None = None
    force: bool = False
    shallow: bool = False


class UserMetadataBody(RequestBody):
    set: Metadata


class StageBody(RequestBody):
    physical_address: str
    checksum: str
    size_bytes: int = Field(ge=0)
    mtime: UnixSeconds | None = None
    metadata: Metadata = Field(default_factory=dict)
    content_type: str = ""
    force: bool = False


class StagingBody(RequestBody):
    physical_address: str


class LinkBody(RequestBody):
    staging: StagingBody
    checksum: str
    size_bytes: int = Field(ge=0)
    user_metadata: Metadata = Field(default_factory=dict)
    content_type: str = ""
    mtime: UnixSeconds | None = None
    force: bool = False


class ImportPathBody(RequestBody):
    type: Literal["common_prefix", "object"]
    path: str
    destination: str


class ImportCommitBody(RequestBody):
    message: str
    metadata: Metadata = Field(default_factory=dict)


class ImportBody(RequestBody):
    paths: list[ImportPathBody] = Field(min_length=1, max_length=1000)
    commit: ImportCommitBody
    force: bool = False


class RefsBody(RequestBody):
    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str
    force: bool = False


class BranchRuleBody(RequestBody):
    branch_id: str
    retention_days: Days


class RulesBody(RequestBody):
    default_retention_days: Days
    branches: list[BranchRuleBody]


class PrepareUncommittedBody(RequestBody):
    continuation_token: str | None = None
