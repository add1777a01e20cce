"""Refs in bulk: out of the ref store into the namespace, and back."""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass

from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.formats import refs_dump
from lakesweep.formats.refs_dump import RefsManifest
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.commits.committed import metadata_key
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import InvalidRequestError, MissingError
from lakesweep.lake.refs.branches import Branches
from lakesweep.lake.refs.expressions import Refs
from lakesweep.lake.refs.tags import Tags
from lakesweep.lake.values import Repository

_OBJECT_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(eq=False, repr=False)
class Dumping:
    """Dumps and restores all commits, branches and tags. Staged data is no part of it."""

    _context: LakeContext
    _branches: Branches
    _tags: Tags
    _commits: Commits
    _refs: Refs

    def dump(self, repository: Repository) -> RefsManifest:
        """Write the dump, its manifest last."""
        # Commits are read after what points at them, so the dump can't name one it does not hold.
        branches = [record.head for record in self._branches.all(repository)]
        tags = list(self._tags.all(repository))
        commits = list(self._commits.all(repository))
        dump = refs_dump.write_refs_dump(refs_dump.RefsDump(commits, branches, tags))
        store = self._context.store(repository)
        for key, data in dump.files:
            store.write(key, data)
        store.write(refs_dump.MANIFEST_KEY, dump.manifest.encode())
        return dump.manifest

    def restore(self, repository: Repository, manifest: RefsManifest) -> None:
        """Load a dump: commits first, then what points at them. After a crash, restoring again goes on."""
        dump = self._read(repository, manifest)
        present = {record.head.id: record.head for record in self._branches.all(repository)}
        for head in dump.branches:
            other = present.pop(head.id, None)
            if other is not None and other.commit_id != head.commit_id:
                raise _not_bare(repository, head.id)
        if present:
            raise _not_bare(repository, next(iter(present)))
        for commit in dump.commits:
            self._commits.put(repository, commit)
        for tag in dump.tags:
            if self._tags.find(repository, tag.id) is None:
                self._refs.create_tag(repository, tag.id, tag.commit_id)
        for head in dump.branches:
            if self._branches.find(repository, head.id) is None:
                self._refs.create_branch(repository, head.id, head.commit_id, is_hidden=head.hidden)

    def metadata_location(self, object_id: str) -> str:
        """Where a range or metarange lies, relative to the namespace. Does not look whether it is there."""
        if not _OBJECT_ID.fullmatch(object_id):
            raise InvalidRequestError(f"{object_id!r} is not an id of a range or metarange")
        return metadata_key(object_id)

    def read_metadata_object(self, repository: Repository, object_id: str) -> bytes:
        """The bytes of a range or metarange."""
        try:
            return self._context.store(repository).read(self.metadata_location(object_id))
        except ObjectNotFoundError as missing:
            raise MissingError(
                f"repository {repository.id} has no range or metarange {object_id}",
                kind="metarange-not-found",
            ) from missing

    def _read(self, repository: Repository, manifest: RefsManifest) -> refs_dump.RefsDump:
        for metarange_id in astuple(manifest):
            self.metadata_location(metarange_id)
        try:
            return refs_dump.read_refs_dump(self._context.store(repository).read, manifest)
        except (ObjectNotFoundError, FormatError) as wrong:
            raise InvalidRequestError(
                f"the dump can't be read: {wrong.message}; nothing was restored", kind="bad-dump"
            ) from wrong


def _not_bare(repository: Repository, branch_id: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"repository {repository.id} has a branch {branch_id!r} of its own; nothing was restored."
        " Refs can be restored into a bare repository only.",
        kind="not-bare",
    )
