"""Few candidates against many references: readers of references leave out what no candidate can meet.

A sweep looks at a plan's rows, and an optimised run at what may have changed, yet all that is live is read. A bitmap of the
candidates' hashes, and of the canaries', says of most references that they would meet nobody, before they are sorted and
sent. It never denies a hash that it was made of; the judge refuses candidates and canaries that it does not admit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache, partial

import pyarrow as pa

from lakesweep.collector.judge.account import doubt
from lakesweep.collector.judge.bitmap import Bitmap
from lakesweep.collector.judge.candidates import ROWS
from lakesweep.collector.judge.row_format import RowFormat
from lakesweep.collector.target import Target, own_name
from lakesweep.engine.cells import Hashes, unpack_rows
from lakesweep.engine.tasks import Engine, Scatter, Work

# Below so many references, or with more than one candidate for so many, it costs more than it saves.
_LEAST_REFERENCES = 1_000_000
_REFERENCES_PER_CANDIDATE = 4
_DIGEST_BYTES = 16

_BITMAPS = pa.schema([pa.field("bitmap", pa.binary(), nullable=False)])


def is_worth_it(candidates: int, references: int) -> bool:
    """Whether a filter saves more than it costs, by about how many there are of each."""
    return references >= max(_LEAST_REFERENCES, candidates * _REFERENCES_PER_CANDIDATE)


def save_filter(
    engine: Engine,
    target: Target,
    folder: str,
    candidates: Scatter,
    rows: RowFormat,
    canaries: Hashes,
) -> str:
    """Read all candidates for their hashes, and write a filter of them; returns its key. `candidates` has one partition."""
    size = (candidates.objects or 0) + len(canaries)
    work = partial(_mark_hashes, candidates.work, rows, size)
    found = engine.collect(
        Scatter(
            candidates.items,
            work,
            _BITMAPS,
            candidates.tasks,
            candidates.task_of,
            candidates.seconds,
        )
    )
    bitmap = Bitmap.sized_for(size)
    bitmap.add(canaries)
    for one in found.column("bitmap").to_pylist():
        bitmap.marks[:] |= Bitmap.decode(one).marks
    key = own_name(folder, "filter", ".bits")
    body = bitmap.encode()
    target.open().write(key, _digest(body) + body)
    return key


@lru_cache(maxsize=1)
def load_filter(target: Target, key: str) -> Bitmap:
    """The filter that a run has saved, kept by the process that read it last."""
    data = target.open().read(key)
    body = data[_DIGEST_BYTES:]
    if _digest(body) != data[:_DIGEST_BYTES]:
        raise doubt(f"the filter of candidates {key} is not the one that was written")
    return Bitmap.decode(body)


def refuse_unfiltered(bitmap: Bitmap, candidates: Hashes, canaries: Hashes) -> None:
    """Refuse to judge what the filter was not made of: references of it were left out."""
    for what, hashes in (("candidates", candidates), ("canaries", canaries)):
        unknown = len(hashes) - int(bitmap.may_have(hashes).sum())
        if unknown:
            raise doubt(f"references were chosen without {unknown} of the {what} that they meet")


def _mark_hashes(
    read: Work, rows: RowFormat, size: int, items: Iterator[object]
) -> Iterator[pa.RecordBatch]:
    """Work function: one bitmap of all candidates of the task."""
    bitmap = Bitmap.sized_for(size)
    for cells in read(items):
        found = unpack_rows(pa.Table.from_batches([cells]), ROWS, rows.schema)
        bitmap.add(rows.hashes(found))
    yield pa.RecordBatch.from_pylist([{"bitmap": bitmap.encode()}], schema=_BITMAPS)


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
