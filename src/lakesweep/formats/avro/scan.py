"""The program of a schema, run in compiled code over unpacked blocks. Every bound is checked before it is used."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakesweep.formats.avro import faults
from lakesweep.formats.avro import program as ops
from lakesweep.formats.jit import jitted
from lakesweep.formats.octets import Bytes, byte_at, copy_bytes, read_varint

__all__ = ["STACK_SIZE", "gather_texts", "scan_blocks"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

STACK_SIZE = 1024
_WIDTH = ops.WIDTH
_SKIP_LONG, _READ_LONG, _READ_INT, _READ_ENUM = (
    ops.SKIP_LONG,
    ops.READ_LONG,
    ops.READ_INT,
    ops.READ_ENUM,
)
_SKIP_TEXT, _READ_TEXT, _CHOOSE, _LOOP = ops.SKIP_TEXT, ops.READ_TEXT, ops.CHOOSE, ops.LOOP
_NEXT, _SKIP_BYTES, _READ_BYTES = ops.NEXT, ops.SKIP_BYTES, ops.READ_BYTES
_SKIP_BOOLEAN, _READ_BOOLEAN = ops.SKIP_BOOLEAN, ops.READ_BOOLEAN
_JUMP, _CALL, _RETURN, _END = ops.JUMP, ops.CALL, ops.RETURN, ops.END

_VARINT, _BOUNDS, _BOOLEAN = -faults.VARINT, -faults.BOUNDS, -faults.BOOLEAN
_BRANCH, _INT_RANGE, _SYMBOL = -faults.BRANCH, -faults.INT_RANGE, -faults.SYMBOL
_DEPTH, _COUNT, _TRAILING = -faults.DEPTH, -faults.COUNT, -faults.TRAILING
_SMALLEST_INT, _LARGEST_INT = -(1 << 31), (1 << 31) - 1


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
            zigzag, pos = read_varint(data, pos, end)
            if pos < 0:
                stack[0] = before
                return _VARINT
            number = ((zigzag >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(zigzag & 1)
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
        elif operation == _LOOP:
            if number == 0:
                pc = a
            elif number < 0:
                # A block of items that says how long it is, for those who want none of them.
                zigzag, after = read_varint(data, pos, end)
                size = ((zigzag >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(zigzag & 1)
                if after < 0 or size < 0 or size > end - after:
                    fault = _COUNT
                else:
                    pos = after + size
                    pc -= 1
            elif code[at + 2] == 1:
                pc -= 1
            elif number > end - pos:
                fault = _COUNT
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
