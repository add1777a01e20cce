"""Rows gathered into Parquet parts of bounded size, each written to the store in one atomic piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.collector.target import own_name
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import FormatError
from lakesweep.formats.damage import named_damage
from lakesweep.formats.tables import UNREADABLE, as_written, open_parquet
from lakesweep.storage import ObjectStore

ROWS_PER_PART = 500_000

_ADDRESSES = pa.schema([pa.field("address", pa.string())])
EVENT_SCHEMA = _ADDRESSES.append(pa.field("outcome", pa.string()))


@dataclass(frozen=True, slots=True)
class Part:
    """One written file: its key, and what it holds."""

    key: str
    rows: int
    bytes: int


# How a task tells its driver which parts it wrote.
PARTS = pa.list_(
    pa.struct(
        [pa.field("key", pa.string()), pa.field("rows", pa.int64()), pa.field("bytes", pa.int64())]
    )
)


@dataclass(slots=True)
class PartWriter:
    """Collects batches of one schema and writes a part whenever enough rows have come together."""

    store: ObjectStore
    folder: str
    stem: str
    schema: pa.Schema
    parts: list[Part] = field(default_factory=list)
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _rows: int = 0

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows to the part that is being gathered; they are durable only after `close`."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            if batch.num_rows:
                self._waiting.append(batch)
                self._rows += batch.num_rows
            if self._rows >= ROWS_PER_PART:
                self._flush()

    def close(self) -> list[Part]:
        """Write the rows that still wait; returns every part that was written."""
        if self._rows:
            self._flush()
        return self.parts

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting, schema=self.schema)
        sink = pa.BufferOutputStream()
        # Snappy does not notice a flipped bit, and these rows are ages and addresses.
        pq.write_table(
            table, sink, compression="snappy", use_dictionary=False, write_page_checksum=True
        )
        key = own_name(self.folder, self.stem, ".parquet")
        self.store.write(key, sink.getvalue().to_pybytes())
        size = sum_of(table, "size_bytes") if "size_bytes" in table.schema.names else 0
        self.parts.append(Part(key, table.num_rows, size))
        self._waiting, self._rows = [], 0


def written_parts(
    store: ObjectStore, folder: str, stem: str, rows: pa.Table
) -> list[dict[str, object]]:
    """Write rows into parts; returns those parts as a task tells its driver of them, as a value of `PARTS`."""
    writer = PartWriter(store, folder, stem, rows.schema)
    writer.add(rows)
    return [asdict(part) for part in writer.close()]


def parts_told(*told: Sequence[Mapping[str, Any]]) -> list[Part]:
    """The parts that tasks have written, out of the values of `PARTS` in their results."""
    return [Part(**part) for parts in told for part in parts]


def tally_of(parts: Iterable[Part]) -> Tally:
    """Objects and bytes in all of these parts together."""
    parts = list(parts)
    return Tally(sum(part.rows for part in parts), sum(part.bytes for part in parts))


def sum_of(rows: pa.Table | pa.RecordBatch, column: str) -> int:
    """The sum of a column; zero for no rows."""
    return int(pa.compute.sum(rows.column(column)).as_py() or 0)


def read_part(
    data: bytes, schema: pa.Schema, what: str, *, optional: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, with exactly these columns; `what` names it in the error.

    A column that is `optional` is null where the file does not have it. In a list of the server an address is a
    `physical_address`.
    """
    with named_damage(what), _unreadable_is_damage():
        file = open_parquet(data)
        there = file.schema_arrow.names
        stored = {n: n for n in schema.names if n not in optional or n in there}
        if "address" in stored and "address" not in there:
            stored["address"] = "physical_address"
        for batch in _batches(file, list(stored.values())):
            columns = [
                as_written(batch.column(stored[f.name]), f)
                if f.name in stored
                else pa.nulls(batch.num_rows, f.type)
                for f in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def read_addresses(data: bytes, what: str) -> Iterator[pa.Array]:
    """The addresses of a Parquet list, whether the server wrote it (`physical_address`) or we did (`address`)."""
    for batch in read_part(data, _ADDRESSES, what):
        yield batch.column(0)


def read_events(data: bytes, what: str) -> Iterator[pa.RecordBatch]:
    """The rows of an event file as `EVENT_SCHEMA`; the outcome is null in files that tell of none."""
    return read_part(data, EVENT_SCHEMA, what, optional=["outcome"])


def _batches(file: pq.ParquetFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in file.iter_batches(columns=columns, batch_size=200_000):
        rows += batch.num_rows
        yield batch
    # A page with a damaged header just ends the reading.
    if rows != file.metadata.num_rows:
        raise pa.ArrowInvalid(f"{rows} of {file.metadata.num_rows} rows could be read")


@contextmanager
def _unreadable_is_damage() -> Iterator[None]:
    try:
        yield
    except (*UNREADABLE, KeyError) as error:
        raise FormatError(str(error).splitlines()[0][:200], kind="bad-parquet") from error
