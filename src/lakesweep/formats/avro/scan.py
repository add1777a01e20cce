"""The program of a schema, run in compiled code over unpacked blocks. Every bound is checked before it is used."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.avro import faults
from lakesweep.formats.avro import program as ops
from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, byte_at, copy_bytes, read_varint

__all__ = [
    "SMALLEST_BLOCK",
    "STACK_SIZE",
    "SYNC_SIZE",
    "find_blocks",
    "gather_texts",
    "scan_blocks",
]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

STACK_SIZE = 1024
SYNC_SIZE = 16
SMALLEST_BLOCK = 2 + SYNC_SIZE  # two numbers of a byte each, and the marker
_WIDTH = ops.WIDTH
_SKIP_LONG, _READ_LONG, _READ_INT, _READ_ENUM = (
    ops.SKIP_LONG,
    ops.READ_LONG,
    ops.READ_INT,
    ops.READ_ENUM,
)
_SKIP_TEXT, _READ_TEXT, _CHOOSE = ops.SKIP_TEXT, ops.READ_TEXT, ops.CHOOSE
_ITEMS, _LOOP = ops.ITEMS, ops.LOOP
_NEXT, _SKIP_BYTES, _READ_BYTES = ops.NEXT, ops.SKIP_BYTES, ops.READ_BYTES
_SKIP_BOOLEAN, _READ_BOOLEAN = ops.SKIP_BOOLEAN, ops.READ_BOOLEAN
_JUMP, _CALL, _RETURN, _END = ops.JUMP, ops.CALL, ops.RETURN, ops.END

_VARINT, _BOUNDS, _BOOLEAN = -faults.VARINT, -faults.BOUNDS, -faults.BOOLEAN
_BRANCH, _INT_RANGE, _SYMBOL = -faults.BRANCH, -faults.INT_RANGE, -faults.SYMBOL
_DEPTH, _COUNT, _TRAILING = -faults.DEPTH, -faults.COUNT, -faults.TRAILING
_BLOCK_BOUNDS, _SYNC = -faults.BLOCK_BOUNDS, -faults.SYNC
_SMALLEST_INT, _LARGEST_INT = -(1 << 31), (1 << 31) - 1


@jitted
def find_blocks(data: Bytes, body: int, counts: Ints, starts: Ints, ends: Ints) -> tuple[int, int]:
    """Find every block from `body`, where the sync marker has just ended, to the end of the file.

    Fills in how many objects each block has and where its packed bytes lie; the columns have room for a block every
    SMALLEST_BLOCK bytes. Returns (number of blocks or a fault, offset of the faulty block).
    """
    end = data.size
    found = 0
    pos = body
    while pos < end:
        at = pos
        count, pos = _read_long(data, pos, end)
        size = 0
        if pos >= 0:
            size, pos = _read_long(data, pos, end)
        if pos < 0 or count < 0 or size < 0 or size > end - pos - SYNC_SIZE or found >= counts.size:
            return _BLOCK_BOUNDS, at
        counts[found] = count
        starts[found] = pos
        pos += size
        ends[found] = pos
        found += 1
        for i in range(SYNC_SIZE):
            if byte_at(data, pos + i) != byte_at(data, body - SYNC_SIZE + i):
                return _SYNC, at
        pos += SYNC_SIZE
    return found, -1


@jitted
def _read_long(data: Bytes, pos: int, end: int) -> tuple[int, int]:
    """(a zigzag number, position after it); the position is -1 if it is cut short or too long."""
    zigzag, pos = read_varint(data, pos, end)
    return ((zigzag >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(zigzag & 1), pos


@jitted
def scan_blocks(
    data: Bytes,
    starts: Ints,
    ends: Ints,
    counts: Ints,
    code: Ints,
    stack: Ints,
    values: Ints,
    sizes: Ints,
    is_set: Flags,
) -> tuple[int, int, int]:
    """Read the objects of all blocks into the columns; returns (0 or a fault, number of the block, byte in it).

    `values`, `sizes` and `is_set` have a row for each column and room for the sum of `counts`. A number lands in
    `values`; of a text, `values` gets the place in `data` and `sizes` the length. What is not set is null.
    """
    row = 0
    for block in range(starts.size):
        pos = starts[block]
        end = ends[block]
        for _ in range(counts[block]):
            pos = _scan_object(data, pos, end, code, stack, row, values, sizes, is_set)
            if pos < 0:
                return pos, block, stack[0] - starts[block]
            row += 1
        if pos != end:
            return _TRAILING, block, pos - starts[block]
    return 0, -1, -1


@jitted
def _scan_object(
    data: Bytes,
    pos: int,
    end: int,
    code: Ints,
    stack: Ints,
    row: int,
    values: Ints,
    sizes: Ints,
    is_set: Flags,
) -> int:
    """Run the program once; returns the position after the object, or a fault, and then its place in `stack[0]`."""
    depth = 0
    pc = 0
    while True:
        at = pc * _WIDTH
        operation = code[at]
        a = code[at + 1]
        pc += 1
        number = 0
        if operation <= _LOOP:
            before = pos
            number, pos = _read_long(data, pos, end)
            if pos < 0:
                stack[0] = before
                return _VARINT
        fault = 0
        if operation == _SKIP_LONG:
            pass
        elif operation == _SKIP_TEXT:
            if number < 0 or number > end - pos:
                fault = _BOUNDS
            else:
                pos += number
        elif operation == _CHOOSE:
            if number < 0 or number >= a:
                fault = _BRANCH
            else:
                pc = code[(pc + number) * _WIDTH + 1]
        elif operation in (_ITEMS, _LOOP):
            if number == 0:
                pc = a if operation == _LOOP else pc
            elif number < 0:
                # A block of items that says how long it is, for those who want none of them.
                size, after = _read_long(data, pos, end)
                if after < 0 or size < 0 or size > end - after:
                    fault = _COUNT
                else:
                    pos = after + size
                    pc -= 1
            elif operation == _LOOP and code[at + 2] == 1:
                pc -= 1
            elif number > end - pos:
                fault = _COUNT
            elif operation == _ITEMS:
                after = _skip_items(data, pos, end, number, a, code[at + 2])
                if after < 0:
                    fault = _BOUNDS
                else:
                    pos = after
                    pc -= 1
            elif depth >= stack.size:
                fault = _DEPTH
            else:
                stack[depth] = number
                depth += 1
        elif operation == _NEXT:
            stack[depth - 1] -= 1
            if stack[depth - 1] == 0:
                depth -= 1
                pc = a
            else:
                pc = a + 1
        elif operation == _JUMP:
            pc = a
        elif operation == _SKIP_BYTES:
            if a > end - pos:
                fault = _BOUNDS
            else:
                pos += a
        elif operation == _READ_TEXT:
            if number < 0 or number > end - pos:
                fault = _BOUNDS
            else:
                values[a, row] = pos
                sizes[a, row] = number
                is_set[a, row] = True
                pos += number
        elif operation == _READ_BYTES:
            size = code[at + 2]
            if size > end - pos:
                fault = _BOUNDS
            else:
                values[a, row] = pos
                sizes[a, row] = size
                is_set[a, row] = True
                pos += size
        elif operation <= _READ_ENUM:
            if operation == _READ_INT and (number < _SMALLEST_INT or number > _LARGEST_INT):
                fault = _INT_RANGE
            elif operation == _READ_ENUM and (number < 0 or number >= code[at + 2]):
                fault = _SYMBOL
            else:
                values[a, row] = number
                is_set[a, row] = True
        elif operation in (_SKIP_BOOLEAN, _READ_BOOLEAN):
            if pos >= end:
                fault = _BOUNDS
            else:
                byte = byte_at(data, pos)
                if byte > 1:
                    fault = _BOOLEAN
                else:
                    pos += 1
                    if operation == _READ_BOOLEAN:
                        values[a, row] = byte
                        is_set[a, row] = True
        elif operation == _CALL:
            if depth >= stack.size:
                fault = _DEPTH
            else:
                stack[depth] = pc
                depth += 1
                pc = a
        elif operation == _RETURN:
            depth -= 1
            pc = stack[depth]
        else:
            return pos
        if fault < 0:
            stack[0] = pos
            return fault


@jitted
def _skip_items(data: Bytes, pos: int, end: int, count: int, fields: int, texts: int) -> int:
    """Pass over items of so many fields each, which are texts where a bit of `texts` is set and numbers elsewhere.

    Returns the position after them, or -1 if they do not end in time.
    """
    if texts == 0:
        left = count * fields
        while left > 0:
            if pos >= end:
                return -1
            left -= byte_at(data, pos) < 0x80
            pos += 1
        return pos
    for _ in range(count):
        for field in range(fields):
            number, pos = _read_long(data, pos, end)
            if pos < 0:
                return -1
            if (texts >> field) & 1:
                if number < 0 or number > end - pos:
                    return -1
                pos += number
    return pos


@jitted
def gather_texts(
    data: Bytes,
    starts: Ints,
    sizes: Ints,
    is_set: Flags,
    offsets: npt.NDArray[np.int32],
    out: Bytes,
) -> None:
    """Copy the texts of a column one behind another. `out` has room for all of them."""
    size = 0
    offsets[0] = 0
    for row in range(starts.size):
        if is_set[row]:
            copy_bytes(data, starts[row], sizes[row], out, size)
            size += sizes[row]
        offsets[row + 1] = size
