"""Copy the objects that a mark names from one store to another, and verify each copy by size and content."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import cast

import pyarrow as pa

from lakesweep.collector.copies.lookups import Known, look_up
from lakesweep.collector.outcomes import OUTCOMES_SCHEMA, write_outcome
from lakesweep.collector.parts import sum_of
from lakesweep.collector.target import Target
from lakesweep.errors import StorageError
from lakesweep.formats.tables import read_mark
from lakesweep.progress import advance
from lakesweep.storage import Crew, ObjectInfo, ObjectStore
from lakesweep.storage.parallel import ordered_parallel

logger = logging.getLogger(__name__)

COPIED, ALREADY_THERE = "copied", "already_there"
MISSING, FAILED, PROTECTED = "missing", "failed", "protected"
VERIFIED = (COPIED, ALREADY_THERE)

# What became of an object, and why.
Outcome = tuple[str, str]

_IN_FLIGHT = 32
# Of an object written in one piece. Stores that encrypt with keys of their own give etags of this form that are no sums.
_MD5 = re.compile(r'"?[0-9a-f]{32}"?')


@dataclass(frozen=True, slots=True)
class CopyChunk:
    """Some rows of a part of a mark."""

    part: str
    start: int
    rows: int


@dataclass(frozen=True, slots=True)
class CopyRoad:
    """The stores of a copy run. `marks` has the parts to read; lists of what was verified go to `folder` of `own_folder`."""

    marks: Target
    source: Target
    target: Target
    own_folder: Target
    folder: str
    why_not: Callable[[str], str]  # why an object of this name must not be copied; picklable
    is_target_empty: bool = False  # when the copying began; what is there since then is ours


def copy_chunks(road: CopyRoad, chunks: Iterator[CopyChunk]) -> Iterator[pa.RecordBatch]:
    """Work function: copies, verifies, writes what was verified into parts, returns counts by outcome."""
    marks, source, target = road.marks.open(), road.source.open(), road.target.open()
    with Crew(_IN_FLIGHT) as copiers, Crew(_IN_FLIGHT) as askers:
        copier = _Copier(road, source, target, copiers, askers)
        # While a chunk is copied, the next is looked up and the one before it verified; two are copied at a time, so
        # that no connection waits for the last and largest objects of a chunk.
        looked_up = _in_turn(copier.look_up, _batches(marks, chunks), 1)
        copied = _in_turn(copier.copy, looked_up, 2)
        for batch in _in_turn(copier.verify, copied, 1):
            advance(batch.rows.num_rows, sum_of(batch.rows, "size_bytes"))
            yield _summary(road, batch)


@dataclass(frozen=True, slots=True)
class _Batch:
    """A chunk on its way: what became of its objects so far, and those that are still to be copied or verified."""

    rows: pa.Table
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    originals: Sequence[ObjectInfo] = ()
    before: Mapping[str, Known] = field(default_factory=dict)

    @property
    def addresses(self) -> list[str]:
        return cast(list[str], self.rows.column("address").to_pylist())


def _batches(marks: ObjectStore, chunks: Iterator[CopyChunk]) -> Iterator[_Batch]:
    # Chunks of one part come one after the other, and it may be large.
    for part, its_chunks in groupby(chunks, key=lambda chunk: chunk.part):
        rows = read_mark(marks.read(part))
        for chunk in its_chunks:
            yield _Batch(rows.slice(chunk.start, chunk.rows))


def _in_turn(
    step: Callable[[_Batch], _Batch], batches: Iterator[_Batch], at_a_time: int
) -> Iterator[_Batch]:
    return (done for _, done in ordered_parallel(step, batches, at_a_time))


@dataclass(frozen=True, slots=True)
class _Copier:
    """Copies objects under the same address, unless the same content is there already."""

    road: CopyRoad
    source: ObjectStore
    target: ObjectStore
    copiers: Crew
    askers: Crew

    def look_up(self, batch: _Batch) -> _Batch:
        """Ask the source which objects there are to copy, and the target what lies at their addresses already."""
        outcomes: dict[str, Outcome] = {}
        sane = []
        for address in batch.addresses:
            why_not = self.road.why_not(address)
            if why_not:
                outcomes[address] = PROTECTED, why_not
            else:
                sane.append(address)
        originals: list[ObjectInfo] = []
        marked = dict(
            zip(batch.addresses, batch.rows.column("size_bytes").to_pylist(), strict=True)
        )
        known = look_up(self.source, sane, self.askers, trust_absence=False)
        for address, original in known.items():
            if isinstance(original, ObjectInfo):
                size = marked[address]
                if size in (None, original.size):
                    originals.append(original)
                else:
                    # A backup that was cut short, or another object than the marked one: its copy would be no proof.
                    outcomes[address] = (
                        FAILED,
                        f"{original.size} bytes are there, {size} by the mark",
                    )
            elif original is None:
                outcomes[address] = MISSING, "not in the source"
            else:
                outcomes[address] = FAILED, original.message
        keys = [original.key for original in originals]
        before: dict[str, Known] = dict.fromkeys(keys)
        # Another attempt of this task may have been here; to copy again what it copied does no harm.
        if not self.road.is_target_empty:
            before = look_up(self.target, keys, self.askers, trust_absence=True)
        return replace(batch, outcomes=outcomes, originals=originals, before=before)

    def copy(self, batch: _Batch) -> _Batch:
        """Copy the originals; those that could be copied are left in the batch, to be verified."""
        tried = self.copiers.each(lambda o: self._tried(o, batch.before[o.key]), batch.originals)
        outcomes = dict(zip((o.key for o in batch.originals), tried, strict=True))
        copied = [o for o in batch.originals if outcomes[o.key] == (COPIED, "")]
        return replace(batch, outcomes=batch.outcomes | outcomes, originals=copied)

    def verify(self, batch: _Batch) -> _Batch:
        """Ask the target what it holds now: that it answered a copy with a success is no proof."""
        keys = [original.key for original in batch.originals]
        after = look_up(self.target, keys, self.askers, trust_absence=False)
        verified = self.askers.each(lambda o: self._verified(o, after[o.key]), batch.originals)
        outcomes = dict(zip(keys, verified, strict=True))
        return replace(batch, outcomes=batch.outcomes | outcomes, originals=())

    def _tried(self, original: ObjectInfo, before: Known) -> Outcome:
        """COPIED where a copy was made, which is still to be verified."""
        try:
            if isinstance(before, StorageError):
                return FAILED, before.message
            if before is not None:
                if _is_same(self.source, original, self.target, before):
                    return ALREADY_THERE, ""
                # Addresses are never written twice, so other content under this name is not ours to replace.
                return FAILED, "other content is there under this address"
        except StorageError as error:
            return FAILED, error.message
        try:
            self.target.copy_from(self.source, original.key, original.key)
        except StorageError as error:
            _remove_if_bad(self.source, original, self.target)
            return FAILED, error.message
        return COPIED, ""

    def _verified(self, original: ObjectInfo, copy: Known) -> Outcome:
        why = "the copy differs from the original"
        try:
            if isinstance(copy, StorageError):
                why = copy.message
            elif copy is None:
                why = "the copy is not there"
            elif _is_same(self.source, original, self.target, copy):
                return COPIED, ""
        except StorageError as error:
            why = error.message
        _remove_if_bad(self.source, original, self.target)
        return FAILED, why


def _remove_if_bad(source: ObjectStore, original: ObjectInfo, target: ObjectStore) -> None:
    """Remove a failed copy. Nothing was there before, so what differs is ours, and would be in the way of the next try.

    Only what is seen to differ goes: another attempt of the same task may have made a good copy meanwhile.
    """
    try:
        there = target.find(original.key)
        if there is not None and not _is_same(source, original, target, there):
            target.delete_many([original.key])
    except StorageError as error:
        logger.warning("a copy of %s that failed was left as it is: %s", original.key, error)


def _is_same(
    source: ObjectStore, original: ObjectInfo, target: ObjectStore, copy: ObjectInfo
) -> bool:
    if original.size != copy.size:
        return False
    etags = (original.etag or "", copy.etag or "")
    has_form = all(_MD5.fullmatch(etag) for etag in etags)
    may_be_sums = has_form and source.root.kind == target.root.kind
    if may_be_sums and etags[0].strip('"') == etags[1].strip('"'):
        return True
    return _digest(source, original.key) == _digest(target, copy.key)


def _digest(store: ObjectStore, key: str) -> bytes:
    digest = hashlib.blake2b()
    for chunk in store.read_stream(key):
        digest.update(chunk)
    return digest.digest()


def _summary(road: CopyRoad, batch: _Batch) -> pa.RecordBatch:
    store, addresses = road.own_folder.open(), batch.addresses
    outcomes = [batch.outcomes[address] for address in addresses]
    summary = []
    for outcome in dict.fromkeys(outcome for outcome, _ in outcomes):
        mine = [number for number, (found, _) in enumerate(outcomes) if found == outcome]
        rows = batch.rows.take(pa.array(mine, pa.int64()))
        example = f"{addresses[mine[0]]} {outcomes[mine[0]][1]}".strip()
        summary.append(
            write_outcome(store, road.folder, outcome, rows, stem=outcome, example=example)
        )
    return pa.RecordBatch.from_pylist(summary, schema=OUTCOMES_SCHEMA)
