"""The rows of a listing page as columns, by compiled code (`page_scan.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakesweep.storage.s3.page_scan import GIVE_UP, Bytes, Ints, scan

_SHORTEST_ROW = 60


@dataclass(frozen=True, slots=True)
class ScannedRows:
    """Columns of a run of `<Contents>`, and where in the page the run ends."""

    end: int
    keys: Bytes
    key_offsets: npt.NDArray[np.int32]
    sizes: Ints
    times_us: Ints
    etags: Bytes
    etag_offsets: npt.NDArray[np.int32]
    is_odd: npt.NDArray[np.bool_]


def scan_rows(page: bytes, start: int, base: bytes, *, is_encoded: bool) -> ScannedRows | None:
    """The rows of the run that begins at `start`, keys relative to `base`; None when it is not in the plain form."""
    text = np.frombuffer(page, np.uint8)
    room = len(page) - start
    capacity = room // _SHORTEST_ROW + 1
    keys, etags = np.empty(room, np.uint8), np.empty(room, np.uint8)
    key_offsets, etag_offsets = np.zeros(capacity + 1, np.int32), np.zeros(capacity + 1, np.int32)
    sizes, times_us = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    is_odd = np.empty(capacity, np.bool_)
    count, end = scan(
        text,
        start,
        np.frombuffer(base, np.uint8),
        is_encoded,
        keys,
        key_offsets,
        sizes,
        times_us,
        etags,
        etag_offsets,
        is_odd,
    )
    if count == GIVE_UP:
        return None
    return ScannedRows(
        end=end,
        keys=keys[: key_offsets[count]].copy(),
        key_offsets=key_offsets[: count + 1].copy(),
        sizes=sizes[:count].copy(),
        times_us=times_us[:count].copy(),
        etags=etags[: etag_offsets[count]].copy(),
        etag_offsets=etag_offsets[: count + 1].copy(),
        is_odd=is_odd[:count].copy(),
    )
