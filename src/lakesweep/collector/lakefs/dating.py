"""Look up the age of candidates that came without one: entries of commits, saved lists, marks of addresses only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa

from lakesweep.collector.copies.lookups import look_up
from lakesweep.collector.judge.suspects import Suspects
from lakesweep.collector.parts import PARTS, written_parts
from lakesweep.collector.target import Target
from lakesweep.domain.cutoff import is_old_enough
from lakesweep.errors import StorageError
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.tables import MARK_SCHEMA, read_mark
from lakesweep.storage import Crew

_IN_FLIGHT = 32

# Old rows are of two kinds: those that an expired commit holds, and the others.
OLD, EXPIRED, YOUNG, ABSENT = DATED_VERDICTS = ("old", "expired", "young", "absent")

DATED_SCHEMA = pa.schema(
    [
        pa.field("part", pa.string()),
        pa.field("verdict", pa.string()),  # one of DATED_VERDICTS
        pa.field("objects", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("written", PARTS),
        pa.field("suspects", pa.binary()),  # these rows, as Suspects; of the old alone
    ]
)


def date_parts(
    target: Target, folder: str, cutoff: datetime, parts: Iterator[str]
) -> Iterator[pa.RecordBatch]:
    """Work function: splits each part by the store's own times into old, young, and absent rows."""
    store = target.open()
    for part in parts:
        known = {row["address"]: row for row in read_mark(store.read(part)).to_pylist()}
        split: dict[str, list[dict[str, object]]] = {v: [] for v in DATED_VERDICTS}
        with Crew(_IN_FLIGHT) as crew:
            looked_up = look_up(store, list(known), crew, trust_absence=False)
        for address, info in looked_up.items():
            if isinstance(info, StorageError):
                raise info
            if info is None:
                split[ABSENT].append(
                    known[address] | {"size_bytes": known[address]["size_bytes"] or 0}
                )
                continue
            is_old = is_old_enough(info.last_modified, cutoff)
            old = EXPIRED if known[address]["reason"] == "expired" else OLD
            split[old if is_old else YOUNG].append(
                {
                    "address": address,
                    "size_bytes": info.size,
                    "last_modified": info.last_modified,
                    "reason": known[address]["reason"],
                }
            )
        yield pa.RecordBatch.from_pylist(
            [
                {
                    "part": part,
                    "verdict": verdict,
                    "objects": len(rows),
                    "bytes": sum(int(str(row["size_bytes"])) for row in rows),
                    "written": _write(target, folder, verdict, rows),
                    "suspects": _suspects(verdict, rows),
                }
                for verdict, rows in split.items()
            ],
            schema=DATED_SCHEMA,
        )


def _suspects(verdict: str, rows: list[dict[str, object]]) -> bytes:
    if verdict not in (OLD, EXPIRED):
        return Suspects().encode()
    sizes = [row["size_bytes"] for row in rows] if verdict == OLD else []
    hashes = hash_addresses(pa.array([row["address"] for row in rows], pa.string()))
    return Suspects.of(hashes, pa.array(sizes, pa.int64())).encode()


def _write(
    target: Target, folder: str, verdict: str, rows: list[dict[str, object]]
) -> list[dict[str, object]]:
    stem = "garbage" if verdict in (OLD, EXPIRED) else verdict
    table = pa.Table.from_pylist(rows, schema=MARK_SCHEMA)
    return written_parts(target.open(), folder, stem, table)
