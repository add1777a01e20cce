"""Deleting many keys: batches of the store's size, many in flight, one outcome for each key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import LakesweepError, StorageDeniedError, StorageError, ThrottledError
from lakesweep.storage.backend import Backend
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.keys import any_odd, is_odd_key
from lakesweep.storage.parallel import ordered_parallel
from lakesweep.storage.retry import Patience
from lakesweep.storage.values import (
    NO_TERMS,
    DeleteOutcome,
    DeleteOutcomes,
    DeleteStatus,
    DeleteTerms,
    ObjectInfo,
    forever,
    is_same_object,
)

_ODD_DETAIL = "the key can't be carried unchanged, so it is never deleted"
_TOO_LATE = "the time to delete was over before it was asked for"
_CHANGED = "written anew since it was chosen"
# Looked up together and then deleted: the more, the longer an object can be written anew unseen in between.
_LOOKED_UP_AT_ONCE = 1000

# Outcomes by their key, but for keys that are gone without a further word.
_Others: TypeAlias = dict[str, DeleteOutcome]


class BulkDelete:
    """One call of `delete_many`."""

    def __init__(
        self,
        backend: Backend,
        congestion: CongestionControl,
        options: StorageOptions,
        seconds_left: Callable[[], float] = forever,
    ) -> None:
        self._backend = backend
        self._congestion = congestion
        self._options = options
        self._terms = NO_TERMS if seconds_left is forever else DeleteTerms(seconds_left)

    def run(self, keys: Sequence[str]) -> DeleteOutcomes:
        """One outcome per key, in order; a key given twice is deleted once."""
        if len(set(keys)) == len(keys):
            return DeleteOutcomes(keys, self._delete_batches(keys, self._terms))
        once = list(dict.fromkeys(keys))
        return DeleteOutcomes(keys, self._delete_batches(once, self._terms))

    def run_expected(
        self,
        keys: Sequence[str],
        expected: Mapping[str, ObjectInfo],
        find: Callable[[str], ObjectInfo | None],
    ) -> DeleteOutcomes:
        """One outcome per key, in order; those in `expected` are looked up first, and kept where they are others now."""
        others: dict[str, DeleteOutcome] = {}
        once = list(dict.fromkeys(keys))
        for first in range(0, len(once), _LOOKED_UP_AT_ONCE):
            group = once[first : first + _LOOKED_UP_AT_ONCE]
            etags: dict[str, str] = {}

            def look_up(key: str, etags: dict[str, str] = etags) -> DeleteOutcome | None:
                return self._looked_up(expected[key], find, etags)

            asked = [key for key in group if key in expected and not is_odd_key(key)]
            looked = ordered_parallel(look_up, asked, self._options.max_requests_in_flight)
            others |= {key: outcome for key, outcome in looked if outcome is not None}
            left = [key for key in group if key not in others]
            terms = DeleteTerms(self._terms.seconds_left, etags)
            others |= self._delete_batches(left, terms)
        return DeleteOutcomes(keys, others)

    def _looked_up(
        self,
        expected: ObjectInfo,
        find: Callable[[str], ObjectInfo | None],
        etags: dict[str, str],
    ) -> DeleteOutcome | None:
        """The outcome of a key that is not to be deleted; None for one that is, whose etag is then in `etags`."""
        key = expected.key
        if self._terms.is_over:
            return _not_tried(key)
        try:
            found = find(key)
        except LakesweepError as error:
            return _refused(key, error)
        if found is None:
            return DeleteOutcome(key, DeleteStatus.ALREADY_ABSENT)
        if not is_same_object(expected, found):
            return DeleteOutcome(key, DeleteStatus.CHANGED, _CHANGED)
        if found.etag:
            etags[key] = found.etag
        return None

    def _delete_batches(self, keys: Sequence[str], terms: DeleteTerms) -> _Others:
        def delete(batch: Sequence[str]) -> _Others:
            return self._delete_plain(batch, terms)

        size = self._backend.delete_batch_size
        batches = [keys[first : first + size] for first in range(0, len(keys), size)]
        if len(batches) <= 1:
            return delete(keys) if keys else {}
        workers = min(self._options.max_requests_in_flight, len(batches))
        others: _Others = {}
        for _, of_batch in ordered_parallel(delete, batches, workers):
            others |= of_batch
        return others

    def _delete_plain(self, batch: Sequence[str], terms: DeleteTerms) -> _Others:
        """One batch without its odd keys, which are refused."""
        if not any_odd(batch):
            return self._delete(batch, terms)
        plain = [key for key in batch if not is_odd_key(key)]
        others = self._delete(plain, terms) if plain else {}
        odd = (key for key in batch if is_odd_key(key))
        return others | {key: DeleteOutcome(key, DeleteStatus.FAILED, _ODD_DETAIL) for key in odd}

    def _delete(self, batch: Sequence[str], terms: DeleteTerms) -> _Others:
        """One batch, tried again for the keys that the store throttled or did not get to, while time is left."""
        patience = Patience(self._options, seconds_left=terms.seconds_left)
        prefix = batch[0][: batch[0].rfind("/") + 1]
        others: _Others = {}
        left = batch
        is_first_try = True
        while True:
            try:
                with self._congestion.slot(prefix):
                    # Room may have been long in coming, so the time is looked at here, before each request.
                    if terms.is_over:
                        return {key: _not_tried(key) for key in left} | others
                    found = _of_each(left, self._backend.delete(left, terms))
            except StorageError as error:
                if isinstance(error, ThrottledError):
                    self._congestion.throttled(prefix)
                others |= {key: _refused(key, error) for key in left}
                if not patience.try_again(error):
                    return others
                is_first_try = False
                continue
            for key in left if others else ():
                others.pop(key, None)  # what an earlier try said of it
            if not is_first_try:
                found = {key: _absent_is_gone(outcome) for key, outcome in found.items()}
            others |= found
            left = [key for key, one in found.items() if one.status is DeleteStatus.THROTTLED]
            if not left:
                self._congestion.succeeded(prefix)
                return others
            self._congestion.throttled(prefix)
            if not patience.wait_out_throttling():
                return others


def _of_each(keys: Sequence[str], outcomes: Sequence[DeleteOutcome]) -> _Others:
    """The outcomes that say more than that a key is gone, from a store that must have told of each of these keys."""
    told = DeleteOutcomes.of(outcomes)
    if told.keys is not keys and set(told.keys) != set(keys):
        raise StorageError(
            f"{len(keys)} keys were to be deleted, and the answer tells of {len(told)} that are not these; their fate is unknown."
        )
    return dict(told.others)


def _not_tried(key: str) -> DeleteOutcome:
    return DeleteOutcome(key, DeleteStatus.NOT_TRIED, _TOO_LATE)


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
