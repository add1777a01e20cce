"""Reading objects piece by piece, with one bound on what all readers of a process hold in memory together.

A piece stays in memory until its client has taken it, and a client may be as slow as it likes. So pieces are large while
few read, which is quick, and small while many do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from lakesweep.errors import StorageError
from lakesweep.storage import ObjectStore

FIRST_PIECE_BYTES = 256 * 1024
_ALL_PIECES_BYTES = 4 * 1024 * 1024
_LEAST_PIECE_BYTES, _MOST_PIECE_BYTES = 64 * 1024, 2 * 1024 * 1024


class ReadShares:
    """Counts the reads under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers = 0

    def pieces(
        self, store: ObjectStore, key: str, first: bytes, start: int, length: int
    ) -> Iterator[bytes]:
        """`length` bytes of an object from `start` on, of which the first ones are read already."""
        with self._lock:
            self._readers += 1
        try:
            sent = 0
            piece = first
            while sent < length:
                if not piece:
                    raise StorageError(
                        f"{store.root.child(key)} ended {length - sent} bytes before its entry says it does"
                    )
                yield piece
                sent += len(piece)
                if sent < length:
                    piece = store.read_range(key, start + sent, min(length - sent, self._share()))
        finally:
            with self._lock:
                self._readers -= 1

    def _share(self) -> int:
        share = _ALL_PIECES_BYTES // max(1, self._readers)
        return max(_LEAST_PIECE_BYTES, min(share, _MOST_PIECE_BYTES))
