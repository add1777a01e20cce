"""The lake's values as the JSON documents of lakeFS's API. Lists are never null, numbers are integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from lakesweep.domain.commits import BranchHead, Commit, Tag
from lakesweep.domain.durations import format_time
from lakesweep.lake.values import (
    MAX_PAGE,
    DiffEntry,
    ImportStatus,
    ObjectStats,
    Page,
    PreparedCommits,
    PrepareStatus,
    Repository,
    UncommittedPage,
)
from lakesweep.storage import SignedUrl

T = TypeVar("T")
Document = dict[str, Any]

# What lakeFS answers for an entry that was stored without one.
DEFAULT_CONTENT_TYPE = "application/octet-stream"


def unix_seconds(time: datetime | None) -> int:
    """Whole seconds since 1970; a common prefix has no time, and clients want a number."""
    return int(time.timestamp()) if time is not None else 0


def page_document(page: Page[T], to_document: Callable[[T], Document]) -> Document:
    """A page of a list with lakeFS's pagination object, all four keys always there."""
    return list_document(
        [to_document(item) for item in page.results], page.has_more, page.next_offset
    )


def list_document(results: Sequence[Document], has_more: bool, next_offset: str) -> Document:
    """Results and the pagination object beside them."""
    pagination = {
        "has_more": has_more,
        "next_offset": next_offset if has_more else "",
        "results": len(results),
        "max_per_page": MAX_PAGE,
    }
    return {"pagination": pagination, "results": list(results)}


def repository_document(repository: Repository) -> Document:
    """Repository."""
    return {
        "id": repository.id,
        "creation_date": unix_seconds(repository.creation_date),
        "default_branch": repository.default_branch,
        "storage_namespace": repository.storage_namespace,
        "storage_id": repository.storage_id,
        "read_only": repository.is_read_only,
    }


def ref_document(ref: BranchHead | Tag) -> Document:
    """Ref."""
    return {"id": ref.id, "commit_id": ref.commit_id}


def commit_document(commit: Commit) -> Document:
    """Commit."""
    return {
        "id": commit.id,
        "parents": list(commit.parents),
        "committer": commit.committer,
        "message": commit.message,
        "creation_date": unix_seconds(commit.creation_date),
        "meta_range_id": commit.meta_range_id,
        "metadata": dict(commit.metadata),
        "generation": commit.generation,
        "version": commit.version,
    }


def object_document(stats: ObjectStats, *, with_metadata: bool = True) -> Document:
    """ObjectStats of one object."""
    return {
        "path": stats.path,
        "path_type": stats.path_type,
        "physical_address": stats.physical_address,
        "checksum": stats.checksum,
        "mtime": unix_seconds(stats.mtime),
        "size_bytes": stats.size_bytes,
        "metadata": dict(stats.metadata) if with_metadata else {},
        "content_type": stats.content_type or DEFAULT_CONTENT_TYPE,
    }


def listed_document(stats: ObjectStats, *, with_metadata: bool) -> Document:
    """ObjectStats as a row of a listing: common prefixes have nothing but a path, empty metadata is left out."""
    if stats.path_type == "common_prefix":
        return {
            "path": stats.path,
            "path_type": stats.path_type,
            "physical_address": "",
            "checksum": "",
            "mtime": 0,
        }
    document = object_document(stats, with_metadata=with_metadata)
    if not document["metadata"]:
        del document["metadata"]
    return document


def signed_address(signed: SignedUrl) -> Document:
    """What a presigned URL changes in ObjectStats."""
    return {
        "physical_address": signed.url,
        "physical_address_expiry": unix_seconds(signed.expires_at),
    }


def diff_document(entry: DiffEntry) -> Document:
    """Diff. A common prefix has no size."""
    document: Document = {"type": entry.type, "path": entry.path, "path_type": entry.path_type}
    if entry.path_type == "object":
        document["size_bytes"] = entry.size_bytes
    return document


def import_document(status: ImportStatus) -> Document:
    """ImportStatus."""
    document: Document = {
        "completed": status.completed,
        "update_time": format_time(status.update_time),
        "ingested_objects": status.ingested_objects,
    }
    if status.meta_range_id is not None:
        document["metarange_id"] = status.meta_range_id
    if status.commit is not None:
        document["commit"] = commit_document(status.commit)
    if status.error is not None:
        document["error"] = {"message": status.error}
    return document


def prepared_commits_document(prepared: PreparedCommits, presigned_url: str | None) -> Document:
    """GarbageCollectionPrepareResponse."""
    document: Document = {
        "run_id": prepared.run_id,
        "gc_commits_location": prepared.commits_location,
        "gc_addresses_location": prepared.addresses_location,
    }
    if presigned_url is not None:
        document["gc_commits_presigned_url"] = presigned_url
    return document


def prepare_status_document(status: PrepareStatus, presigned_url: str | None) -> Document:
    """PrepareGarbageCollectionCommitsStatus."""
    document: Document = {
        "task_id": status.task_id,
        "completed": status.completed,
        "update_time": format_time(status.update_time),
    }
    if status.result is not None:
        document["result"] = prepared_commits_document(status.result, presigned_url)
    if status.error is not None:
        document["error"] = {"message": status.error}
    return document


def uncommitted_document(page: UncommittedPage) -> Document:
    """PrepareGCUncommittedResponse, with the row counts that let a collector check what it read."""
    document: Document = {
        "run_id": page.run_id,
        "gc_uncommitted_location": page.location,
        "rows_written": page.rows_written,
    }
    if page.continuation_token is not None:
        document["continuation_token"] = page.continuation_token
    if page.total_rows is not None:
        document["total_rows"] = page.total_rows
    return document
