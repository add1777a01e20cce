"""Importing objects that lie elsewhere: listed, written as ranges of full addresses, committed onto a branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakesweep.domain.commits import Commit, CommitId, MetaRangeId
from lakesweep.domain.location import Location
from lakesweep.errors import ObjectNotFoundError
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.lake.addresses.outside import Addresses, open_parent
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.commits.committing import Committing
from lakesweep.lake.commits.metarange_writer import MetarangeWriter, apply_changes
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import ConflictError, InvalidRequestError, LakeError
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.names import path_key, prefix_key
from lakesweep.lake.refs.branches import MAX_TRIES, Branches, too_many_tries
from lakesweep.lake.staging.entries import overlay
from lakesweep.lake.staging.staged_values import TOMBSTONE, encode_staged
from lakesweep.lake.tasks import RunningTask, Tasks
from lakesweep.lake.values import NO_METADATA, ImportSource, ImportStatus, Repository

_TASK_PREFIX = "IMPO"


class ImportCancelledError(LakeError):
    """The import was stopped before it committed anything."""

    default_kind = "import-cancelled"


@dataclass(eq=False, repr=False)
class Importing:
    """Imports, each a background task."""

    _context: LakeContext
    _branches: Branches
    _commits: Commits
    _committed: Committed
    _committing: Committing
    _addresses: Addresses
    _tasks: Tasks

    def start(
        self,
        repository: Repository,
        branch_id: str,
        sources: Sequence[ImportSource],
        *,
        committer: str,
        message: str,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> str:
        """Check the sources, then import in the background."""
        if not sources:
            raise InvalidRequestError("an import needs at least one source")
        record = self._branches.read(repository, branch_id)
        self._committing.assert_clean(repository, record)
        located = [(source, self._locate(repository, source)) for source in sources]

        def work(task: RunningTask) -> dict[str, Any]:
            imported = self._write_imported(repository, located, task)
            commit = self._commit(
                repository, branch_id, sources, imported, task, committer, message, metadata
            )
            return {"metarange_id": imported, "commit_id": commit.id, "branch": branch_id}

        return self._tasks.start(repository, _TASK_PREFIX, work)

    def status(self, repository: Repository, branch_id: str, import_id: str) -> ImportStatus:
        """How far the import has come."""
        self._branches.read(repository, branch_id)
        state = self._tasks.status(repository, import_id)
        result = state.result or {}
        commit = None
        if "commit_id" in result:
            commit = self._commits.get(repository, CommitId(result["commit_id"]))
        return ImportStatus(
            id=state.id,
            completed=state.completed,
            update_time=state.updated_at,
            ingested_objects=state.progress.get("objects", 0),
            meta_range_id=MetaRangeId(result["metarange_id"]) if result else None,
            commit=commit,
            error=state.error,
        )

    def cancel(self, repository: Repository, branch_id: str, import_id: str) -> None:
        """Stop the import before it commits."""
        status = self.status(repository, branch_id, import_id)
        if status.completed or not self._tasks.cancel(import_id):
            raise ConflictError(
                f"import {import_id} is over, or runs in another server process; it was not stopped",
                kind="import-completed",
            )

    def _locate(self, repository: Repository, source: ImportSource) -> Location:
        if source.type == "object":
            path_key(source.destination)
            return self._addresses.check_outside(repository, source.path)
        prefix_key(source.destination)
        return self._addresses.check_source_prefix(repository, source.path)

    def _write_imported(
        self,
        repository: Repository,
        located: Sequence[tuple[ImportSource, Location]],
        task: RunningTask,
    ) -> MetaRangeId:
        """A metarange of all that is imported; of two sources for one path, the later counts."""
        writer = MetarangeWriter(self._context.store(repository))
        layers = [self._rows(source, location) for source, location in reversed(located)]
        count = 0
        for row in overlay(layers):
            writer.add(row)
            count += 1
            if count % 10_000 == 0:
                task.progress["objects"] = count
                _stop_if_cancelled(task)
        task.progress["objects"] = count
        return writer.finish()

    def _rows(self, source: ImportSource, location: Location) -> Iterator[Row]:
        if source.type == "object":
            store, name = open_parent(self._context, location)
            try:
                info = store.stat(name)
            except ObjectNotFoundError as missing:
                raise InvalidRequestError(
                    f"there is no object {source.path} to import; nothing was imported"
                ) from missing
            address = source.path
            value = _value(address, info.size, info.last_modified, info.etag)
            yield path_key(source.destination), value
            return
        folder = source.path.rstrip("/") + "/"
        last_key = b""
        for batch in self._context.open(location).list():
            for found in batch.to_pylist():
                if found["is_odd"]:
                    raise InvalidRequestError(
                        f"{folder}{found['key']} can't be carried unchanged by every client;"
                        " nothing was imported"
                    )
                key = path_key(_destination_folder(source) + found["key"])
                if key <= last_key:
                    raise InvalidRequestError(
                        f"{folder} is not listed in the order of its keys; nothing was imported"
                    )
                last_key = key
                address = folder + found["key"]
                yield key, _value(address, found["size"], found["last_modified"], found["etag"])

    def _commit(
        self,
        repository: Repository,
        branch_id: str,
        sources: Sequence[ImportSource],
        imported: MetaRangeId,
        task: RunningTask,
        committer: str,
        message: str,
        metadata: Mapping[str, str],
    ) -> Commit:
        for _ in range(MAX_TRIES):
            record = self._branches.read(repository, branch_id)
            self._committing.assert_clean(repository, record)
            parent = self._commits.get(repository, record.head.commit_id)
            applied = apply_changes(
                self._committed,
                self._context.store(repository),
                repository,
                self._committed.ranges(repository, parent.meta_range_id),
                self._changes(repository, sources, imported, parent.meta_range_id),
                keeps_equal=False,
            )
            commit = self._commits.make(
                repository,
                committer=committer,
                message=message,
                meta_range_id=applied.metarange_id,
                creation_date=self._context.now(),
                parents=(parent,),
                metadata=metadata,
            )
            if task.is_cancelled.is_set():
                self._commits.remove_lost(repository, commit)
            _stop_if_cancelled(task)
            if self._committing.advance(repository, record, commit):
                return commit
        raise too_many_tries(repository, branch_id, "nothing was imported")

    def _changes(
        self,
        repository: Repository,
        sources: Sequence[ImportSource],
        imported: MetaRangeId,
        base: MetaRangeId,
    ) -> Iterator[Row]:
        """What is imported, and a tombstone for whatever else lies below an imported prefix: it is replaced as a whole."""
        layers = [self._committed.iterate(repository, imported)]
        for source in sources:
            if source.type == "common_prefix":
                prefix = prefix_key(_destination_folder(source))
                layers.append(self._tombstones_below(repository, base, prefix))
        return overlay(layers)

    def _tombstones_below(
        self, repository: Repository, base: MetaRangeId, prefix: bytes
    ) -> Iterator[Row]:
        for key, _ in self._committed.iterate(repository, base, prefix):
            if not key.startswith(prefix):
                return
            yield key, TOMBSTONE


def _destination_folder(source: ImportSource) -> str:
    destination = source.destination
    return destination if not destination or destination.endswith("/") else destination + "/"


def _value(address: str, size: int, modified: datetime | None, etag: str | None) -> bytes:
    return encode_staged(
        Entry(
            address=address,
            last_modified=modified or datetime.fromtimestamp(0, UTC),
            size=size,
            e_tag=(etag or "").strip('"'),
            address_type=AddressType.FULL,
        )
    )


def _stop_if_cancelled(task: RunningTask) -> None:
    if task.is_cancelled.is_set():
        raise ImportCancelledError("the import was cancelled; nothing was committed")
