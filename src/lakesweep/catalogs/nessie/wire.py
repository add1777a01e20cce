"""The JSON that a Nessie server answers, validated where it comes in.

Strict on purpose: a field that decides what is live has no default that could mean "nothing". Fields that we do not use
are ignored, so that newer servers keep working.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "ConfigWire",
    "ContentWire",
    "EntriesWire",
    "EntryWire",
    "HistoryWire",
    "LogEntryWire",
    "OperationWire",
    "PageWire",
    "ReferenceWire",
    "ReferencesWire",
]

NonEmpty = Annotated[str, Field(min_length=1)]
Item = TypeVar("Item")


class _Wire(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class ConfigWire(_Wire):
    """What the server says of itself."""

    default_branch: NonEmpty = Field(alias="defaultBranch")
    max_supported_api_version: int = Field(alias="maxSupportedApiVersion")
    no_ancestor_hash: NonEmpty | None = Field(None, alias="noAncestorHash")
    spec_version: str | None = Field(None, alias="specVersion")


class PageWire(_Wire, Generic[Item]):
    """A page of any list, and the token of the next."""

    has_more: bool = Field(alias="hasMore")
    token: str | None = None
    items: list[Item]


class ReferenceWire(_Wire):
    """A branch or a tag. A third kind would be one whose history we don't know how to read."""

    type: Literal["BRANCH", "TAG"]
    name: NonEmpty
    hash: NonEmpty


class ReferencesWire(PageWire[ReferenceWire]):
    """A page of references."""

    items: list[ReferenceWire] = Field(alias="references")


class KeyWire(_Wire):
    """The key of a content."""

    elements: Annotated[list[str], Field(min_length=1)]


class ContentWire(_Wire):
    """A content of any kind; what only some kinds have stays in `model_extra`."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow")

    type: NonEmpty
    id: str | None = None

    def fields(self) -> dict[str, Any]:
        """Everything besides the kind and the id."""
        return self.model_extra or {}


class OperationWire(_Wire):
    """One change of a commit. Only puts have a content. A change of another type could hide something live."""

    type: Literal["PUT", "DELETE", "UNCHANGED"]
    key: KeyWire
    content: ContentWire | None = None


class CommitMetaWire(_Wire):
    """A commit's hash and the server's time when it was made."""

    hash: NonEmpty
    commit_time: NonEmpty = Field(alias="commitTime")


class LogEntryWire(_Wire):
    """A commit with its changes. A commit that changed nothing may come without a list of them."""

    commit_meta: CommitMetaWire = Field(alias="commitMeta")
    parent_commit_hash: str | None = Field(None, alias="parentCommitHash")
    operations: list[OperationWire] | None = None


class HistoryWire(PageWire[LogEntryWire]):
    """A page of a commit log, newest first."""

    items: list[LogEntryWire] = Field(alias="logEntries")


class EntryWire(_Wire):
    """A key at one commit, with its content."""

    name: KeyWire
    content: ContentWire


class EntriesWire(PageWire[EntryWire]):
    """A page of all keys at one commit."""

    items: list[EntryWire] = Field(alias="entries")
