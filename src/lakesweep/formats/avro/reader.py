"""Columns of an Avro file as Arrow arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.formats.avro.codecs import unpacker
from lakesweep.formats.avro.container import Blocks, Container, open_container
from lakesweep.formats.avro.faults import avro_error, fault_error
from lakesweep.formats.avro.program import Column, Program, compile_program
from lakesweep.formats.avro.scan import STACK_SIZE, gather_texts, scan_blocks
from lakesweep.formats.damage import named_damage

__all__ = ["columns_of", "read_columns"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_GROUP_BYTES = 16 << 20  # blocks are unpacked and scanned together up to this size
_LARGEST_COLUMN = (1 << 31) - 1  # Arrow's strings count their bytes in 32 bits
_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    None: pa.null(),
}


def read_columns(data: bytes, columns: Sequence[str], *, what: str) -> pa.RecordBatch:
    """The wanted columns of all objects in the file.

    Args:
        data: the whole file.
        columns: fields of the object, `status`, or of records in it, `data_file.file_path`. Values are strings, bytes,
            fixed, ints, longs, booleans or enums (as their names), each perhaps in a union with null. A column
            that the writer's schema lacks is all null, of Arrow's type null.
        what: the file's name for messages.

    Raises:
        FormatError: damage of any kind. Nothing of a damaged file is returned.
    """
    with named_damage(what):
        return columns_of(open_container(data), columns)


def columns_of(container: Container, columns: Sequence[str]) -> pa.RecordBatch:
    """The wanted columns of all objects in a file whose header has been read; see `read_columns`."""
    program = compile_program(container.schema, tuple(columns))
    schema = pa.schema([(column.path, _TYPES[column.kind]) for column in program.columns])
    batches = [
        pa.RecordBatch.from_arrays(arrays, schema=schema)
        for arrays in _scan_groups(container, program)
    ]
    if len(batches) == 1:
        return batches[0]
    if sum(batch.nbytes for batch in batches) > _LARGEST_COLUMN:
        raise avro_error("it holds more than can be read at once")
    table = pa.Table.from_batches(batches, schema).combine_chunks()
    whole = table.to_batches()
    return whole[0] if whole else schema.empty_table().to_batches()[0]


def _scan_groups(container: Container, program: Program) -> Iterator[list[pa.Array]]:
    """Unpack and scan as many blocks at a time as fill a group, so that memory is spent on columns only."""
    unpack = unpacker(container.codec)
    blocks = container.blocks()
    if unpack is None:
        yield _scan(container.data, blocks, 0, program)
        return
    view = memoryview(container.data)
    group: list[bytes | memoryview] = []
    first = size = 0
    for start, end in zip(blocks.starts.tolist(), blocks.ends.tolist(), strict=True):
        group.append(unpack(view[start:end]))
        size += len(group[-1])
        if size >= _GROUP_BYTES:
            yield _scan_group(group, blocks, first, program)
            first += len(group)
            group, size = [], 0
    yield _scan_group(group, blocks, first, program)


def _scan_group(
    group: list[bytes | memoryview], packed: Blocks, first: int, program: Program
) -> list[pa.Array]:
    ends = np.cumsum([len(unpacked) for unpacked in group], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if group else ends
    counts = packed.counts[first : first + len(group)]
    whole = group[0] if len(group) == 1 else b"".join(group)
    return _scan(whole, Blocks(counts, starts, ends), first, program)


def _scan(
    whole: bytes | memoryview, blocks: Blocks, first: int, program: Program
) -> list[pa.Array]:
    """Read the objects of unpacked blocks; `first` is the number of the first one, for messages."""
    data = np.frombuffer(whole, np.uint8)
    data.flags.writeable = False  # one type for compiled code, whatever the bytes came from
    # Each object takes a byte or more, so a count can't be made up.
    most = (blocks.ends - blocks.starts) // max(program.smallest_row, 1)
    for number in np.flatnonzero(blocks.counts > most):
        raise avro_error(f"block {first + number} promises more objects than it can hold")
    rows = int(blocks.counts.sum())
    shape = (len(program.columns), rows)
    values, sizes = np.empty(shape, np.int64), np.empty(shape, np.int64)
    is_set = np.zeros(shape, np.bool_)
    stack = np.empty(STACK_SIZE, np.int64)
    starts, ends, counts = blocks.starts, blocks.ends, blocks.counts
    status, block, where = scan_blocks(
        data, starts, ends, counts, program.code, stack, values, sizes, is_set
    )
    if status < 0:
        raise fault_error(status, f"block {first + block}", where)
    return [
        _array(column, data, values[i], sizes[i], is_set[i])
        for i, column in enumerate(program.columns)
    ]


def _array(column: Column, data: Bytes, values: Ints, sizes: Ints, is_set: Flags) -> pa.Array:
    if column.kind is None:
        return pa.nulls(len(values))
    if column.kind in ("string", "bytes", "fixed"):
        return _texts(column, data, values, sizes, is_set)
    mask = None if is_set.all() else ~is_set
    if column.kind == "enum":
        numbers = pa.array(values, pa.int64(), mask=mask)
        return pa.array(column.symbols, pa.string()).take(numbers)
    if column.kind == "boolean":
        return pa.array(values == 1, pa.bool_(), mask=mask)
    kept = values if column.kind == "long" else values.astype(np.int32)
    return pa.array(kept, _TYPES[column.kind], mask=mask)


def _texts(column: Column, data: Bytes, starts: Ints, sizes: Ints, is_set: Flags) -> pa.Array:
    total = int(sizes.sum(where=is_set))
    if total > _LARGEST_COLUMN:
        raise avro_error(f"its column {column.path!r} holds more than can be read at once")
    offsets = np.empty(len(starts) + 1, np.int32)
    out = np.empty(total, np.uint8)
    gather_texts(data, starts, sizes, is_set, offsets, out)
    validity = None if is_set.all() else pa.py_buffer(np.packbits(is_set, bitorder="little"))
    array = pa.Array.from_buffers(
        _TYPES[column.kind], len(starts), [validity, pa.py_buffer(offsets), pa.py_buffer(out)]
    )
    if column.kind == "string":
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise avro_error(f"its column {column.path!r} holds bytes that are not text") from error
    return array
