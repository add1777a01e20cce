"""Deleting many keys: batches of the store's size, many in flight, one outcome for each key."""

from __future__ import annotations

from collections.abc import Sequence

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import LakesweepError, StorageDeniedError, StorageError, ThrottledError
from lakesweep.storage.backend import Backend
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.keys import any_odd, is_odd_key
from lakesweep.storage.parallel import ordered_parallel
from lakesweep.storage.retry import Patience
from lakesweep.storage.values import DeleteOutcome, DeleteStatus

_ODD_DETAIL = "the key can't be carried unchanged, so it is never deleted"


class BulkDelete:
    """One call of `delete_many`."""

    def __init__(
        self, backend: Backend, congestion: CongestionControl, options: StorageOptions
    ) -> None:
        self._backend = backend
        self._congestion = congestion
        self._options = options

    def run(self, keys: Sequence[str]) -> list[DeleteOutcome]:
        """One outcome per key, in order; a key given twice is deleted once."""
        if len(set(keys)) < len(keys):
            outcomes = {outcome.key: outcome for outcome in self.run(list(dict.fromkeys(keys)))}
            return [outcomes[key] for key in keys]
        size = self._backend.delete_batch_size
        batches = [keys[first : first + size] for first in range(0, len(keys), size)]
        if len(batches) <= 1:
            return [outcome for batch in batches for outcome in self._delete_plain(batch)]
        workers = min(self._options.max_requests_in_flight, len(batches))
        done = ordered_parallel(self._delete_plain, batches, workers)
        return [outcome for _, outcomes in done for outcome in outcomes]

    def _delete_plain(self, batch: Sequence[str]) -> list[DeleteOutcome]:
        """One batch without its odd keys, which are refused."""
        if not any_odd(batch):
            return self._delete(batch)
        plain = [key for key in batch if not is_odd_key(key)]
        outcomes = {outcome.key: outcome for outcome in self._delete(plain)} if plain else {}
        return [
            outcomes.get(key) or DeleteOutcome(key, DeleteStatus.FAILED, _ODD_DETAIL)
            for key in batch
        ]

    def _delete(self, batch: Sequence[str]) -> list[DeleteOutcome]:
        """One batch, tried again for the keys that the store throttled or did not get to."""
        patience = Patience(self._options)
        prefix = batch[0][: batch[0].rfind("/") + 1]
        settled: dict[str, DeleteOutcome] = {}
        left = batch
        throttled = DeleteStatus.THROTTLED
        is_first_try = True
        while True:
            try:
                with self._congestion.slot(prefix):
                    found = self._backend.delete(left)
            except StorageError as error:
                if isinstance(error, ThrottledError):
                    self._congestion.throttled(prefix)
                if patience.try_again(error):
                    is_first_try = False
                    continue
                found = [_refused(key, error) for key in left]
                left = ()
            else:
                if not is_first_try:
                    found = [_absent_is_gone(outcome) for outcome in found]
                left = [outcome.key for outcome in found if outcome.status is throttled]
                if left:
                    self._congestion.throttled(prefix)
                else:
                    self._congestion.succeeded(prefix)
            if not left and len(found) == len(batch):
                return found
            settled.update((outcome.key, outcome) for outcome in found)
            if not left or not patience.wait_out_throttling():
                return [settled[key] for key in batch]


def _absent_is_gone(outcome: DeleteOutcome) -> DeleteOutcome:
    # An earlier try whose answer was lost may have deleted it, so "was absent before" would be a guess.
    if outcome.status is DeleteStatus.ALREADY_ABSENT:
        return DeleteOutcome(outcome.key, DeleteStatus.GONE, "absent after a repeated call")
    return outcome


def _refused(key: str, error: LakesweepError) -> DeleteOutcome:
    if isinstance(error, StorageDeniedError):
        return DeleteOutcome(key, DeleteStatus.DENIED, error.message)
    if isinstance(error, ThrottledError):
        return DeleteOutcome(key, DeleteStatus.THROTTLED, error.message)
    return DeleteOutcome(key, DeleteStatus.FAILED, error.message)
