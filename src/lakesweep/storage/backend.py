"""What one kind of store must be able to do. Backends are dumb: no retries, no threads, keys relative to their root.

`ObjectStore` adds what is the same for all: refusing odd keys, retries, congestion control, requests in parallel.
A backend raises lakesweep's own errors only (`translate.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from lakesweep.storage.bare_requests import BareListRequests, StoreKeyRequests
from lakesweep.storage.signing import UrlSigner
from lakesweep.storage.values import NO_TERMS, DeleteOutcome, DeleteTerms, Folder, ObjectInfo


class Backend(Protocol):
    """One store, seen from one root."""

    @property
    def delete_batch_size(self) -> int:
        """How many keys one `delete` call may take."""

    @property
    def is_key_ordered(self) -> bool:
        """Whether `scan` yields keys in byte order, so that a broken scan can go on after its last key."""

    @property
    def reads_odd_keys(self) -> bool:
        """Whether `get` carries odd keys unchanged."""

    @property
    def signer(self) -> UrlSigner | None:
        """What signs URLs of its objects; None where the store has no such URLs."""

    def scan(self, prefix: str, start_after: str | None) -> Iterator[pa.RecordBatch]:
        """Every object whose key begins with `prefix` and sorts after `start_after`; raises, never ends early."""

    def folder(self, prefix: str) -> Folder:
        """One level below `prefix`, which is empty or ends in "/"."""

    def first_key(self, prefix: str, start_after: str | None) -> str | None:
        """The smallest key under `prefix` after `start_after`, cheaply."""

    def get(self, key: str) -> bytes: ...

    def bare_gets(self) -> StoreKeyRequests[bytes] | None:
        """Requests of our own that read whole objects, many of them from one thread; None where there are none."""

    def bare_heads(self) -> StoreKeyRequests[ObjectInfo] | None:
        """Requests of our own that look objects up, many of them from one thread; None where there are none."""

    def bare_lists(self) -> BareListRequests | None:
        """Requests of our own that list, many of them from one thread; None where there are none."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Up to `length` bytes from `start`; fewer only where the object ends, none past its end."""

    def stream(self, key: str) -> Iterator[bytes]: ...

    def head(self, key: str) -> ObjectInfo: ...

    def put(self, key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo: ...

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> ObjectInfo: ...

    def copy_from(self, source: Backend, source_key: str, target_key: str) -> bool:
        """Copies on the server's side; False, having done nothing, where that is not possible."""

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> Sequence[DeleteOutcome]:
        """Deletes up to `delete_batch_size` keys, one outcome each; THROTTLED ones may be tried again.

        The caller looks at the time before the call; who sends more than one request looks before each of the others.
        """
