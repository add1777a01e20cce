"""Staging tokens that branches let go of, kept readable for a while and then removed.

A reader takes a branch's tokens from its record and then reads them; if a commit could wipe a token in between, an entry
would be in neither place. So a dropped token stays for `dropped_token_life`. It is noted *before* the branch lets go of
it, so that a crash leaves no token behind that nobody knows; before removal, the branch is asked once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.kv.interface import scan
from lakesweep.lake.records import decode_record, encode_record, from_micros, to_micros
from lakesweep.lake.values import Repository

_PARTITION = "cleanup-tokens"


class DroppedTokens:
    """The queue of tokens on their way out."""

    def __init__(self, context: LakeContext) -> None:
        self._context = context

    def note(
        self, repository: Repository, branch_id: str, tokens: Iterable[str], at: datetime
    ) -> None:
        """Say that the branch is about to let go of these tokens."""
        owner = {"partition": partition_of(repository), "branch": branch_id, "at": to_micros(at)}
        record = encode_record(owner)
        for token in tokens:
            self._context.kv.set(_PARTITION, token.encode(), record)

    def remove_old(self, now: datetime) -> None:
        """Remove the entries of tokens dropped long enough ago; one that is still attached is left alone."""
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
            kv.delete_partition(token)
            kv.delete_if(_PARTITION, key, raw)

    def _is_attached(self, partition: str, branch_id: str, token: str) -> bool:
        raw = self._context.kv.get(partition, b"branches/" + branch_id.encode())
        if raw is None:
            return False
        fields = decode_record(raw)
        return token == fields["staging_token"] or token in fields["sealed_tokens"]
