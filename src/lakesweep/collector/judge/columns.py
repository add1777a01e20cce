"""The judge: where candidates meet references. One partition's verdicts, its garbage written, its sums returned.

Every candidate gets exactly one verdict, by the rules of `domain/verdicts.py` in columns instead of one by one. The 64-bit
hash decides (DESIGN D3): a collision can only make garbage look live.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge import candidates as cand
from lakesweep.collector.judge import references as refs
from lakesweep.collector.judge.candidate_filter import load_filter, refuse_unfiltered
from lakesweep.collector.judge.magnitudes import CODES, Magnitudes
from lakesweep.collector.judge.row_format import Mask, RowFormat
from lakesweep.collector.judge.suspects import Suspects
from lakesweep.collector.parts import PARTS, sum_of, written_parts
from lakesweep.collector.target import Target
from lakesweep.domain.verdicts import Source, Verdict
from lakesweep.engine.cells import Hashes, is_in, packed_stream, unpack_hashes, unpack_rows

_EXAMPLES = 10

MET_SCHEMA = pa.schema(
    [
        *(pa.field(f"{v}{suffix}", pa.int64()) for v in Verdict for suffix in ("", "_bytes")),
        pa.field("duplicates", pa.int64()),
        pa.field("duplicate_bytes", pa.int64()),
        pa.field("live_references", pa.int64()),
        # Distinct live references with a size, or the sample of them: how many have each magnitude.
        pa.field("measured", pa.list_(pa.int64())),
        pa.field("expired_references", pa.int64()),
        pa.field("protecting_references", pa.int64()),
        pa.field("events", pa.int64()),
        pa.field("canaries", pa.int64()),
        # Hashes of canaries that no live reference explains.
        pa.field("dead_canaries", pa.binary()),
        pa.field("reference_counts", pa.binary()),  # an Arrow stream
        pa.field("candidate_counts", pa.binary()),  # an Arrow stream
        pa.field("oldest_garbage", pa.timestamp("us", tz="UTC")),
        pa.field("garbage_parts", PARTS),
        pa.field("undated_parts", PARTS),
        pa.field("young_parts", PARTS),
        pa.field("kept_parts", PARTS),
        pa.field("suspects", pa.binary()),  # the garbage, as Suspects
        pa.field(
            "protections",
            pa.list_(
                pa.struct(
                    [
                        pa.field("why", pa.string()),
                        pa.field("objects", pa.int64()),
                        pa.field("bytes", pa.int64()),
                        pa.field("examples", pa.list_(pa.string())),
                    ]
                )
            ),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class EventHashes:
    """Hashes of objects that our runs deleted or restored, by the last event of each, ascending; `count`: of all events."""

    gone: Hashes
    restored: Hashes
    lately_restored: Hashes  # since the cut-off
    count: int


@dataclass(frozen=True, slots=True)
class Judge:
    """Gives each candidate of a partition its verdict, and writes the garbage. Picklable: Spark calls it for each partition."""

    rows: RowFormat
    target: Target
    folder: str
    cutoff: datetime  # what was written before it may go
    trust_dates: bool = True  # false for a plan whose files are not those that its mark wrote
    trust_reasons: bool = False  # true for rows of an earlier round of the same sweep
    dates_are_final: bool = False  # nobody asks the store for ages that are not known
    keep_young_rows: bool = False  # the next run builds on them
    keep_live_rows: bool = False  # a sweep names what came back to life
    most_suspects: int = 0  # hashes and sizes of garbage to bring to the driver
    filter_key: str = ""  # by which references were chosen, and only a sample of them is measured

    def __call__(self, references: pa.Table, candidates: pa.Table) -> pa.Table:
        """Judge one partition; returns one row of `MET_SCHEMA` with its sums and the parts that were written."""
        rows = unpack_rows(candidates, cand.ROWS, self.rows.schema).combine_chunks()
        sized = unpack_rows(references, refs.LIVE_SIZED, refs.SIZED_ROWS)
        sized_hashes = sized.column("hash").to_numpy()
        live = np.sort(np.concatenate((unpack_hashes(references, refs.LIVE), sized_hashes)))
        magnitudes = sized.column("magnitude").to_numpy()
        if self.filter_key:
            is_sampled = refs.is_sampled(sized_hashes)
            sized_hashes, magnitudes = sized_hashes[is_sampled], magnitudes[is_sampled]
        magnitudes = _largest_of_each(sized_hashes, magnitudes)
        expired = np.sort(unpack_hashes(references, refs.EXPIRED))
        protecting = np.sort(unpack_hashes(references, refs.PROTECTING))
        canaries = unpack_hashes(references, refs.CANARY)
        rows, hashes, duplicates = self._each_once(rows)
        if self.filter_key:
            refuse_unfiltered(load_filter(self.target, self.filter_key), hashes, canaries)

        events = last_events(references, self.cutoff)
        masks, in_expired, protections = self._verdicts(
            rows, hashes, live, expired, protecting, events
        )
        result: dict[str, object] = {}
        sizes = rows.column("size_bytes").fill_null(0).to_numpy()
        for verdict, mask in masks.items():
            result[verdict] = int(np.count_nonzero(mask))
            result[f"{verdict}_bytes"] = int(sizes[mask].sum())
        garbage = masks[Verdict.EXPIRED] | masks[Verdict.UNREFERENCED]
        result |= {
            "duplicates": duplicates.num_rows,
            "duplicate_bytes": sum_of(duplicates, "size_bytes"),
            "live_references": len(live),
            "measured": np.bincount(magnitudes, minlength=CODES).tolist(),
            "expired_references": len(expired),
            "protecting_references": len(protecting),
            "events": events.count,
            "canaries": len(canaries),
            "dead_canaries": canaries[~is_in(canaries, live)].tobytes(),
            "reference_counts": packed_stream(references, refs.COUNTS, self.rows.reference_counts),
            "candidate_counts": packed_stream(candidates, cand.COUNTS, self.rows.candidate_counts),
            "oldest_garbage": pc.min(
                rows.column("last_modified").filter(pa.array(garbage))
            ).as_py(),
            "garbage_parts": self._write(rows, garbage, in_expired, "garbage"),
            "undated_parts": self._write(rows, masks[Verdict.UNDATED], in_expired, "undated"),
            "young_parts": self._write(rows, masks[Verdict.YOUNG], in_expired, "young")
            if self.keep_young_rows
            else [],
            "kept_parts": self._write(rows, masks[Verdict.LIVE], in_expired, "kept")
            if self.keep_live_rows
            else [],
            "suspects": Suspects.of(
                hashes[garbage],
                rows.column("size_bytes").filter(pa.array(masks[Verdict.UNREFERENCED])),
                self.most_suspects,
            ).encode(),
            "protections": self._protections(rows, masks[Verdict.PROTECTED], protections),
        }
        return pa.Table.from_pylist([result], schema=MET_SCHEMA)

    def _verdicts(
        self,
        rows: pa.Table,
        hashes: Hashes,
        live: Hashes,
        expired: Hashes,
        protecting: Hashes,
        events: EventHashes,
    ) -> tuple[dict[Verdict, Mask], Mask, pa.Array]:
        """Each row's one verdict, which rows an expired commit holds, and why each of the protected stays."""
        source = rows.column("source").to_numpy()
        is_planned, is_committed = source == Source.PLANNED, source == Source.COMMITTED
        modified = rows.column("last_modified")
        is_old = _mask(pc.fill_null(pc.less(modified, pa.scalar(self.cutoff)), False))
        in_expired = is_in(hashes, expired) | is_committed
        if self.trust_reasons:
            in_expired |= _mask(pc.fill_null(pc.equal(rows.column("reason"), "expired"), False))
        is_restored = is_in(hashes, events.restored)
        has_time = _mask(pc.is_valid(modified))
        is_dated = (
            (source == Source.LISTED)
            | (is_planned & has_time & self.trust_dates & ~is_restored)
            | ((source == Source.SAVED) & has_time & ~is_old)
        )
        if self.dates_are_final:
            is_dated = np.ones(len(hashes), dtype=bool)

        is_deleted = is_in(hashes, events.gone)
        is_done = is_deleted & is_planned
        is_live = is_in(hashes, live) & ~is_done
        is_gone = is_done | (~is_live & is_deleted & is_committed)
        rest = ~is_live & ~is_gone
        # A plan may have been edited by hand, so all that may go is asked, listed or not.
        why = self.rows.protections(rows.filter(pa.array(rest)), is_in(hashes[rest], protecting))
        has_reason = _mask(pc.not_equal(why, ""))
        protected = rest.copy()
        protected[rest] = has_reason
        rest &= ~protected
        is_promised = is_in(hashes, events.lately_restored)
        undated = rest & ~is_dated & ~is_promised
        young = rest & ((is_dated & ~is_old) | is_promised)
        rest &= ~undated & ~young
        verdicts = {
            Verdict.LIVE: is_live,
            Verdict.GONE: is_gone,
            Verdict.YOUNG: young,
            Verdict.PROTECTED: protected,
            Verdict.EXPIRED: rest & in_expired,
            Verdict.UNREFERENCED: rest & ~in_expired,
            Verdict.UNDATED: undated,
        }
        return verdicts, in_expired, why.filter(pa.array(has_reason))

    def _each_once(self, rows: pa.Table) -> tuple[pa.Table, Hashes, pa.Table]:
        """One row per object, the best source first, with its hash; and the rows that this leaves out."""
        hashes = self.rows.hashes(rows)
        identities = self.rows.identities(rows, hashes)
        ordered = np.sort(identities)
        if not (ordered[1:] == ordered[:-1]).any():
            # What a listing brings, it brings once: no row has to be moved.
            return rows, hashes, rows.slice(0, 0)
        sources = rows.column("source").to_numpy()
        order = np.lexsort((sources, identities))
        names = self._numbers_of_names(rows, identities, order)
        if names.any():
            order = np.lexsort((sources, names, identities))
        ordered, names = identities[order], names[order]
        is_first = np.ones(len(ordered), dtype=bool)
        is_first[1:] = (ordered[1:] != ordered[:-1]) | (names[1:] != names[:-1])
        keep = np.sort(order[is_first])
        return rows.take(pa.array(keep)), hashes[keep], rows.take(pa.array(order[~is_first]))

    def _numbers_of_names(
        self, rows: pa.Table, identities: Hashes, order: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int32]:
        """Numbers for the names of rows that share their identity with another name; zero for all others.

        Among billions of objects two will have one hash. `order` is that of the identities.
        """
        ordered, names = identities[order], rows.column(self.rows.name).combine_chunks()
        at = np.flatnonzero(ordered[1:] == ordered[:-1])
        # Rows of one object are neighbours, and their names are equal: that is quick to see.
        one, next_one = (names.take(pa.array(order[places])) for places in (at, at + 1))
        collided = np.unique(ordered[at[_mask(pc.not_equal(one, next_one))]])
        numbers = np.zeros(len(identities), np.int32)
        if len(collided):
            is_shared = is_in(identities, collided)
            shared = names.filter(pa.array(is_shared)).dictionary_encode()
            numbers[is_shared] = shared.indices.to_numpy()
        return numbers

    def _write(
        self, rows: pa.Table, chosen: Mask, expired: Mask, stem: str
    ) -> list[dict[str, object]]:
        places = np.flatnonzero(chosen)
        if not len(places):
            return []
        # In order, neighbours in the store are neighbours in the plan, and a backup reads of them in few pages.
        names = rows.column(self.rows.name).take(pa.array(places))
        places = places[pc.sort_indices(names).to_numpy()]
        written = self.rows.written(rows.take(pa.array(places)), expired[places])
        return written_parts(self.target.open(), self.folder, stem, written)

    def _protections(
        self, rows: pa.Table, is_protected: Mask, why: pa.Array
    ) -> list[dict[str, object]]:
        protected = rows.filter(pa.array(is_protected))
        found: list[dict[str, object]] = []
        for reason in why.unique().to_pylist():
            own = protected.filter(pc.equal(why, reason))
            found.append(
                {
                    "why": reason,
                    "objects": own.num_rows,
                    "bytes": sum_of(own, "size_bytes"),
                    "examples": own.column(self.rows.name)[:_EXAMPLES].to_pylist(),
                }
            )
        return found


def last_events(references: pa.Table, cutoff: datetime) -> EventHashes:
    """The last event of each object that our runs have deleted or restored."""
    gone = unpack_rows(references, refs.GONE, refs.EVENT_ROWS)
    restored = unpack_rows(references, refs.RESTORED, refs.EVENT_ROWS)
    hashes = np.concatenate((gone.column("hash").to_numpy(), restored.column("hash").to_numpy()))
    order = np.concatenate((gone.column("order").to_numpy(), restored.column("order").to_numpy()))
    is_deletion = np.arange(len(hashes)) < gone.num_rows
    by_time = np.lexsort((order, hashes))
    hashes, order, is_deletion = hashes[by_time], order[by_time], is_deletion[by_time]
    is_last = np.ones(len(hashes), dtype=bool)
    is_last[:-1] = hashes[1:] != hashes[:-1]
    is_restoration = is_last & ~is_deletion
    return EventHashes(
        gone=hashes[is_last & is_deletion],
        restored=hashes[is_restoration],
        lately_restored=hashes[is_restoration & (order >= refs.event_order(cutoff))],
        count=len(hashes),
    )


def _largest_of_each(hashes: Hashes, magnitudes: Magnitudes) -> Magnitudes:
    """The largest magnitude of each address: several ranges may hold it, and a staged list holds it without a size."""
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
