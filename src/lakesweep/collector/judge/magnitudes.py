"""Sizes of objects in one byte each, so that live bytes can be summed beside hashes without doubling their room.

Four steps for each power of two, rounded down: a sum is at most a sixth too small, and never too large. A share of
what is live is then rather told too large, which is the safe side of a blast radius.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["CODES", "Magnitudes", "least_bytes", "magnitudes_of"]

Magnitudes = npt.NDArray[np.uint8]

CODES = 256  # different magnitudes
_STEPS = 4
_SURE_BY = 3  # standard deviations of a sample's sum


def magnitudes_of(sizes: npt.NDArray[np.int64]) -> Magnitudes:
    """One byte for each size; a negative size counts as none."""
    steps: npt.NDArray[np.float64] = _STEPS * np.log2(np.maximum(sizes, 0) + 1.0)
    return np.floor(steps).astype(np.uint8)


def least_bytes(counts: Sequence[int], share: int = 1) -> int:
    """The bytes that objects have at least, by how many of them have each magnitude; of a sample, each stands for `share`.

    A sample with a few huge objects says little of the bytes that it was taken from: what it may be wrong by is taken off,
    down to what the sample itself has.
    """
    sizes = [int(2.0 ** (code / _STEPS)) - 1 for code in range(len(counts))]
    held = sum(n * size for n, size in zip(counts, sizes, strict=True))
    squares = sum(n * size * size for n, size in zip(counts, sizes, strict=True))
    wrong_by = _SURE_BY * math.isqrt(share * (share - 1) * squares)
    return max(held, held * share - wrong_by)
