"""A store that fails on purpose, the same way every time for one seed.

Whether a call fails depends on the seed, the operation, the key and how often that was called before; not on which
thread came first. So a failing test fails again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import StorageDeniedError, StorageError, ThrottledError
from lakesweep.storage.backend import Backend
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.signing import UrlSigner
from lakesweep.storage.store import ObjectStore
from lakesweep.storage.translate import TRANSIENT
from lakesweep.storage.values import (
    NO_TERMS,
    DeleteOutcome,
    DeleteStatus,
    DeleteTerms,
    Folder,
    ObjectInfo,
)

__all__ = ["FaultPlan", "FaultyBackend", "FaultyStore", "SimulatedCrash"]

Result = TypeVar("Result")


class SimulatedCrash(BaseException):
    """The process dies here. Not an `Exception`, so that no handler of ours survives it."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What goes wrong, as shares of all calls (0 never, 1 always)."""

    errors: float = 0.0  # the call is not carried out, and a transient error comes back
    lost_answers: float = 0.0  # it is carried out, and a transient error comes back all the same
    throttling: float = 0.0  # "slow down"; not carried out
    denials: float = 0.0  # not allowed; not carried out
    truncation: float = 0.0  # a read gives fewer bytes than there are, without a word
    broken_listings: float = 0.0  # of pages: a listing raises after some of its keys
    failed_deletes: float = 0.0  # of the keys in a bulk delete, each failing by itself
    throttled_deletes: float = 0.0  # of the keys in a bulk delete, each throttled by itself
    longest_latency_seconds: float = 0.0
    crash_after_operations: int | None = None  # the next one dies, before or after its effect


class FaultyStore(ObjectStore):
    """`store`, with faults between it and its client: retries and congestion control are the real ones, but quick."""

    def __init__(
        self,
        store: ObjectStore,
        seed: int,
        plan: FaultPlan,
        *,
        options: StorageOptions | None = None,
    ) -> None:
        if options is None:
            options = dataclasses.replace(
                store.options, first_pause_seconds=0.001, throttle_patience_seconds=5.0
            )
        self.faults = FaultyBackend(store.backend, seed, plan)
        super().__init__(
            store.root, self.faults, options, CongestionControl(options.max_requests_in_flight)
        )


class FaultyBackend:
    """A backend whose calls fail by plan."""

    def __init__(self, inner: Backend, seed: int, plan: FaultPlan) -> None:
        self.inner = inner
        self.plan = plan
        self.operations = 0
        self._seed = seed
        self._calls: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    @property
    def delete_batch_size(self) -> int:
        return self.inner.delete_batch_size

    @property
    def is_key_ordered(self) -> bool:
        return self.inner.is_key_ordered

    @property
    def reads_odd_keys(self) -> bool:
        return self.inner.reads_odd_keys

    @property
    def signer(self) -> UrlSigner | None:
        return self.inner.signer

    def scan(self, prefix: str, start_after: str | None) -> Iterator[pa.RecordBatch]:
        for batch in self._done("list", prefix, lambda: self.inner.scan(prefix, start_after)):
            if self._happens(
                "broken-listing", f"{prefix}:{start_after}", self.plan.broken_listings
            ):
                half = batch.slice(0, batch.num_rows // 2)
                if half.num_rows:
                    yield half
                raise _broken("list", prefix)
            yield batch

    def folder(self, prefix: str) -> Folder:
        return self._done("folder", prefix, lambda: self.inner.folder(prefix))

    def first_key(self, prefix: str, start_after: str | None) -> str | None:
        return self._done("first-key", prefix, lambda: self.inner.first_key(prefix, start_after))

    def bare_gets(self) -> None:
        """None: every request goes through this wrapper."""

    def bare_heads(self) -> None:
        """None: every request goes through this wrapper."""

    def bare_lists(self) -> None:
        """None: every request goes through this wrapper."""

    def get(self, key: str) -> bytes:
        return self._cut(key, self._done("read", key, lambda: self.inner.get(key)))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        data = self._done("read", key, lambda: self.inner.get_range(key, start, length))
        return self._cut(key, data)

    def stream(self, key: str) -> Iterator[bytes]:
        for chunk in self._done("read", key, lambda: self.inner.stream(key)):
            yield self._cut(key, chunk)

    def head(self, key: str) -> ObjectInfo:
        return self._done("stat", key, lambda: self.inner.head(key))

    def put(self, key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo:
        return self._done(
            "write", key, lambda: self.inner.put(key, data, create=create, if_match=if_match)
        )

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> ObjectInfo:
        return self._done("write", key, lambda: self.inner.put_stream(key, chunks))

    def copy_from(self, source: Backend, source_key: str, target_key: str) -> bool:
        plain = source.inner if isinstance(source, FaultyBackend) else source
        return self._done(
            "copy", target_key, lambda: self.inner.copy_from(plain, source_key, target_key)
        )

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> list[DeleteOutcome]:
        failing = {
            key: DeleteOutcome(key, DeleteStatus.FAILED, "injected")
            for key in keys
            if self._happens("failed-delete", key, self.plan.failed_deletes)
        }
        for key in keys:
            if self._happens("throttled-delete", key, self.plan.throttled_deletes):
                failing[key] = DeleteOutcome(key, DeleteStatus.THROTTLED, "injected")
        healthy = [key for key in keys if key not in failing]
        done = self._done(
            "delete", keys[0], lambda: self.inner.delete(healthy, terms) if healthy else []
        )
        outcomes = {outcome.key: outcome for outcome in done} | failing
        return [outcomes[key] for key in keys]

    def _done(self, operation: str, key: str, action: Callable[[], Result]) -> Result:
        """Carries out one call, unless the plan has something else for it."""
        self._count(operation, key, action)
        plan = self.plan
        if plan.longest_latency_seconds:
            time.sleep(plan.longest_latency_seconds * self._chance("latency", f"{operation}:{key}"))
        name = f"{operation}:{key}"
        if self._happens("denied", name, plan.denials):
            raise StorageDeniedError(f"{operation} of {key!r} was denied (injected).")
        if self._happens("throttled", name, plan.throttling):
            raise ThrottledError(f"{operation} of {key!r} was throttled (injected).")
        if self._happens("error", name, plan.errors):
            raise _broken(operation, key)
        result = action()
        if self._happens("lost-answer", name, plan.lost_answers):
            raise _broken(operation, key)
        return result

    def _count(self, operation: str, key: str, action: Callable[[], object]) -> None:
        with self._lock:
            self.operations += 1
            limit = self.plan.crash_after_operations
            if limit is None or self.operations <= limit:
                return
            is_first = self.operations == limit + 1
        if is_first and self._happens("crash-after-effect", f"{operation}:{key}", 0.5):
            action()
        raise SimulatedCrash(f"the process died at operation {limit + 1}, {operation} of {key!r}")

    def _cut(self, key: str, data: bytes) -> bytes:
        if not data or not self._happens("truncated", key, self.plan.truncation):
            return data
        return data[: int(len(data) * self._chance("truncation", key))]

    def _happens(self, fault: str, name: str, share: float) -> bool:
        return share > 0 and self._chance(fault, name) < share

    def _chance(self, fault: str, name: str) -> float:
        """A number in [0, 1) for this call, whichever thread makes it."""
        with self._lock:
            self._calls[fault, name] += 1
            turn = self._calls[fault, name]
        digest = hashlib.blake2b(f"{self._seed}|{fault}|{name}|{turn}".encode(), digest_size=8)
        return int.from_bytes(digest.digest(), "big") / 2**64


def _broken(operation: str, key: str) -> StorageError:
    return StorageError(f"{operation} of {key!r} broke (injected).", kind=TRANSIENT)
