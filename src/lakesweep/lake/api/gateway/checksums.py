"""The checksums that S3 clients send with a body, so that what is stored is what was sent."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from lakesweep.formats.jit import jitted
from lakesweep.lake.api.gateway.errors import S3Error

__all__ = ["BodyChecksum", "checksum_headers", "open_checksum"]

_PREFIX: Final = "x-amz-checksum-"
# Headers with the same prefix that name the algorithm or kind and carry no sum.
_NOT_SUMS: Final = frozenset(
    {"x-amz-checksum-algorithm", "x-amz-checksum-type", "x-amz-checksum-mode"}
)


class BodyChecksum(Protocol):
    """Takes a body piece by piece and gives its sum."""

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


def checksum_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The sums among `headers` (or trailing headers), by header name."""
    return {
        name: value
        for name, value in headers.items()
        if name.startswith(_PREFIX) and name not in _NOT_SUMS
    }


def open_checksum(header: str) -> BodyChecksum:
    """A fresh sum of the algorithm that a checksum header names."""
    make = _ALGORITHMS.get(header.removeprefix(_PREFIX))
    if make is None:
        raise S3Error(
            "NotImplemented", f"The checksum algorithm of the header {header} is not implemented."
        )
    return make()


def decode_sum(header: str, value: str) -> bytes:
    """The bytes of a sum that travels in base64."""
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise S3Error("InvalidRequest", f"Value for {header} header is invalid.") from None


class _Crc:
    """A sum that is one running number."""

    def __init__(self, step: Callable[[bytes, int], int], width: int) -> None:
        self._step = step
        self._width = width
        self._value = 0

    def update(self, data: bytes) -> None:
        self._value = self._step(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._width, "big")


def _reflected_crc(polynomial: int, width: int) -> Callable[[bytes, int], int]:
    """A step function for a CRC of `width` bytes, bits reflected, ones before and after."""
    ones = (1 << (8 * width)) - 1
    table = _crc_table(polynomial)

    def step(data: bytes, value: int) -> int:
        return int(_crc_of(np.frombuffer(data, np.uint8), np.uint64(value ^ ones), table)) ^ ones

    return step


@cache
def _crc_table(polynomial: int) -> npt.NDArray[np.uint64]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        table.append(value)
    return np.array(table, np.uint64)


@jitted
def _crc_of(
    data: npt.NDArray[np.uint8], value: np.uint64, table: npt.NDArray[np.uint64]
) -> np.uint64:
    for byte in data:
        value = table[(value ^ np.uint64(byte)) & np.uint64(0xFF)] ^ (value >> np.uint64(8))
    return value


_ALGORITHMS: Final[Mapping[str, Callable[[], BodyChecksum]]] = {
    "crc32": lambda: _Crc(zlib.crc32, 4),
    "crc32c": lambda: _Crc(_reflected_crc(0x82F63B78, 4), 4),
    "crc64nvme": lambda: _Crc(_reflected_crc(0x9A6C9329AC4BC9B5, 8), 8),
    "sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "sha256": hashlib.sha256,
    "sha512": hashlib.sha512,
    "md5": lambda: hashlib.md5(usedforsecurity=False),
}
