"""Request bodies, validated where they come in. Types are strict: `"5"` is not a number, as in lakeFS.

Unknown keys are left alone: clients of other versions send more than we read.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

# Characters of a commit's message, and of its metadata, of which a page of the log holds a thousand.
LONGEST_COMMIT_TEXT = 64 * 1024
# Addresses in one request of a sweep, which sends as many requests as it needs.
MOST_FENCED_AT_ONCE = 10_000


def _checked_text(text: str) -> str:
    """JSON can spell half of a surrogate pair, which no store and no reply can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair, which is not text") from None
    return text


def _checked_commit_metadata(metadata: dict[str, str]) -> dict[str, str]:
    if sum(len(key) + len(value) for key, value in metadata.items()) > LONGEST_COMMIT_TEXT:
        raise ValueError(f"it is longer than {LONGEST_COMMIT_TEXT} characters")
    return metadata


Text = Annotated[str, AfterValidator(_checked_text)]
# Times are unix seconds; the bounds are those of the year 1 and the year 9999, which is what a date can hold.
UnixSeconds = Annotated[int, Field(ge=-62_135_596_800, le=253_402_300_799)]
UnixMicros = Annotated[int, Field(ge=-62_135_596_800_000_000, le=253_402_300_799_000_000)]
Metadata = dict[Text, Text]
CommitMetadata = Annotated[Metadata, AfterValidator(_checked_commit_metadata)]
CommitMessage = Annotated[Text, Field(max_length=LONGEST_COMMIT_TEXT)]
# Sizes are kept as 64-bit numbers.
SizeBytes = Annotated[int, Field(ge=0, lt=2**63)]
# lakeFS keeps days as 32-bit numbers; whether they make sense is for the lake to say.
Days = Annotated[int, Field(ge=-(2**31), lt=2**31)]


class RequestBody(BaseModel):
    """A JSON document sent by a client."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


class LoginBody(RequestBody):
    access_key_id: Text
    secret_access_key: Text


class SetupKey(RequestBody):
    access_key_id: Text = Field(min_length=1)
    secret_access_key: Text = Field(min_length=1)


class SetupBody(RequestBody):
    username: Text = Field(min_length=1)
    key: SetupKey | None = None


class RepositoryBody(RequestBody):
    name: Text = Field(pattern=r"^[a-z0-9][a-z0-9-]{2,62}$")
    storage_namespace: Text = Field(pattern=r"^(s3|gs|https?|mem|local|transient)://.*$")
    storage_id: Text = ""
    default_branch: Text = "main"
    sample_data: bool = False
    read_only: bool = False


class BranchBody(RequestBody):
    name: Text
    source: Text
    force: bool = False
    hidden: bool = False


class ResetBody(RequestBody):
    type: Literal["reset", "object", "common_prefix"]
    path: Text = ""
    force: bool = False


class CommitOverrides(RequestBody):
    message: CommitMessage | None = None
    metadata: CommitMetadata | None = None


class RevertBody(RequestBody):
    ref: Text
    parent_number: int
    commit_overrides: CommitOverrides | None = None
    force: bool = False
    allow_empty: bool = False


class CherryPickBody(RequestBody):
    ref: Text
    parent_number: int | None = None
    commit_overrides: CommitOverrides | None = None
    force: bool = False


class TagBody(RequestBody):
    id: Text
    ref: Text
    force: bool = False


class MergeBody(RequestBody):
    message: CommitMessage = ""
    metadata: CommitMetadata = Field(default_factory=dict)
    strategy: Text = ""
    force: bool = False
    allow_empty: bool = False
    squash_merge: bool = False


class CommitBody(RequestBody):
    message: CommitMessage
    metadata: CommitMetadata = Field(default_factory=dict)
    date: UnixSeconds | None = None
    allow_empty: bool = False
    force: bool = False


class CommitRecordBody(RequestBody):
    commit_id: Text
    version: int = Field(ge=0, le=1)
    committer: Text
    message: CommitMessage
    metarange_id: Text
    creation_date: UnixSeconds
    parents: list[Text]
    metadata: CommitMetadata = Field(default_factory=dict)
    generation: int = Field(ge=0, lt=2**63)
    force: bool = False


class PathsBody(RequestBody):
    paths: list[Text] = Field(max_length=1000)


class CopyBody(RequestBody):
    src_path: Text
    src_ref: Text | None = None
    force: bool = False
    shallow: bool = False


class UserMetadataBody(RequestBody):
    set: Metadata


class StageBody(RequestBody):
    physical_address: Text
    checksum: Text
    size_bytes: SizeBytes
    mtime: UnixSeconds | None = None
    metadata: Metadata = Field(default_factory=dict)
    content_type: Text = ""
    force: bool = False


class StagingBody(RequestBody):
    physical_address: Text


class LinkBody(RequestBody):
    staging: StagingBody
    checksum: Text
    size_bytes: SizeBytes
    user_metadata: Metadata = Field(default_factory=dict)
    content_type: Text = ""
    mtime: UnixSeconds | None = None
    force: bool = False


class PresignedPartBody(RequestBody):
    part_number: int = Field(ge=1, le=10_000)
    etag: Text = Field(min_length=1, max_length=1024)


class CompletePresignedBody(StagingBody):
    parts: list[PresignedPartBody] = Field(max_length=10_000)
    user_metadata: Metadata = Field(default_factory=dict)
    content_type: Text = ""


class ImportPathBody(RequestBody):
    type: Literal["common_prefix", "object"]
    path: Text
    destination: Text


class ImportCommitBody(RequestBody):
    message: CommitMessage
    metadata: CommitMetadata = Field(default_factory=dict)


class ImportBody(RequestBody):
    paths: list[ImportPathBody] = Field(min_length=1, max_length=1000)
    commit: ImportCommitBody
    force: bool = False


class RefsBody(RequestBody):
    commits_meta_range_id: Text
    tags_meta_range_id: Text
    branches_meta_range_id: Text
    force: bool = False


class BranchRuleBody(RequestBody):
    branch_id: Text
    retention_days: Days


class RulesBody(RequestBody):
    default_retention_days: Days
    branches: list[BranchRuleBody]


class PrepareUncommittedBody(RequestBody):
    continuation_token: Text | None = None


class HardDeleteBody(RequestBody):
    enabled: bool | None


class UndoBody(RequestBody):
    address: Text
    branch: Text = ""
    path: Text = ""


class FenceAddressesBody(RequestBody):
    addresses: list[Text] = Field(max_length=MOST_FENCED_AT_ONCE)


class FenceBody(RequestBody):
    until_micros: UnixMicros
