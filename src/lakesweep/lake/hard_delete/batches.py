"""Batches of a collector's sweep in the fence: what the sweep is about to delete can't be revived meanwhile.

The addresses of a batch lie in a partition of their own, written before the fence names the batch. The sweep reads what
is live after the fence has named it: what was made live before is seen then, and what would be made live later is
refused. A batch that nobody lifts ends at the time that the sweep gave, when none of its deletes can arrive any more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.errors import InvalidRequestError, MissingError
from lakesweep.lake.hard_delete.fence import Fence
from lakesweep.lake.kv.interface import Change
from lakesweep.lake.records import decode_record, encode_record, from_micros
from lakesweep.lake.values import Repository

_PREFIX = b"fence-batches/"
_ID = re.compile(r"[0-9a-zA-Z-]{8,64}")
_KEPT = timedelta(days=1)
"""How long the addresses of a batch stay that does not stand; a sweep puts it up again for its next round."""


@dataclass(eq=False, repr=False)
class FenceBatches:
    """The batches of all repositories."""

    _context: LakeContext
    _fence: Fence

    def add(self, repository: Repository, batch_id: str, addresses: Sequence[str]) -> None:
        """Add addresses to a batch, which must not have been put up yet."""
        if not _ID.fullmatch(batch_id):
            raise InvalidRequestError(
                f"{batch_id[:100]!r} is no id of a batch: use 8 to 64 letters, digits and '-'. Nothing was fenced."
            )
        raw = self._context.kv.get(partition_of(repository), _key(batch_id))
        if raw is not None and decode_record(raw)["is_closed"]:
            raise InvalidRequestError(
                f"batch {batch_id} of {repository.id} was put up already; no address was added. Begin another."
            )
        record = encode_record({"at": self._context.now(), "is_closed": False})
        self._context.kv.set(partition_of(repository), _key(batch_id), record)
        partition = self._fence.batch_partition(repository, batch_id)
        self._context.kv.set_many(partition, sorted((a.encode(), b"") for a in set(addresses)))

    def put_up(self, repository: Repository, batch_id: str, until: datetime) -> None:
        """Let the batch stand until it is lifted, or until this time."""
        self._change(repository, batch_id, until)

    def lift(self, repository: Repository, batch_id: str) -> None:
        """Let the batch stand no longer; nothing happens to one that does not."""
        self._change(repository, batch_id, None)

    def remove_old(self, repository: Repository, now: datetime) -> None:
        """Lift batches whose time is over, and forget the addresses of those that a sweep has left behind."""
        for batch_id, until in self._fence.state_if_any(repository).batches.items():
            if until <= now:
                self.lift(repository, batch_id)
        kv, partition = self._context.kv, partition_of(repository)
        for key, raw in list(self._context.rows(repository, _PREFIX)):
            batch_id = key[len(_PREFIX) :].decode()
            is_old = from_micros(decode_record(raw)["at"]) + _KEPT <= now
            if not is_old or batch_id in self._fence.state_if_any(repository).batches:
                continue
            # Before its addresses go: from here on it can't be put up, and a sweep that did so meanwhile keeps it.
            going = encode_record({**decode_record(raw), "is_closed": True, "is_going": True})
            if going == raw or kv.set_if(partition, key, going, raw):
                kv.delete_partition(self._fence.batch_partition(repository, batch_id))
                kv.delete_if(partition, key, going)

    def remove_all(self, repository: Repository) -> None:
        """Forget the addresses of every batch, of a repository that is being deleted."""
        for key, _ in list(self._context.rows(repository, _PREFIX)):
            batch_id = key[len(_PREFIX) :].decode()
            self._context.kv.delete_partition(self._fence.batch_partition(repository, batch_id))

    def _change(self, repository: Repository, batch_id: str, until: datetime | None) -> None:
        while True:
            found = self._fence.read(repository)
            raw = self._context.kv.get(partition_of(repository), _key(batch_id))
            batches = {name: end for name, end in found.state.batches.items() if name != batch_id}
            if until is not None:
                if raw is None or "is_going" in decode_record(raw):
                    raise MissingError(
                        f"repository {repository.id} has no batch {batch_id!r}; nothing was fenced",
                        kind="batch-not-found",
                    )
                batches[batch_id] = until
            elif len(batches) == len(found.state.batches):
                return
            changes = [self._fence.change(found, replace(found.state, batches=batches))]
            if until is not None:
                # As old as its last use.
                record = encode_record({"at": self._context.now(), "is_closed": True})
                changes.append(Change(partition_of(repository), _key(batch_id), record, raw))
            if self._context.kv.change_all(changes):
                return


def _key(batch_id: str) -> bytes:
    return _PREFIX + batch_id.encode()
