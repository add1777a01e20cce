"""Hashes of folded file names, the way both sides of the anti-join over a catalog are made.

Nearly every name is folded already but for its scheme, and compiled code sees that and hashes it as it lies. The rest
goes through `fold`. Both roads give the same hash for every name, which a property test holds them to.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.domain.file_names import fold
from lakesweep.errors import FormatError
from lakesweep.formats.hashing import hash_addresses, text_buffers, xxh64
from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, byte_at, copy_bytes

__all__ = ["hash_files", "hash_listed_files"]

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

_S3 = np.frombuffer(b"s3://", np.uint8)
_FILE = np.frombuffer(b"file:///", np.uint8)
_LONGEST = 1 << 10  # longer ones are rare, and `fold` knows where to stop
_SLASH, _DOT, _PERCENT, _DASH, _UNDERLINE = (ord(sign) for sign in "/.%-_")
_A, _F, _G, _N, _S, _Z, _0, _9 = (ord(sign) for sign in "afgnsz09")


def hash_files(paths: pa.Array) -> Hashes:
    """The hashes of the folded names of files, in order.

    Raises:
        FormatError: a name that can't be folded: it would be lost from the live ones.
        ValueError: a null.
    """
    hashes, unsound = _hash_column(paths)
    for row in np.flatnonzero(unsound):
        fold(paths[int(row)].as_py())  # raises, with its reason
    return hashes


def hash_listed_files(paths: pa.Array) -> tuple[Hashes, Flags]:
    """The hashes, and which names can be folded at all. A listed file that has no sound name is to be kept."""
    hashes, unsound = _hash_column(paths)
    return hashes, ~unsound


def _hash_column(paths: pa.Array) -> tuple[Hashes, Flags]:
    hashes = np.zeros(len(paths), np.uint64)
    is_left = np.zeros(len(paths), np.bool_)
    if len(paths) == 0:
        return hashes, is_left
    data, offsets = text_buffers(paths, "file names")
    longest = int(np.diff(offsets).max())
    with np.errstate(over="ignore"):
        _hash_folded(data, offsets, np.empty(longest + _FILE.size, np.uint8), hashes, is_left)
    left = np.flatnonzero(is_left)
    if left.size:
        names = paths.cast(pa.large_string()).take(pa.array(left)).to_pylist()
        folded = [_folded_or_none(name) for name in names]
        is_left[left] = [name is None for name in folded]
        hashes[left] = hash_addresses(pa.array([name or "" for name in folded], pa.large_string()))
    return hashes, is_left


def _folded_or_none(name: str) -> str | None:
    try:
        return fold(name)
    except FormatError:
        return None


@jitted
def _hash_folded(
    data: Bytes, offsets: Ints, scratch: Bytes, hashes: Hashes, is_left: Flags
) -> None:
    """Hash the names of which all but the scheme is as `fold` would leave it; mark the others as left to do."""
    for row in range(hashes.size):
        start = offsets[row]
        end = offsets[row + 1]
        rest, path, is_rewritten = _parts(data, start, end)
        if path < 0 or end - start > _LONGEST or not _is_tidy(data, path, end):
            is_left[row] = True
        elif is_rewritten:
            prefix = _S3 if byte_at(data, start) == _S else _FILE
            copy_bytes(prefix, 0, prefix.size, scratch, 0)
            copy_bytes(data, rest, end - rest, scratch, prefix.size)
            hashes[row] = xxh64(scratch, 0, prefix.size + end - rest)
        else:
            hashes[row] = xxh64(data, start, end - start)


@jitted
def _parts(data: Bytes, start: int, end: int) -> tuple[int, int, bool]:
    """(where the part behind the scheme begins, where the path's first segment does, whether `fold` changes the scheme).

    The second is -1 if this is none of s3, s3a, s3n, gs with a plain bucket, file:/, file:/// and a bare path.
    """
    size = end - start
    if size > 0 and byte_at(data, start) == _SLASH:
        return start + 1, start + 1, True
    colon = start
    while colon < end and colon - start < 5 and byte_at(data, colon) != 58:
        colon += 1
    # Scheme, colon, a slash, and two bytes more.
    if colon + 3 >= end or byte_at(data, colon) != 58 or byte_at(data, colon + 1) != _SLASH:
        return 0, -1, False
    length = colon - start
    first = byte_at(data, start)
    if length == 4 and _is_file(data, start):
        if byte_at(data, colon + 2) != _SLASH:
            return colon + 2, colon + 2, True
        if byte_at(data, colon + 3) == _SLASH:
            return colon + 4, colon + 4, False
        return 0, -1, False
    if byte_at(data, colon + 2) != _SLASH:
        return 0, -1, False
    is_s3 = first == _S and (length == 2 or length == 3) and byte_at(data, start + 1) == 51
    is_rewritten = is_s3 and length == 3
    if is_rewritten:
        last = byte_at(data, start + 2)
        is_s3 = last in (_A, _N)
    is_gs = first == _G and length == 2 and byte_at(data, start + 1) == _S
    if not is_s3 and not is_gs:
        return 0, -1, False
    return colon + 3, _after_bucket(data, colon + 3, end), is_rewritten


@jitted
def _is_file(data: Bytes, start: int) -> bool:
    return (
        byte_at(data, start) == _F
        and byte_at(data, start + 1) == 105
        and byte_at(data, start + 2) == 108
        and byte_at(data, start + 3) == 101
    )


@jitted
def _after_bucket(data: Bytes, start: int, end: int) -> int:
    """Where the key begins, or -1 if there is none or the bucket's name has other signs than lower-case ones."""
    pos = start
    while pos < end:
        byte = byte_at(data, pos)
        if byte == _SLASH:
            return pos + 1 if pos > start else -1
        is_plain = _A <= byte <= _Z or _0 <= byte <= _9
        if not is_plain and byte != _DOT and byte != _DASH and byte != _UNDERLINE:
            return -1
        pos += 1
    return -1


@jitted
def _is_tidy(data: Bytes, start: int, end: int) -> bool:
    """Whether every segment is one that `fold` leaves alone; one that begins with a dot is looked at there."""
    before = _SLASH
    for pos in range(start, end):
        byte = byte_at(data, pos)
        if byte == _PERCENT or (before == _SLASH and byte in (_SLASH, _DOT)):
            return False
        before = byte
    return before != _SLASH
