"""List objects into Parquet parts: every piece once, and every object is a candidate or counted as protected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.account import check_once, doubt
from lakesweep.collector.parts import PARTS, Part, PartWriter, parts_told, sum_of, tally_of
from lakesweep.collector.target import Target
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Engine, Scatter, tasks_for
from lakesweep.progress import advance

LISTED_SCHEMA = pa.schema(
    [
        pa.field("pieces", pa.list_(pa.string())),
        pa.field("objects", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("protected", pa.int64()),
        pa.field("protected_bytes", pa.int64()),
        pa.field("parts", PARTS),
        pa.field("notices", pa.list_(pa.struct({"kind": pa.string(), "name": pa.string()}))),
    ]
)

# A pattern takes longer to build than a page of keys to be matched with it.
_ROWS_TOGETHER = 50_000

Folder = TypeVar("Folder")  # how a catalog names a folder: by a key, or by its place


@dataclass(frozen=True, slots=True)
class Piece(Generic[Folder]):
    """One piece of a listing: everything below a folder, or only what lies directly in it."""

    folder: Folder
    recursive: bool = True

    def __str__(self) -> str:
        return f"{self.folder}{'' if self.recursive else ' itself'}"


@dataclass(frozen=True, slots=True)
class TaskPieces(Generic[Folder]):
    """What one task lists straight into cells: a source of candidates, of which nobody promised a number."""

    number: int
    pieces: tuple[Piece[Folder], ...]
    rows: None = None
    bytes: None = None

    @property
    def name(self) -> str:
        return f"pieces:{self.number}"


class ListedCatalog(ABC, Generic[Folder]):
    """What a catalog adds to a listing. Small and picklable, as it travels with each task."""

    __slots__ = ()
    schema: pa.Schema  # of a candidate's row, which begins with its name

    @abstractmethod
    def pages(self, pieces: Sequence[Piece[Folder]]) -> Iterator[pa.RecordBatch]:
        """Everything that lies in these pieces, in batches of `LISTING_SCHEMA`."""

    def is_candidate(self, page: pa.RecordBatch) -> pa.Array:
        """Which of these objects may be garbage: none whose key could turn into another one on its way to the store."""
        return pc.invert(page.column("is_odd"))

    def rows(self, candidates: pa.RecordBatch) -> pa.RecordBatch:
        """What is kept of candidates: what their listing tells, and nulls for all else."""
        told = dict(zip(candidates.schema.names, candidates.columns, strict=True))
        told |= {self.schema.names[0]: told["key"], "size_bytes": told["size"]}
        columns = [told.get(f.name, pa.nulls(candidates.num_rows, f.type)) for f in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def notices(self, rows: pa.RecordBatch, protected: pa.RecordBatch) -> Iterable[tuple[str, str]]:
        """(kind, name) of what the driver must hear of: candidates are told by their rows."""
        return ()


@dataclass(frozen=True, slots=True)
class ListedStore(ListedCatalog[str]):
    """A catalog whose objects lie in one store, where a folder is a prefix of keys."""

    target: Target
    schema: pa.Schema

    def pages(self, pieces: Sequence[Piece[str]]) -> Iterator[pa.RecordBatch]:
        store = self.target.open()
        for _, page in store.list_many([piece.folder for piece in pieces if piece.recursive]):
            yield page
        for piece in pieces:
            if not piece.recursive:
                yield store.list_folder(piece.folder).objects


@dataclass(frozen=True, slots=True)
class Listing:
    """What a listing saw. All of it is in the parts, but for what is protected."""

    listed: Tally
    protected: Tally
    parts: tuple[Part, ...]
    notices: Mapping[str, Sequence[str]]  # kind → names


def list_objects(
    engine: Engine,
    target: Target,
    folder: str,
    catalog: ListedCatalog[Folder],
    pieces: Sequence[Piece[Folder]],
    *,
    most_tasks: int = 200,
    per_task: int = 1,
) -> Listing:
    """List these pieces, each exactly once; none lies in another. Parts are written to a folder of the target."""
    tasks = tasks_for(len(pieces), engine.slots, at_most=most_tasks, per_task=per_task, waves=4)
    work = partial(list_pieces, catalog, target, folder)
    rows = engine.collect(Scatter(pieces, work, LISTED_SCHEMA, tasks)).to_pylist()
    check_once("listing", (p for row in rows for p in row["pieces"]), map(str, pieces))
    notices: dict[str, dict[str, None]] = {}
    for notice in (notice for row in rows for notice in row["notices"]):
        notices.setdefault(notice["kind"], {})[notice["name"]] = None
    listing = Listing(
        listed=Tally(sum(r["objects"] for r in rows), sum(r["bytes"] for r in rows)),
        protected=Tally(sum(r["protected"] for r in rows), sum(r["protected_bytes"] for r in rows)),
        parts=tuple(parts_told(*(row["parts"] for row in rows))),
        notices={kind: list(names) for kind, names in notices.items()},
    )
    if tally_of(listing.parts) + listing.protected != listing.listed:
        raise doubt(
            f"{listing.listed} were listed, {tally_of(listing.parts)} written, {listing.protected} protected"
        )
    return listing


def list_pieces(
    catalog: ListedCatalog[Folder], target: Target, folder: str, pieces: Iterator[Piece[Folder]]
) -> Iterator[pa.RecordBatch]:
    """Work function: one row with what the task has listed and written."""
    wanted = list(pieces)
    writer = PartWriter(target.open(), folder, "listing", catalog.schema)
    seen = protected = Tally()
    notices: dict[tuple[str, str], None] = {}
    for page in joined(catalog.pages(wanted)):
        is_candidate = catalog.is_candidate(page)
        rest = page.filter(pc.invert(is_candidate))
        rows = catalog.rows(page.filter(is_candidate) if rest.num_rows else page)
        counted = Tally(page.num_rows, sum_of(page, "size"))
        advance(counted.objects, counted.bytes)
        seen += counted
        protected += Tally(rest.num_rows, sum_of(rest, "size"))
        notices |= dict.fromkeys(catalog.notices(rows, rest))
        writer.add(rows)
    row = {
        "pieces": [str(piece) for piece in wanted],
        "objects": seen.objects,
        "bytes": seen.bytes,
        "protected": protected.objects,
        "protected_bytes": protected.bytes,
        "parts": [asdict(part) for part in writer.close()],
        "notices": [{"kind": kind, "name": name} for kind, name in notices],
    }
    yield pa.RecordBatch.from_pylist([row], schema=LISTED_SCHEMA)


def joined(pages: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pages as large ones, of which each takes a pattern once."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for page in pages:
        waiting.append(page)
        rows += page.num_rows
        if rows >= _ROWS_TOGETHER:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)
