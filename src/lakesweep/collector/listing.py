"""List objects into Parquet parts: every piece once, and every object is a candidate or counted as protected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.account import check_once, doubt
from lakesweep.collector.parts import PARTS, Part, PartWriter, parts_told, sum_of, tally_of
from lakesweep.collector.target import Target
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Engine, Scatter, tasks_for
from lakesweep.progress import advance
from lakesweep.storage import KeyRange, ObjectStore, ranges_after, scan_direct

_UNREAD = pa.struct(
    {"piece": pa.string(), "objects": pa.int64(), "first": pa.string(), "last": pa.string()}
)
LISTED_SCHEMA = pa.schema(
    [
        pa.field("pieces", pa.list_(pa.string())),
        pa.field("objects", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("protected", pa.int64()),
        pa.field("protected_bytes", pa.int64()),
        pa.field("parts", PARTS),
        pa.field("notices", pa.list_(pa.struct({"kind": pa.string(), "name": pa.string()}))),
        pa.field("unread", pa.list_(_UNREAD)),  # pieces that were left off
        # Rows that a source holds and that are no objects of the listing, by why.
        pa.field("passed", pa.list_(pa.struct({"why": pa.string(), "rows": pa.int64()}))),
    ]
)
# A piece with more objects than this is left off, in each later round with four times as many.
_MOST_AT_ONCE = 50_000
_CUT_INTO = 64  # pieces for all that was left off
# What a first round costs in the driver's own process, and the share of what may be done there that it takes.
_SECONDS_PER_PIECE = 0.002
SECONDS_PER_OBJECT = 8e-6
_SHARE_HERE = 0.5
_PAGE = 1_000  # objects of a store's answer, which costs about as much with fewer

# A pattern takes longer to build than a page of keys to be matched with it.
_ROWS_TOGETHER = 50_000

Folder = TypeVar("Folder")  # how a catalog names a folder: by a key, or by its place


@dataclass(frozen=True, slots=True)
class Piece(Generic[Folder]):
    """One piece of a listing: all keys below a folder, or only those directly in it; where asked, of a range of keys only."""

    folder: Folder
    recursive: bool = True
    start_after: str | None = None
    end_at: str | None = None

    def __str__(self) -> str:
        text = f"{self.folder}{'' if self.recursive else ' itself'}"
        text += f" after {self.start_after!r}" if self.start_after is not None else ""
        return text + (f" up to {self.end_at!r}" if self.end_at is not None else "")


@dataclass(slots=True)
class ReadSoFar:
    """How far a piece that turned out to be large was read."""

    objects: int = 0
    first: str = ""
    last: str = ""

    def add(self, page: pa.RecordBatch) -> None:
        """Note a page, of which at least one object is new."""
        keys = page.column("key")
        self.first = self.first or keys[0].as_py()
        self.last = keys[-1].as_py()
        self.objects += page.num_rows


@dataclass(frozen=True, slots=True)
class TaskPieces(Generic[Folder]):
    """The pieces that one task lists straight into cells. As a source of candidates it promises no number of rows."""

    number: int
    pieces: tuple[Piece[Folder], ...]
    rows: None = None
    bytes: None = None

    @property
    def name(self) -> str:
        return f"pieces:{self.number}"


class ListedCatalog(ABC, Generic[Folder]):
    """A listing's questions to a catalog: where pieces lie, and which objects are candidates. Picklable: sent with each task."""

    __slots__ = ()
    schema: pa.Schema  # of a candidate's row, which begins with its name

    @property
    def is_cut(self) -> bool:
        """Whether the listing of any piece can stop after a number of objects, so that the cost of a round has a bound."""
        return False

    @abstractmethod
    def places(
        self, pieces: Sequence[Piece[Folder]]
    ) -> Iterator[tuple[ObjectStore, dict[Piece[Folder], str]]]:
        """The stores that the pieces lie in, each with its pieces and the prefix of each piece's keys."""

    def named(self, piece: Piece[Folder], page: pa.RecordBatch) -> pa.RecordBatch:
        """A page of a piece, with each key replaced by the name that the catalog has for the object."""
        return page

    def pages(
        self,
        pieces: Sequence[Piece[Folder]],
        most: int | None = None,
        unread: dict[str, ReadSoFar] | None = None,
        passed: Counter[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Everything that lies in these pieces, in batches of `LISTING_SCHEMA`.

        With `most`, a piece may be left off after so many objects: `unread` then has how far it was read. In `passed` a
        source counts the rows that it passes over.
        """
        for store, places in self.places(pieces):
            limit = most if is_cut(store) else None
            read = {piece: ReadSoFar() for piece in places}
            for piece, page in _pages(store, places, limit):
                read[piece].add(page)
                yield self.named(piece, page)
            if limit is not None and unread is not None:
                unread |= {str(p): one for p, one in read.items() if one.objects >= limit}

    def rest(self, piece: Piece[Folder], read: ReadSoFar, parts: int) -> list[Piece[Folder]]:
        """Pieces, at most `parts` of them, that together list what is left of a piece whose listing stopped early."""
        whole = KeyRange("", piece.start_after, piece.end_at)
        return [
            replace(piece, start_after=one.start_after, end_at=one.end_at)
            for one in ranges_after(whole, read.first, read.last, parts)
        ]

    def is_candidate(self, page: pa.RecordBatch) -> pa.Array:
        """Which of these objects may be garbage: none whose key could turn into another one on its way to the store."""
        return pc.invert(page.column("is_odd"))

    def rows(self, candidates: pa.RecordBatch) -> pa.RecordBatch:
        """The candidates as rows of `schema`: columns that the listing knows, and nulls in the others."""
        told = dict(zip(candidates.schema.names, candidates.columns, strict=True))
        told |= {self.schema.names[0]: told["key"], "size_bytes": told["size"]}
        columns = [told.get(f.name, pa.nulls(candidates.num_rows, f.type)) for f in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def notices(self, rows: pa.RecordBatch, protected: pa.RecordBatch) -> Iterable[tuple[str, str]]:
        """What the driver must hear of, as (kind, name): odd things seen among the candidates or among the other objects."""
        return ()


@dataclass(frozen=True, slots=True)
class ListedStore(ListedCatalog[str]):
    """A catalog whose objects lie in one store, where a folder is a prefix of keys."""

    target: Target
    schema: pa.Schema

    @property
    def is_cut(self) -> bool:
        return is_cut(self.target.open())

    def places(
        self, pieces: Sequence[Piece[str]]
    ) -> Iterator[tuple[ObjectStore, dict[Piece[str], str]]]:
        yield self.target.open(), {piece: piece.folder for piece in pieces}


def _pages(
    store: ObjectStore, places: Mapping[Piece[Folder], str], most: int | None
) -> Iterator[tuple[Piece[Folder], pa.RecordBatch]]:
    """The pages of all pieces: recursive pieces are listed many at once, the others one after another behind them."""
    scans = {
        piece: KeyRange(prefix, piece.start_after, piece.end_at, most)
        for piece, prefix in places.items()
    }
    recursive = {scan: piece for piece, scan in scans.items() if piece.recursive}
    for scan, page in store.list_ranges(list(recursive)):
        yield recursive[scan], page
    for piece, scan in scans.items():
        if not piece.recursive:
            for page in _direct(store, scan):
                yield piece, page


def is_cut(store: ObjectStore) -> bool:
    """Whether large pieces are cut. Not in a local folder: its pages cost no waiting, and can't begin at any key."""
    return store.backend.is_key_ordered and store.root.kind != "local"


def _direct(store: ObjectStore, scan: KeyRange) -> Iterator[pa.RecordBatch]:
    """Pages of the objects that lie directly in a folder; of a large folder only the first ones, up to the scan's limit."""
    if not is_cut(store):
        pages = iter([store.list_folder(scan.prefix).objects])
    else:
        pages = scan_direct(store, scan)
    told = 0
    for page in pages:
        if page.num_rows:
            yield page
        told += page.num_rows
        if scan.most is not None and told >= scan.most:
            return


@dataclass(frozen=True, slots=True)
class Listing:
    """The result of a listing: its totals, and the parts that hold every object but the protected ones."""

    listed: Tally
    protected: Tally
    parts: tuple[Part, ...]
    notices: Mapping[str, Sequence[str]]  # kind → names
    passed: Mapping[str, int] = field(default_factory=dict)  # rows of a source that are none


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
    """List these pieces, each exactly once; none lies in another. Parts are written to a folder of the target.

    A piece that turns out to be large is left off, and what is left of it is cut and listed in the next round, by many
    tasks: a repository whose objects all have one prefix is listed as quickly as any. Where the engine does small work in
    the driver's own process, the first round is what fits there: of a small repository that is all.
    """
    rows: list[dict[str, Any]] = []
    most, seconds = _MOST_AT_ONCE, None
    fitting = _fitting_here(engine, len(pieces)) if catalog.is_cut else 0
    if fitting >= _PAGE:
        most = min(fitting, most)
        seconds = len(pieces) * (_SECONDS_PER_PIECE + most * SECONDS_PER_OBJECT)
    while pieces:
        # One task of our own lists many pieces at once.
        tasks = 1 if seconds is not None else _tasks(engine, pieces, most_tasks, per_task)
        work = partial(list_pieces, catalog, target, folder, most)
        scatter = Scatter(pieces, work, LISTED_SCHEMA, tasks, seconds=seconds)
        told = engine.collect(scatter).to_pylist()
        check_once("listing", (p for row in told for p in row["pieces"]), map(str, pieces))
        rows += told
        named = {str(piece): piece for piece in pieces}
        left_off = [one for row in told for one in row["unread"]]
        pieces = [
            piece
            for one in left_off
            for piece in catalog.rest(
                named[one.pop("piece")], ReadSoFar(**one), max(2, _CUT_INTO // len(left_off))
            )
        ]
        most = 4 * most if seconds is None else _MOST_AT_ONCE
        seconds, per_task = None, 1
    notices: dict[str, dict[str, None]] = {}
    for notice in (notice for row in rows for notice in row["notices"]):
        notices.setdefault(notice["kind"], {})[notice["name"]] = None
    passed: Counter[str] = Counter()
    for one in (one for row in rows for one in row["passed"]):
        passed[one["why"]] += one["rows"]
    listing = Listing(
        listed=Tally(sum(r["objects"] for r in rows), sum(r["bytes"] for r in rows)),
        protected=Tally(sum(r["protected"] for r in rows), sum(r["protected_bytes"] for r in rows)),
        parts=tuple(parts_told(*(row["parts"] for row in rows))),
        notices={kind: list(names) for kind, names in notices.items()},
        passed=dict(passed),
    )
    if tally_of(listing.parts) + listing.protected != listing.listed:
        raise doubt(
            f"{listing.listed} were listed, {tally_of(listing.parts)} written, {listing.protected} protected"
        )
    return listing


def _fitting_here(engine: Engine, pieces: int) -> int:
    """How many objects of each piece can be listed in the driver's own process; negative where it has no time for any."""
    seconds = engine.seconds_here * _SHARE_HERE / max(pieces, 1) - _SECONDS_PER_PIECE
    return int(seconds / SECONDS_PER_OBJECT)


def _tasks(engine: Engine, pieces: Sequence[object], most_tasks: int, per_task: int) -> int:
    return tasks_for(len(pieces), engine.slots, at_most=most_tasks, per_task=per_task, waves=4)


def list_pieces(
    catalog: ListedCatalog[Folder],
    target: Target,
    folder: str,
    most: int | None,
    pieces: Iterator[Piece[Folder]],
) -> Iterator[pa.RecordBatch]:
    """Work function: one row with what the task has listed and written."""
    wanted = list(pieces)
    writer = PartWriter(target.open(), folder, "listing", catalog.schema)
    seen = protected = Tally()
    notices: dict[tuple[str, str], None] = {}
    unread: dict[str, ReadSoFar] = {}
    passed: Counter[str] = Counter()
    for page in joined(catalog.pages(wanted, most, unread, passed)):
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
        "unread": [{"piece": name, **asdict(read)} for name, read in unread.items()],
        "passed": [{"why": why, "rows": count} for why, count in passed.items()],
    }
    yield pa.RecordBatch.from_pylist([row], schema=LISTED_SCHEMA)


def joined(pages: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small pages joined into large ones: matching a key pattern costs more for each page than for each key."""
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
