"""Uploads under way: issued addresses, multipart uploads, long streams. Their objects are live though no entry says so.

    PENDING ──claim──▶ CLAIMED ──(entry staged)──▶ removed
       │                  └──release──▶ PENDING
       └──expired, aborted──▶ ENDING ──(parts removed)──▶ removed

Every arrow is a compare-and-set of the record. The entry is staged in a transaction that finds the record as it was
claimed, and before the record goes; a record is counted until it goes. So a collection that reads these records before
it reads staged entries meets each upload in one of the two. An expired record is *taken away* before it stops counting:
a link that looked at it a moment before can't claim it any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.hard_delete.queue import Dropped, Queue
from lakesweep.lake.kv.interface import Change, Held
from lakesweep.lake.records import decode_record, encode_record, fields_of, from_micros
from lakesweep.lake.values import NO_METADATA, Repository

UploadKind = Literal["link", "multipart", "presigned", "stream"]
UploadState = Literal["pending", "claimed", "ending"]

_PREFIX = b"pending/"


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """One upload. `id` is the address of an issued one, the upload id of a multipart one (the store's, if presigned)."""

    id: str
    kind: UploadKind
    branch_id: str
    path: str
    address: str
    created_at: datetime
    expires_at: datetime
    state: UploadState = "pending"
    claimed_at: datetime | None = None
    claimed_for: str = ""
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundUpload:
    """An upload as it was read, with the bytes that the next step expects unchanged."""

    upload: PendingUpload
    raw: bytes


class PendingUploads:
    """The uploads under way of all repositories."""

    def __init__(self, context: LakeContext, queue: Queue) -> None:
        self._context = context
        self._queue = queue

    def begin(
        self,
        repository: Repository,
        kind: UploadKind,
        upload_id: str,
        branch_id: str,
        path: str,
        address: str,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> FoundUpload:
        """Register an upload that lives for `token_life` from now on."""
        now = self._context.now()
        upload = PendingUpload(
            id=upload_id,
            kind=kind,
            branch_id=branch_id,
            path=path,
            address=address,
            created_at=now,
            expires_at=now + self._context.settings.token_life,
            content_type=content_type,
            metadata=dict(metadata),
        )
        return self.register(repository, upload)

    def register(self, repository: Repository, upload: PendingUpload) -> FoundUpload:
        """Write a new record. From here on a collection counts the address as live."""
        raw = _encode(upload)
        self._context.kv.set(partition_of(repository), _key(upload.id), raw)
        return FoundUpload(upload, raw)

    def find(self, repository: Repository, upload_id: str) -> FoundUpload | None:
        """The record, expired or not."""
        raw = self._context.kv.get(partition_of(repository), _key(upload_id))
        return None if raw is None else FoundUpload(_decode(raw), raw)

    def held(self, repository: Repository, found: FoundUpload) -> Held:
        """What an entry is staged by: the record as it was found."""
        return partition_of(repository), _key(found.upload.id), found.raw

    def is_busy(self, upload: PendingUpload) -> bool:
        """Whether a request that may still be alive is about to stage the upload's entry."""
        life = self._context.settings.claim_life
        return upload.claimed_at is not None and self._context.now() - upload.claimed_at < life

    def claim(
        self, repository: Repository, found: FoundUpload, claimed_for: str = ""
    ) -> FoundUpload | None:
        """Take the right to stage the entry; None when somebody came first."""
        claimed = replace(
            found.upload,
            state="claimed",
            claimed_at=self._context.now(),
            claimed_for=claimed_for,
        )
        return self.change(repository, found, claimed)

    def release(self, repository: Repository, claimed: FoundUpload) -> None:
        """Give the right back: the entry was not staged."""
        pending = replace(claimed.upload, state="pending", claimed_at=None, claimed_for="")
        self.change(repository, claimed, pending)

    def change(
        self, repository: Repository, found: FoundUpload, upload: PendingUpload
    ) -> FoundUpload | None:
        """Write `upload` in place of what was found; None when it changed meanwhile."""
        raw = _encode(upload)
        done = self._context.kv.set_if(partition_of(repository), _key(upload.id), raw, found.raw)
        return FoundUpload(upload, raw) if done else None

    def remove(self, repository: Repository, found: FoundUpload) -> bool:
        """Remove the record if it is as it was found."""
        key = _key(found.upload.id)
        return self._context.kv.delete_if(partition_of(repository), key, found.raw)

    def give_up(self, repository: Repository, found: FoundUpload) -> FoundUpload | None:
        """End an upload whose entry was not staged, if it is as it was found; None when it is not.

        Its object, if there is one, is queued for review where objects are deleted for good. The record of one with
        parts stays until those are removed; housekeeping finds it by its state.
        """
        upload = found.upload
        has_parts = upload.kind in ("multipart", "presigned")
        ending = replace(upload, state="ending")
        raw = _encode(ending) if has_parts else None
        changes = [Change(partition_of(repository), _key(upload.id), raw, found.raw)]
        if self._context.hard_deletes(repository):
            dropped = Dropped(upload.address, upload.branch_id, upload.path, self._context.now())
            changes.append(self._queue.note(repository, dropped))
        if not self._context.kv.change_all(changes):
            return None
        return FoundUpload(ending, raw or b"")

    def all(self, repository: Repository, *, after: str | None = None) -> Iterator[FoundUpload]:
        """Every record in id order."""
        last = None if after is None else _key(after)
        rows = self._context.rows(repository, _PREFIX, after=last)
        return (FoundUpload(_decode(raw), raw) for _, raw in rows)

    def live(self, repository: Repository, now: datetime) -> Iterator[PendingUpload]:
        """The uploads that count as live. One that has expired is retired first, so that it can't be claimed after."""
        for found in self.all(repository):
            if found.upload.state != "ending" and not self.retire_if_over(repository, found, now):
                yield found.upload

    def retire_if_over(self, repository: Repository, found: FoundUpload, now: datetime) -> bool:
        """Retire an upload whose time is over; False when it is not, or when somebody changed it meanwhile."""
        if now < self.end_of(found.upload):
            return False
        return self.give_up(repository, found) is not None

    def end_of(self, upload: PendingUpload) -> datetime:
        """From when on the upload does not count as live any more."""
        if upload.claimed_at is None:
            return upload.expires_at
        # Its server may be about to stage the entry, or may have died.
        return max(upload.expires_at, upload.claimed_at + self._context.settings.claim_life)


def _key(upload_id: str) -> bytes:
    return _PREFIX + upload_id.encode(errors="surrogatepass")


def _encode(upload: PendingUpload) -> bytes:
    fields = fields_of(upload)
    fields["branch"] = fields.pop("branch_id")
    return encode_record(fields)


def _decode(raw: bytes) -> PendingUpload:
    fields = decode_record(raw)
    claimed_at = fields["claimed_at"]
    return PendingUpload(
        id=fields["id"],
        kind=fields["kind"],
        branch_id=fields["branch"],
        path=fields["path"],
        address=fields["address"],
        created_at=from_micros(fields["created_at"]),
        expires_at=from_micros(fields["expires_at"]),
        state=fields["state"],
        claimed_at=None if claimed_at is None else from_micros(claimed_at),
        claimed_for=fields["claimed_for"],
        content_type=fields["content_type"],
        metadata=fields["metadata"],
    )
