"""Putting bytes where they belong: small ones at once, long ones as a tracked stream."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from lakesweep.errors import LakesweepError
from lakesweep.lake.context import LakeContext
from lakesweep.lake.errors import MissingError
from lakesweep.lake.uploads.pending import FoundUpload, PendingUploads
from lakesweep.lake.values import Repository

_AT_ONCE_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """What was stored, and the record that protects it until its entry is staged, if one was needed."""

    size: int
    md5: str
    pending: FoundUpload | None = None


class UploadStreams:
    """Writes request bodies into the object store."""

    def __init__(self, context: LakeContext, pending: PendingUploads) -> None:
        self._context = context
        self._pending = pending

    def store(
        self,
        repository: Repository,
        branch_id: str,
        path: str,
        address: str,
        chunks: Iterable[bytes],
    ) -> StoredBytes:
        """Write the bytes to an address.

        An object that takes long may be dated by its store to the beginning of its upload, and so look old when it is
        new: anything that does not fit one request is tracked as pending, before its first byte.
        """
        body = iter(chunks)
        head = _read_up_to(body, _AT_ONCE_BYTES)
        store = self._context.store(repository)
        if len(head) <= _AT_ONCE_BYTES:
            store.write(address, head)
            return StoredBytes(len(head), hashlib.md5(head, usedforsecurity=False).hexdigest())
        pending = self._pending
        tracked = _Tracked(pending.begin(repository, "stream", address, branch_id, path, address))
        digest = hashlib.md5(usedforsecurity=False)
        size = 0

        def measured() -> Iterator[bytes]:
            nonlocal size
            for chunk in chain([head], body):
                digest.update(chunk)
                size += len(chunk)
                self._keep_alive(repository, tracked)
                yield chunk

        try:
            store.write_stream(address, measured())
        except Exception:
            # Nobody will stage it: were it tracked on, a client that tries again and again would leave many.
            with suppress(LakesweepError):
                pending.give_up(repository, tracked.found)
            raise
        return StoredBytes(size, digest.hexdigest(), tracked.found)

    def _keep_alive(self, repository: Repository, tracked: _Tracked) -> None:
        now: datetime = self._context.now()
        upload = tracked.found.upload
        life = self._context.settings.token_life
        if upload.expires_at - now < life / 2:
            longer = replace(upload, expires_at=now + life)
            kept = self._pending.change(repository, tracked.found, longer)
            if kept is None and self._context.hard_deletes(repository):
                # The upload was given up, so a late delete may yet come for its address.
                raise MissingError(
                    f"the upload of {upload.path!r} to branch {upload.branch_id!r} of {repository.id} was silent for too"
                    " long and was given up; nothing was staged. Upload it again.",
                    kind="upload-not-found",
                )
            tracked.found = kept or self._pending.register(repository, longer)


@dataclass(slots=True)
class _Tracked:
    found: FoundUpload


def _read_up_to(body: Iterator[bytes], most: int) -> bytes:
    """All bytes when there are at most `most`, else a little more than that; the rest stays in the iterator."""
    parts: list[bytes] = []
    size = 0
    for chunk in body:
        parts.append(chunk)
        size += len(chunk)
        if size > most:
            break
    return b"".join(parts)
