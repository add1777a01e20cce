"""Sizes of objects in one byte each, so that live bytes can be summed beside hashes without doubling their room.

Four steps for each power of two, rounded down: a sum is at most a sixth too small, and never too large. A share of
what is live is then rather told too large, which is the safe side of a blast radius.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Magnitudes", "magnitudes_of", "sum_of_magnitudes"]

Magnitudes = npt.NDArray[np.uint8]

_STEPS = 4


def magnitudes_of(sizes: npt.NDArray[np.int64]) -> Magnitudes:
    """One byte for each size; a negative size counts as none."""
    steps: npt.NDArray[np.float64] = _STEPS * np.log2(np.maximum(sizes, 0) + 1.0)
    return np.floor(steps).astype(np.uint8)


def sum_of_magnitudes(magnitudes: Magnitudes) -> int:
    """The bytes that objects of these magnitudes have at least."""
    counts = np.bincount(magnitudes, minlength=256).tolist()
    return sum(n * (int(2.0 ** (code / _STEPS)) - 1) for code, n in enumerate(counts) if n)
