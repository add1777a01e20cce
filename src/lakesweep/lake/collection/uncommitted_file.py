"""One Parquet file of the list of uncommitted objects."""

from __future__ import annotations

import io
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.formats.tables import UNCOMMITTED_SCHEMA
from lakesweep.formats.xid import new_xid

_FLUSH_ROWS = 100_000
# Level 1 takes less than half the time of the usual 6 and makes files a tenth larger.
_GZIP_LEVEL = 1


class UncommittedFile:
    """Rows of (address, creation date), written out every hundred thousand so that the size is known."""

    def __init__(self, most_bytes: int) -> None:
        self.rows = 0
        self._most_bytes = most_bytes
        self._buffer = io.BytesIO()
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._addresses: list[str] = []
        self._seconds: list[int] = []

    @property
    def is_full(self) -> bool:
        """Whether the file has reached its size."""
        return self._buffer.tell() >= self._most_bytes

    def add(self, address: str, created_at: datetime) -> None:
        """Add one row."""
        self._addresses.append(address)
        self._seconds.append(int(created_at.timestamp() // 1))
        self.rows += 1
        if len(self._addresses) >= _FLUSH_ROWS:
            self._collect_single_rows()

    def add_columns(self, addresses: pa.StringArray, seconds: npt.NDArray[np.int64]) -> None:
        """Add many rows."""
        self.rows += len(addresses)
        self._wait(addresses, pa.array(seconds, pa.int64()))

    def finish(self) -> bytes:
        """The file."""
        self._collect_single_rows()
        self._flush()
        if self._writer is not None:
            self._writer.close()
        return self._buffer.getvalue()

    def name(self, now: datetime) -> str:
        """A name for the file, without an extension as lakeFS's have none."""
        return new_xid(now)

    def _collect_single_rows(self) -> None:
        self._wait(pa.array(self._addresses, pa.string()), pa.array(self._seconds, pa.int64()))
        self._addresses, self._seconds = [], []

    def _wait(self, addresses: pa.Array, seconds: pa.Array) -> None:
        if not len(addresses):
            return
        batch = pa.record_batch([addresses, seconds], schema=UNCOMMITTED_SCHEMA)
        self._waiting.append(batch)
        self._waiting_rows += len(batch)
        if self._waiting_rows >= _FLUSH_ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._buffer,
                UNCOMMITTED_SCHEMA,
                compression="gzip",
                compression_level=_GZIP_LEVEL,
                # Every address is different, so a dictionary of them would only be in the way.
                use_dictionary=["creation_date"],
            )
        self._writer.write_table(pa.Table.from_batches(self._waiting, UNCOMMITTED_SCHEMA))
        self._waiting, self._waiting_rows = [], 0
