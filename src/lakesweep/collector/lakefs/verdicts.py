"""Where candidates meet references: one partition's verdicts, its garbage written, its sums returned.

Every candidate gets exactly one verdict, in this order: live, gone, young, expired, unreferenced. The 64-bit hash
decides (DESIGN D3): a collision can only make garbage look live.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.magnitudes import Magnitudes, sum_of_magnitudes
from lakesweep.collector.judge.suspects import MOST_SUSPECTS, Suspects
from lakesweep.collector.lakefs import candidates as cand
from lakesweep.collector.lakefs import references as refs
from lakesweep.collector.lakefs.paths import event_order
from lakesweep.collector.parts import written_parts
from lakesweep.collector.target import Target
from lakesweep.domain.addresses import ROOT_CANDIDATE_PATTERN, candidate_pattern
from lakesweep.engine.cells import Hashes, is_in, packed_stream, unpack_hashes, unpack_rows
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.tables import MARK_SCHEMA

_EXAMPLES = 10
Mask = npt.NDArray[np.bool_]

VERDICTS = ("live", "gone", "young", "protected", "expired", "unreferenced", "undated")

MET_SCHEMA = pa.schema(
    [
        *(pa.field(f"{v}{suffix}", pa.int64()) for v in VERDICTS for suffix in ("", "_bytes")),
        pa.field("duplicates", pa.int64()),
        pa.field("duplicate_bytes", pa.int64()),
        pa.field("live_references", pa.int64()),
        pa.field("measured", pa.int64()),  # distinct addresses of live references with a size
        pa.field("measured_bytes", pa.int64()),
        pa.field("expired_references", pa.int64()),
        pa.field("events", pa.int64()),
        pa.field("canaries", pa.int64()),
        pa.field(
            "dead_canaries", pa.binary()
        ),  # hashes of canaries that no live reference explains
        pa.field("reference_counts", pa.binary()),  # Arrow stream of references.COUNTS_SCHEMA
        pa.field("candidate_counts", pa.binary()),  # Arrow stream of candidates.COUNTS_SCHEMA
        pa.field("garbage_parts", pa.string()),  # newline-separated "key rows bytes"
        pa.field("undated_parts", pa.string()),
        pa.field("young_parts", pa.string()),
        pa.field("kept_parts", pa.string()),
        pa.field("suspects", pa.binary()),  # the garbage, as Suspects
        pa.field("foreign_at_root", pa.string()),  # protected names at the root: a few, by line
    ]
)

_EVENT_ROWS = pa.schema([pa.field("hash", pa.uint64()), pa.field("order", pa.int64())])


@dataclass(frozen=True, slots=True)
class _Events:
    """Hashes, in order, by their last event: a deletion, or a restoration. `count` is the number of all events."""

    gone: Hashes
    restored: Hashes
    lately_restored: Hashes  # since the cut-off
    count: int


@dataclass(frozen=True, slots=True)
class Judge:
    """What a meeting needs to know besides the cells. Picklable: it is the meeting function."""

    target: Target
    folder: str
    cutoff: datetime
    trust_dates: bool = True  # false for a plan whose files are not those that its mark wrote
    trust_reasons: bool = False  # true for rows of an earlier round of the same sweep
    keep_live_rows: bool = False  # a sweep names what came back to life
    root_names: bool = False  # whether the repository's commits hold addresses at the root
    most_suspects: int = MOST_SUSPECTS

    def __call__(self, references: pa.Table, candidates: pa.Table) -> pa.Table:
        """One partition's verdicts."""
        rows = unpack_rows(candidates, cand.ROWS, cand.ROW_SCHEMA).combine_chunks()
        sized = unpack_rows(references, refs.LIVE_SIZED, refs.SIZED_ROWS)
        sized_hashes = sized.column("hash").to_numpy()
        live = np.sort(np.concatenate((unpack_hashes(references, refs.LIVE), sized_hashes)))
        magnitudes = _largest_of_each(sized_hashes, sized.column("magnitude").to_numpy())
        expired = np.sort(unpack_hashes(references, refs.EXPIRED))
        canaries = unpack_hashes(references, refs.CANARY)
        hashes = hash_addresses(rows.column("address").combine_chunks())
        rows, hashes, duplicates, duplicate_bytes = _first_of_each(rows, hashes)

        events = _last_events(references, self.cutoff)
        masks, in_expired = self._verdicts(rows, hashes, live, expired, events)
        result: dict[str, object] = {}
        sizes = rows.column("size_bytes").fill_null(0).to_numpy()
        for verdict, mask in masks.items():
            result[verdict] = int(np.count_nonzero(mask))
            result[f"{verdict}_bytes"] = int(sizes[mask].sum())
        garbage = masks["expired"] | masks["unreferenced"]
        result |= {
            "duplicates": duplicates,
            "duplicate_bytes": duplicate_bytes,
            "live_references": len(live),
            "measured": len(magnitudes),
            "measured_bytes": sum_of_magnitudes(magnitudes),
            "expired_references": len(expired),
            "events": events.count,
            "canaries": len(canaries),
            "dead_canaries": canaries[~is_in(canaries, live)].tobytes(),
            "reference_counts": packed_stream(references, refs.COUNTS, refs.COUNTS_SCHEMA),
            "candidate_counts": packed_stream(candidates, cand.COUNTS, cand.COUNTS_SCHEMA),
            "garbage_parts": self._write(rows, garbage, in_expired, "garbage"),
            "undated_parts": self._write(rows, masks["undated"], in_expired, "undated"),
            "young_parts": self._write(rows, masks["young"], in_expired, "young"),
            "kept_parts": self._write(rows, masks["live"], in_expired, "kept")
            if self.keep_live_rows
            else "",
            "suspects": Suspects.of(
                hashes[garbage],
                rows.column("size_bytes").filter(pa.array(masks["unreferenced"])),
                self.most_suspects,
            ).encode(),
            "foreign_at_root": _root_names(rows, masks["protected"]),
        }
        return pa.Table.from_pylist([result], schema=MET_SCHEMA)

    def _verdicts(
        self, rows: pa.Table, hashes: Hashes, live: Hashes, expired: Hashes, events: _Events
    ) -> tuple[dict[str, Mask], Mask]:
        """Each row's one verdict, and which rows an expired commit holds."""
        source = rows.column("source").to_numpy()
        modified = rows.column("last_modified")
        is_old = _mask(pc.fill_null(pc.less(modified, pa.scalar(self.cutoff)), False))
        in_expired = is_in(hashes, expired) | (source == cand.COMMITTED)
        if self.trust_reasons:
            in_expired |= _mask(pc.fill_null(pc.equal(rows.column("reason"), "expired"), False))
        # What was restored is as young as its restoration, which only the store knows.
        is_restored = is_in(hashes, events.restored)
        # The store's word alone is an age. A commit may be back-dated, and an entry's time is its author's.
        is_dated = (source == cand.LISTED) | (
            (source == cand.PLANNED)
            & _mask(pc.is_valid(modified))
            & self.trust_dates
            & ~is_restored
        )

        # A row of a plan that its own sweep deleted is done, though a reference to it may have come back since.
        is_done = is_in(hashes, events.gone) & (source == cand.PLANNED)
        is_live = is_in(hashes, live) & ~is_done
        is_gone = is_done | (~is_live & is_in(hashes, events.gone) & (source == cand.COMMITTED))
        rest = ~is_live & ~is_gone
        # A plan may have been edited by hand, so the shape is asked of all that may go, listed or not.
        left = rows.column("address").filter(pa.array(rest))
        protected = rest.copy()
        protected[rest] = ~_mask(
            pc.match_substring_regex(left, candidate_pattern(root_names=self.root_names))
        )
        rest &= ~protected
        # A restore may find an object in its place, or die before it says what it brought back: its promise is an age.
        is_promised = is_in(hashes, events.lately_restored)
        undated = rest & ~is_dated & ~is_promised
        young = rest & ((is_dated & ~is_old) | is_promised)
        rest &= ~undated & ~young
        verdicts = {
            "live": is_live,
            "gone": is_gone,
            "young": young,
            "protected": protected,
            "expired": rest & in_expired,
            "unreferenced": rest & ~in_expired,
            "undated": undated,
        }
        return verdicts, in_expired

    def _write(self, rows: pa.Table, chosen: Mask, expired: Mask, stem: str) -> str:
        places = np.flatnonzero(chosen)
        if not len(places):
            return ""
        # In order, neighbours in the store are neighbours in the plan, and a backup reads of them in few pages.
        addresses = rows.column("address").take(pa.array(places))
        places = places[pc.sort_indices(addresses).to_numpy()]
        picked = rows.take(pa.array(places))
        reasons = np.where(expired[places], "expired", "unreferenced")
        marked = pa.Table.from_arrays(
            [
                picked.column("address"),
                picked.column("size_bytes"),
                # Only a listing knows when the object was written; an entry's own time is its author's word.
                pc.if_else(
                    pc.equal(picked.column("source"), cand.COMMITTED),
                    pa.scalar(None, pa.timestamp("us", tz="UTC")),
                    picked.column("last_modified"),
                ),
                pa.array(reasons, pa.string()),
            ],
            schema=MARK_SCHEMA,
        )
        return written_parts(self.target.open(), self.folder, stem, marked)


def _first_of_each(rows: pa.Table, hashes: Hashes) -> tuple[pa.Table, Hashes, int, int]:
    """One row per hash, the best source first, with its hash; how many rows and bytes that leaves out."""
    plainly = np.sort(hashes)
    if not (plainly[1:] == plainly[:-1]).any():
        # What a listing brings, it brings once: no row has to be moved.
        return rows, hashes, 0, 0
    source = rows.column("source").to_numpy()
    order = np.lexsort((source, hashes))
    ordered = hashes[order]
    is_first = np.ones(len(ordered), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    keep = np.sort(order[is_first])
    dropped = rows.take(pa.array(order[~is_first]))
    return rows.take(pa.array(keep)), hashes[keep], dropped.num_rows, _bytes(dropped)


def _last_events(references: pa.Table, cutoff: datetime) -> _Events:
    gone = unpack_rows(references, refs.GONE, _EVENT_ROWS)
    restored = unpack_rows(references, refs.RESTORED, _EVENT_ROWS)
    hashes = np.concatenate((gone.column("hash").to_numpy(), restored.column("hash").to_numpy()))
    order = np.concatenate((gone.column("order").to_numpy(), restored.column("order").to_numpy()))
    is_deletion = np.arange(len(hashes)) < gone.num_rows
    by_time = np.lexsort((order, hashes))
    hashes, order, is_deletion = hashes[by_time], order[by_time], is_deletion[by_time]
    is_last = np.ones(len(hashes), dtype=bool)
    is_last[:-1] = hashes[1:] != hashes[:-1]
    is_restoration = is_last & ~is_deletion
    return _Events(
        gone=hashes[is_last & is_deletion],
        restored=hashes[is_restoration],
        lately_restored=hashes[is_restoration & (order >= event_order(cutoff))],
        count=len(hashes),
    )


def _root_names(rows: pa.Table, chosen: Mask) -> str:
    names = rows.column("address").filter(pa.array(chosen))
    is_root = pc.match_substring_regex(names, ROOT_CANDIDATE_PATTERN)
    return "\n".join(names.filter(is_root)[:_EXAMPLES].to_pylist())


def _largest_of_each(hashes: Hashes, magnitudes: Magnitudes) -> Magnitudes:
    """One magnitude for each address: many ranges may hold it, and a staged list without its size."""
    order = np.lexsort((magnitudes, hashes))
    ordered = hashes[order]
    is_last = np.ones(len(ordered), dtype=bool)
    is_last[:-1] = ordered[1:] != ordered[:-1]
    return magnitudes[order[is_last]]


def _mask(values: pa.ChunkedArray | pa.Array) -> Mask:
    mask: Mask = (
        values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    )
    return mask.astype(bool)


def _bytes(rows: pa.Table) -> int:
    return int(pc.sum(rows.column("size_bytes")).as_py() or 0)
