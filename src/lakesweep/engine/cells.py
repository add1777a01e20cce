"""Packed cells: the rows of one task and one partition as a single binary value.

Spark then shuffles a few thousand cells where it would have shuffled millions of rows (DESIGN D10).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.engine.tasks import CELL_SCHEMA

Hashes = npt.NDArray[np.uint64]

# A task has one thread.
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
# Larger cells strain the JVM's row buffers; callers flush before a partition's share grows past this.
MAX_CELL_BYTES = 16 * 1024 * 1024


def partition_of(hashes: Hashes, partitions: int) -> npt.NDArray[np.int64]:
    """The partition of each hash, by its high bits: equal hashes always meet."""
    high = hashes >> np.uint64(32)
    return ((high * np.uint64(partitions)) >> np.uint64(32)).astype(np.int64)


def _order_by_partition(
    hashes: Hashes, partitions: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    where = partition_of(hashes, partitions)
    # 16-bit keys take numpy's radix sort, which is linear.
    keys = where.astype(np.uint16) if partitions <= 65536 else where
    order = np.argsort(keys, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(where, minlength=partitions))))
    return order, bounds


def pack_hashes(kind: int, hashes: Hashes, partitions: int) -> pa.RecordBatch:
    """One cell per partition that has any of these hashes."""
    order, bounds = _order_by_partition(hashes, partitions)
    packed = np.ascontiguousarray(hashes[order])
    filled = np.flatnonzero(np.diff(bounds))
    offsets = np.concatenate((bounds[filled], bounds[-1:])) * 8
    return _cells(filled, kind, offsets, packed)


def unpack_hashes(cells: pa.Table, kind: int) -> Hashes:
    """All hashes of one kind among the cells."""
    blobs = _blobs_of(cells, kind)
    if not blobs:
        return np.empty(0, dtype=np.uint64)
    return np.concatenate([np.frombuffer(blob, dtype=np.uint64) for blob in blobs])


def pack_rows(kind: int, rows: pa.RecordBatch, hashes: Hashes, partitions: int) -> pa.RecordBatch:
    """Whole rows, packed as Arrow streams, by the partition of each row's hash."""
    order, bounds = _order_by_partition(hashes, partitions)
    ordered = rows.take(pa.array(order))
    filled = np.flatnonzero(np.diff(bounds))
    blobs = []
    for partition in filled:
        start, end = int(bounds[partition]), int(bounds[partition + 1])
        blobs.append(pack_stream(ordered.slice(start, end - start)))
    lengths = np.array([0] + [len(blob) for blob in blobs], dtype=np.int64)
    return _cells(filled, kind, np.cumsum(lengths), np.frombuffer(b"".join(blobs), dtype=np.uint8))


def pack_stream(rows: pa.RecordBatch) -> bytes:
    """Rows as one self-describing Arrow stream.

    Compressed, addresses take a third of their room, and the JVM, which carries each cell through several copies, has
    less to carry. Hashes would not shrink.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue())


def unpack_rows(cells: pa.Table, kind: int, schema: pa.Schema) -> pa.Table:
    """All rows of one kind among the cells."""
    batches: list[pa.RecordBatch] = []
    for blob in _blobs_of(cells, kind):
        with pa.ipc.open_stream(blob) as reader:
            batches.extend(reader)
    return pa.Table.from_batches(batches, schema=schema)


def packed_stream(cells: pa.Table, kind: int, schema: pa.Schema) -> bytes:
    """The rows of one kind among the cells, as one Arrow stream in which a meeting sends tasks' counts to the driver."""
    batches = unpack_rows(cells, kind, schema).combine_chunks().to_batches()
    return pack_stream(batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema))


def is_in(hashes: Hashes, ordered: Hashes) -> npt.NDArray[np.bool_]:
    """Which of the hashes are in the sorted array."""
    found = np.zeros(len(hashes), dtype=bool)
    if not len(ordered):
        return found
    # Looked up in order, neighbours share the cache: several times faster, the sorting included.
    order = np.argsort(hashes)
    wanted = hashes[order]
    at = np.searchsorted(ordered, wanted)
    at[at == len(ordered)] = 0
    found[order] = ordered[at] == wanted
    return found


def single_cell(kind: int, partition: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """One cell for a partition that the caller names; by it a task sends its counts along with its rows."""
    blob = pack_stream(rows)
    return _cells(
        np.array([partition]), kind, np.array([0, len(blob)]), np.frombuffer(blob, dtype=np.uint8)
    )


def _blobs_of(cells: pa.Table, kind: int) -> list[pa.Buffer]:
    found: list[pa.Buffer] = []
    for batch in cells.to_batches():
        kinds = batch.column("kind").to_numpy(zero_copy_only=False)
        blobs = batch.column("blob")
        found.extend(blobs[int(i)].as_buffer() for i in np.flatnonzero(kinds == kind))
    return found


def _cells(
    partitions: npt.NDArray[np.int64],
    kind: int,
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8] | Hashes,
) -> pa.RecordBatch:
    # from_buffers, because pa.array([memoryview, …]) leaks (feasibility.md, section 7).
    blob = pa.Array.from_buffers(
        pa.binary(),
        len(partitions),
        [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))],
    )
    return pa.RecordBatch.from_arrays(
        [
            pa.array(partitions.astype(np.int32)),
            pa.array(np.full(len(partitions), kind, dtype=np.int8)),
            blob,
        ],
        schema=CELL_SCHEMA,
    )


def flush_threshold(partitions: int, bytes_per_row: int) -> int:
    """How many rows a task may gather before it must emit cells, so that none grows past MAX_CELL_BYTES."""
    return max(10_000, partitions * MAX_CELL_BYTES // bytes_per_row // 2)
