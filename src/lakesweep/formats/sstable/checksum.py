"""CRC-32C, masked as RocksDB stores it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.jit import jitted

__all__ = ["masked_crc32c"]

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
_MASK_DELTA = 0xA282EAD8


def _tables() -> npt.NDArray[np.uint32]:
    # Table k advances a byte over k further zero bytes, so that eight bytes are looked up at once.
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for k in range(1, 8):
        for byte in range(256):
            previous = int(tables[k - 1, byte])
            tables[k, byte] = previous >> 8 ^ int(tables[0, previous & 0xFF])
    return tables


_TABLES = _tables()


@jitted
def masked_crc32c(data: npt.NDArray[np.uint8], start: int, length: int) -> int:
    """The masked checksum of `length` bytes from `start`. The caller has checked that they are there."""
    crc = np.uint32(0xFFFFFFFF)
    pos = start
    end = start + length
    while pos + 8 <= end:
        crc = (
            _TABLES[7, np.uint32(data[pos]) ^ (crc & np.uint32(0xFF))]
            ^ _TABLES[6, np.uint32(data[pos + 1]) ^ (crc >> np.uint32(8) & np.uint32(0xFF))]
            ^ _TABLES[5, np.uint32(data[pos + 2]) ^ (crc >> np.uint32(16) & np.uint32(0xFF))]
            ^ _TABLES[4, np.uint32(data[pos + 3]) ^ (crc >> np.uint32(24))]
            ^ _TABLES[3, data[pos + 4]]
            ^ _TABLES[2, data[pos + 5]]
            ^ _TABLES[1, data[pos + 6]]
            ^ _TABLES[0, data[pos + 7]]
        )
        pos += 8
    while pos < end:
        crc = _TABLES[0, (crc ^ np.uint32(data[pos])) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        pos += 1
    plain = int(np.int64(crc)) ^ 0xFFFFFFFF
    rotated = (plain >> 15) | ((plain << 17) & 0xFFFFFFFF)
    return (rotated + _MASK_DELTA) & 0xFFFFFFFF
