"""Ranges of keys listed page by page: pages are checked for their order, and a broken listing goes on after its last key."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.domain.location import Location
from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import StorageError, ThrottledError
from lakesweep.storage.backend import Backend
from lakesweep.storage.bare_requests import BareListRequests, folder_of
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.multiplexer import Multiplexer
from lakesweep.storage.retry import Patience
from lakesweep.storage.translate import THROTTLE_STATUSES
from lakesweep.storage.values import KeyRange


@dataclass(frozen=True, slots=True)
class Scanner:
    """Lists ranges of keys of one store."""

    root: Location
    backend: Backend
    options: StorageOptions
    congestion: CongestionControl

    def scan(self, asked: KeyRange) -> Iterator[pa.RecordBatch]:
        """One range's batches; a broken scan goes on after the last key it gave, where order allows that."""
        patience, prefix = Patience(self.options), folder_of(asked.prefix)
        seen = _Seen(self, asked)
        batches = self.backend.scan(asked.prefix, asked.start_after)
        while not seen.is_over:
            try:
                with self.congestion.slot(prefix):
                    batch = next(batches, None)
            except StorageError as error:
                if isinstance(error, ThrottledError):
                    self.congestion.throttled(prefix)
                if not seen.may_go_on or not patience.try_again(error):
                    raise
                batches = self.backend.scan(asked.prefix, seen.start_after)
                continue
            if batch is None:
                return
            self.congestion.succeeded(prefix)
            patience.renew()
            new = seen.take(batch)
            if new.num_rows:
                yield new

    def scan_many(
        self,
        ranges: Sequence[KeyRange],
        requests: BareListRequests,
        multiplexer: Multiplexer,
    ) -> Generator[tuple[KeyRange, pa.RecordBatch], None, None]:
        """(range, batch) for all ranges, many pages under way from one thread.

        A page that gets no plain answer is asked for by `scan`, in a thread, with its retries and its errors.
        """
        most = self.options.max_requests_in_flight
        waiting = enumerate(ranges)
        seen: dict[int, _Seen] = {}
        tokens: dict[int, str | None] = {}
        repeated: dict[Future[pa.RecordBatch | None], int] = {}
        pool = ThreadPoolExecutor(most, thread_name_prefix="lakesweep-list")
        is_left = False

        def ask(place: int, token: str | None) -> None:
            one = seen[place]
            tokens[place] = token
            # A token alone says where to go on: what servers make of both is their own affair.
            start_after = one.start_after if token is None else None
            request = requests.request(one.asked.prefix, start_after, token)
            if request is None:
                repeated[pool.submit(self._next_batch, one)] = place
            else:
                multiplexer.send(place, request)

        try:
            with multiplexer:
                while True:
                    while len(seen) < min(most, self.congestion.total_limit):
                        place, asked = next(waiting, (-1, None))
                        if asked is None:
                            break
                        seen[place] = _Seen(self, asked)
                        ask(place, None)
                    if not seen:
                        return
                    for place, answer in multiplexer.wait():
                        one, folder = seen[place], folder_of(seen[place].asked.prefix)
                        page = None if answer is None else requests.page(answer, tokens[place])
                        if page is None:
                            if answer is not None and answer.status in THROTTLE_STATUSES:
                                self.congestion.throttled(folder)
                            if not one.may_go_on:
                                raise self.of_another_order(one.asked.prefix)
                            repeated[pool.submit(self._next_batch, one)] = place
                            continue
                        self.congestion.succeeded(folder)
                        new = one.take(page.objects)
                        if page.next_token is None or one.is_over:
                            del seen[place]
                        else:
                            ask(place, page.next_token)
                        if new.num_rows:
                            yield one.asked, new
                    if repeated:
                        patience = 0 if multiplexer.in_flight else None
                        for future in wait(repeated, patience, FIRST_COMPLETED).done:
                            place = repeated.pop(future)
                            one, batch = seen[place], future.result()
                            new = None if batch is None else one.take(batch)
                            if new is None or one.is_over:
                                del seen[place]
                            else:
                                ask(place, None)
                            if new is not None and new.num_rows:
                                yield one.asked, new
        except GeneratorExit:
            is_left = True
            raise
        finally:
            pool.shutdown(wait=not is_left, cancel_futures=True)

    def _next_batch(self, seen: _Seen) -> pa.RecordBatch | None:
        """The first batch of what is left of a range; None where nothing is left."""
        return next(self.scan(KeyRange(seen.asked.prefix, seen.start_after)), None)

    def is_in_order(self, batch: pa.RecordBatch, after: str | None) -> bool:
        """Whether a page is in byte order and comes after a key; True of stores of which nobody expects that."""
        # Of Google's keys an odd one may come late: see `CloudBackend._rest_of_scan`.
        if not self.backend.is_key_ordered or self.root.kind == "gs":
            return True
        keys = batch.column("key")
        if after is not None and keys[0].as_py() <= after:
            return False
        return bool(pc.all(pc.less_equal(keys[:-1], keys[1:]), min_count=0).as_py())

    def of_another_order(self, prefix: str) -> StorageError:
        """The error for a server whose keys come in an order that no part of a listing can be had in."""
        return StorageError(
            f"listing {self.root.child(prefix).uri} gave keys in another order than that of their bytes, or began before "
            "the key that it was to begin after. Of such a listing a part can't be had; nothing was taken from it. Use a "
            "store that lists in order, as S3 does."
        )


class _Seen:
    """How far the listing of a range has come."""

    def __init__(self, scanner: Scanner, asked: KeyRange) -> None:
        self._scanner, self.asked = scanner, asked
        self.start_after = asked.start_after
        self.is_over = False
        self._told, self._is_in_order = 0, True

    @property
    def may_go_on(self) -> bool:
        """Whether a listing from the last key on has all that is left.

        Keys that sort before the last one may be still to come where the server has another order.
        """
        return self._scanner.backend.is_key_ordered and self._is_in_order

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Note a page, and cut off what lies behind the range."""
        if batch.num_rows == 0:
            return batch
        asked = self.asked
        self._is_in_order = self._is_in_order and self._scanner.is_in_order(batch, self.start_after)
        if not self._is_in_order and asked.is_part:
            raise self._scanner.of_another_order(asked.prefix)
        self.start_after = batch.column("key")[-1].as_py()
        rows = batch.num_rows
        if asked.end_at is not None:
            batch = batch.filter(pc.less_equal(batch.column("key"), asked.end_at))
            self.is_over = self._scanner.backend.is_key_ordered and batch.num_rows < rows
        self._told += batch.num_rows
        self.is_over |= asked.most is not None and self._told >= asked.most
        return batch
