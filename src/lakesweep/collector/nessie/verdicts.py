"""Where files meet references: one partition's verdicts, its garbage written, its sums returned.

Every file gets exactly one verdict, in this order: gone, live, protected, young, garbage. The 64-bit hash of the folded name
decides (DESIGN D3): a collision, or two names that fold to one, can only make garbage look live.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.nessie import candidates as cand
from lakesweep.collector.nessie import references as refs
from lakesweep.collector.nessie.list_folders import FILE_SCHEMA
from lakesweep.collector.parts import written_parts
from lakesweep.collector.target import Target
from lakesweep.engine.cells import is_in, packed_stream, unpack_hashes, unpack_rows
from lakesweep.formats.hashing import hash_addresses

Mask = npt.NDArray[np.bool_]

VERDICTS = ("gone", "live", "protected", "young", "garbage")

# Files of a table that was dropped on every reference.
DROPPED_TABLE = "of a dropped table"

MET_SCHEMA = pa.schema(
    [
        *(pa.field(f"{v}{suffix}", pa.int64()) for v in VERDICTS for suffix in ("", "_bytes")),
        pa.field("duplicates", pa.int64()),
        pa.field("duplicate_bytes", pa.int64()),
        pa.field("live_references", pa.int64()),
        pa.field("dropped_references", pa.int64()),
        pa.field("gone_references", pa.int64()),
        pa.field("canaries", pa.int64()),
        pa.field("dead_canaries", pa.int64()),
        pa.field("protections", pa.string()),  # JSON: word → [objects, bytes, an example]
        pa.field("reference_counts", pa.binary()),  # Arrow stream of references.COUNTS_SCHEMA
        pa.field("candidate_counts", pa.binary()),  # Arrow stream of candidates.COUNTS_SCHEMA
        pa.field("garbage_parts", pa.string()),  # newline-separated "key rows bytes"
        pa.field("live_parts", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class FileJudge:
    """What a meeting needs to know besides the cells. Picklable: it is the meeting function."""

    work: Target
    folder: str
    cutoff: datetime  # files modified at this time or before it may go
    keep_live_rows: bool = False  # a sweep names what came back to life

    def __call__(self, references: pa.Table, candidates: pa.Table) -> pa.Table:
        """One partition's verdicts."""
        rows = unpack_rows(candidates, cand.ROWS, cand.ROW_SCHEMA).combine_chunks()
        rows, duplicates = _each_once(rows)
        live = np.sort(unpack_hashes(references, refs.LIVE))
        dropped = np.sort(unpack_hashes(references, refs.DROPPED))
        gone = np.sort(unpack_hashes(references, refs.GONE))
        canaries = unpack_hashes(references, refs.CANARY)
        hashes = rows.column("hash").to_numpy()
        words = _words(rows, is_in(hashes, dropped))
        masks = self._verdicts(rows, is_in(hashes, gone), is_in(hashes, live), words)
        result: dict[str, object] = {}
        sizes = rows.column("size_bytes").fill_null(0).to_numpy()
        for verdict, mask in masks.items():
            result[verdict] = int(np.count_nonzero(mask))
            result[f"{verdict}_bytes"] = int(sizes[mask].sum())
        result |= {
            "duplicates": duplicates[0],
            "duplicate_bytes": duplicates[1],
            "live_references": len(live),
            "dropped_references": len(dropped),
            "gone_references": len(gone),
            "canaries": len(canaries),
            "dead_canaries": int(np.count_nonzero(~is_in(canaries, live))),
            "protections": _protections(rows, words, masks["protected"]),
            "reference_counts": packed_stream(references, refs.COUNTS, refs.COUNTS_SCHEMA),
            "candidate_counts": packed_stream(candidates, cand.COUNTS, cand.COUNTS_SCHEMA),
            "garbage_parts": self._write(rows, masks["garbage"], "garbage"),
            "live_parts": self._write(rows, masks["live"], "live") if self.keep_live_rows else "",
        }
        return pa.Table.from_pylist([result], schema=MET_SCHEMA)

    def _verdicts(
        self, rows: pa.Table, is_gone: Mask, is_live: Mask, words: pa.Array
    ) -> dict[str, Mask]:
        # What this plan's own sweep deleted is done, though a reference to it may have come back since.
        is_live = is_live & ~is_gone
        is_protected = pc.not_equal(words, "").to_numpy(zero_copy_only=False) & ~is_live & ~is_gone
        # A file without a time is young.
        is_old = (
            pc.less_equal(rows.column("last_modified"), pa.scalar(self.cutoff))
            .fill_null(False)
            .to_numpy(zero_copy_only=False)
        )
        left = ~is_gone & ~is_live & ~is_protected
        return {
            "gone": is_gone,
            "live": is_live,
            "protected": is_protected,
            "young": left & ~is_old,
            "garbage": left & is_old,
        }

    def _write(self, rows: pa.Table, mask: Mask, stem: str) -> str:
        chosen = rows.filter(pa.array(mask)).select(FILE_SCHEMA.names).sort_by("uri")
        return written_parts(self.work.open(), self.folder, stem, chosen.cast(FILE_SCHEMA))


def _each_once(rows: pa.Table) -> tuple[pa.Table, tuple[int, int]]:
    """Rows without those that name a file again: base locations may overlap in ways that their names do not show."""
    exact = hash_addresses(rows.column("uri").combine_chunks())
    _, first = np.unique(exact, return_index=True)
    if len(first) == rows.num_rows:
        return rows, (0, 0)
    is_first = np.zeros(rows.num_rows, dtype=np.bool_)
    is_first[first] = True
    again = rows.filter(pa.array(~is_first))
    size = int(pc.sum(again.column("size_bytes")).as_py() or 0)
    return rows.filter(pa.array(is_first)), (again.num_rows, size)


def _words(rows: pa.Table, is_dropped: Mask) -> pa.Array:
    words = rows.column("protection").combine_chunks()
    return pc.if_else(pa.array(is_dropped), pa.scalar(DROPPED_TABLE), words)


def _protections(rows: pa.Table, words: pa.Array, is_protected: Mask) -> str:
    mask = pa.array(is_protected)
    chosen = words.filter(mask)
    uris = rows.column("uri").combine_chunks().filter(mask)
    sizes = rows.column("size_bytes").combine_chunks().fill_null(0).filter(mask)
    found: dict[str, list[object]] = {}
    for word in chosen.unique().to_pylist():
        own = pc.equal(chosen, word)
        named = uris.filter(own)
        found[word] = [len(named), int(pc.sum(sizes.filter(own)).as_py()), named[0].as_py()]
    return json.dumps(found)
