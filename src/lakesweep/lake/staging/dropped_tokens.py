"""Staging tokens that branches let go of, kept readable for a while and then removed.

A reader takes a branch's tokens from its record and then reads them; if a commit could wipe a token in between, an entry
would be in neither place. So a dropped token stays for `dropped_token_life`. It is noted *before* the branch lets go of
it, so that a crash leaves no token behind that nobody knows; before removal, the branch is asked once more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from lakesweep.domain.commits import CommitId
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.kv.interface import Change, scan
from lakesweep.lake.records import decode_record, encode_record, from_micros, to_micros
from lakesweep.lake.values import Repository

_PARTITION = "cleanup-tokens"


@dataclass(frozen=True, slots=True)
class DroppedToken:
    """A token that a branch let go of, with the bytes of its note."""

    token: str
    branch_id: str
    at: datetime
    commit_id: CommitId | None
    """The commit that took its entries over, where one did."""
    raw: bytes


class DroppedTokens:
    """The queue of tokens on their way out."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context

    def note(
        self, repository: Repository, branch_id: str, tokens: Iterable[str], at: datetime
    ) -> None:
        """Say that the branch is about to let go of these tokens."""
        record = _encode(partition_of(repository), branch_id, at)
        for token in tokens:
            self._context.kv.set(_PARTITION, token.encode(), record)

    def note_commit(
        self,
        repository: Repository,
        branch_id: str,
        tokens: Iterable[str],
        at: datetime,
        commit_id: CommitId,
    ) -> None:
        """Say which commit holds the entries of tokens that were noted before and are let go now."""
        partition = partition_of(repository)
        before = _encode(partition, branch_id, at)
        record = _encode(partition, branch_id, at, commit=commit_id)
        for token in tokens:
            self._context.kv.set_if(_PARTITION, token.encode(), record, before)

    def not_queued(self, repository: Repository) -> Iterator[DroppedToken]:
        """The tokens of a repository that are let go, and whose entries have not been queued for review."""
        partition = partition_of(repository)
        for key, raw in list(scan(self._context.kv, _PARTITION)):
            fields = decode_record(raw)
            if fields["partition"] != partition or "queued" in fields:
                continue
            token, branch_id = key.decode(), fields["branch"]
            if not self._is_attached(partition, branch_id, token):
                yield DroppedToken(
                    token, branch_id, from_micros(fields["at"]), fields.get("commit"), raw
                )

    def queued(self, token: DroppedToken) -> Change:
        """Say that all entries of a token are in the queue; not done when it was noted anew meanwhile."""
        record = encode_record({**decode_record(token.raw), "queued": True})
        return Change(_PARTITION, token.token.encode(), record, token.raw)

    def remove_old(self, now: datetime, reviewed: Collection[str] = ()) -> None:
        """Remove the entries of tokens dropped long enough ago; one that is still attached is left alone.

        In the partitions of `reviewed` repositories, tokens whose entries are not queued yet stay.
        """
        kv = self._context.kv
        for key, raw in list(scan(kv, _PARTITION)):
            fields = decode_record(raw)
            if from_micros(fields["at"]) + self._context.settings.dropped_token_life > now:
                continue
            token = key.decode()
            if self._is_attached(fields["partition"], fields["branch"], token):
                # The drop did not come about. Should it come later, it is noted again.
                kv.delete_if(_PARTITION, key, raw)
                continue
            if fields["partition"] in reviewed and "queued" not in fields:
                continue
            kv.delete_partition(token)
            kv.delete_if(_PARTITION, key, raw)

    def _is_attached(self, partition: str, branch_id: str, token: str) -> bool:
        raw = self._context.kv.get(partition, b"branches/" + branch_id.encode())
        if raw is None:
            return False
        fields = decode_record(raw)
        return token == fields["staging_token"] or token in fields["sealed_tokens"]


def _encode(partition: str, branch_id: str, at: datetime, **more: str) -> bytes:
    return encode_record({"partition": partition, "branch": branch_id, "at": to_micros(at), **more})
