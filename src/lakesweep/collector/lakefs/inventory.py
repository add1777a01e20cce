"""A repository's candidates out of an inventory instead of a listing, and what the store says today of those that are garbage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.copies.lookups import look_up
from lakesweep.collector.copies.order import in_order
from lakesweep.collector.inventory.rows import NOT_CURRENT, OUTSIDE, InventoryRows
from lakesweep.collector.inventory.values import (
    ELSEWHERE,
    INCOMPLETE,
    Inventory,
    InventoryFile,
    doubt_about,
)
from lakesweep.collector.judge.account import doubt
from lakesweep.collector.judge.meeting import Judged
from lakesweep.collector.lakefs.listing import (
    CANDIDATE_SCHEMA,
    MOST_TASKS,
    has_shape_of_data,
    protected_examples,
    refuse_foreign_repository,
)
from lakesweep.collector.listing import ListedCatalog, Listing, Piece, ReadSoFar, list_objects
from lakesweep.collector.outcomes import OUTCOMES_SCHEMA, Outcomes, write_outcome
from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.domain.durations import format_time
from lakesweep.errors import StorageError
from lakesweep.formats.tables import MARK_SCHEMA, read_mark
from lakesweep.storage import Crew, ObjectInfo, ObjectStore
from lakesweep.storage.values import is_same_object

# A listing visits data/ and the names at the root of the namespace; rows of its other folders are passed over.
_LISTED_PATTERN = r"^(?:data/|[^/]*$)"
_OTHER_FOLDER = "other folder"

_IN_FLIGHT = 32

# What became of garbage since the inventory was taken; of what is as it was, by the reason why it is garbage.
EXPIRED, UNREFERENCED, REWRITTEN, VANISHED = _OUTCOMES = (
    *("expired", "unreferenced"),
    *("rewritten", "vanished"),
)
LOOKED_UP_SCHEMA = OUTCOMES_SCHEMA.append(pa.field("oldest", pa.timestamp("us", tz="UTC")))


@dataclass(frozen=True)
class ListedInventory(ListedCatalog[InventoryFile]):
    """Tells objects of a repository from what else an inventory names: each piece is a file of it."""

    files: InventoryRows
    schema: pa.Schema = CANDIDATE_SCHEMA

    def places(
        self, pieces: Sequence[Piece[InventoryFile]]
    ) -> Iterator[tuple[ObjectStore, dict[Piece[InventoryFile], str]]]:
        return iter(())  # nothing is listed

    def pages(
        self,
        pieces: Sequence[Piece[InventoryFile]],
        most: int | None = None,
        unread: dict[str, ReadSoFar] | None = None,
        passed: Counter[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        passed = Counter() if passed is None else passed
        for piece in pieces:
            for page in self.files.pages(piece.folder, passed):
                listed = page.filter(pc.match_substring_regex(page.column("key"), _LISTED_PATTERN))
                passed[_OTHER_FOLDER] += page.num_rows - listed.num_rows
                yield listed

    def is_candidate(self, page: pa.RecordBatch) -> pa.Array:
        return pc.and_(has_shape_of_data(page), super().is_candidate(page))

    def notices(self, rows: pa.RecordBatch, protected: pa.RecordBatch) -> Iterable[tuple[str, str]]:
        return protected_examples(protected)


def list_inventory(resources: Resources, inventory: Inventory, folder: str) -> Listing:
    """Read an inventory as the listing of a repository.

    Raises:
        UnsafeToSweepError: it lacks rows or files, or names nothing in the namespace.
    """
    target = resources.target
    catalog = ListedInventory(
        InventoryRows(
            inventory.uri,
            inventory.layout,
            target.namespace,
            target.storage,
            inventory.has_bucket_column,
            inventory.begins_with_container,
        )
    )
    pieces = [Piece(file) for file in inventory.files]
    listing = list_objects(resources.engine, target, folder, catalog, pieces, most_tasks=MOST_TASKS)
    rows = _rows_in(listing)
    if inventory.rows is not None and rows != inventory.rows:
        why = f"its manifest promises {inventory.rows} rows, and its files have {rows}"
        raise doubt_about(inventory.uri, why, kind=INCOMPLETE)
    if not listing.listed.objects and not listing.passed.get(_OTHER_FOLDER):
        why = f"none of its {rows} rows lies in {target.namespace.uri}"
        raise doubt_about(inventory.uri, why, kind=ELSEWHERE)
    refuse_foreign_repository(resources.name, listing)
    return listing


def _rows_in(listing: Listing) -> int:
    return listing.listed.objects + sum(listing.passed.values())


def refuse_doubles(inventory: Inventory, judged: Judged) -> None:
    """Refuse an inventory with a key twice: it gives two sizes or times, and nobody knows which are right."""
    if judged.duplicates.objects:
        why = f"{judged.duplicates.objects} of its rows have a key that another row has, too"
        raise doubt_about(inventory.uri, why, kind="inventory-duplicates")


@dataclass(slots=True)
class LookedUp(Outcomes):
    """Garbage by what the store says of it today. Only what is as the inventory says may go."""

    oldest: datetime | None = field(default=None)

    @property
    def garbage(self) -> list[Part]:
        """The parts whose objects the store still has with the size and time that the inventory gives."""
        return [*self.parts[EXPIRED], *self.parts[UNREFERENCED]]


def look_up_garbage(resources: Resources, garbage: Sequence[Part], folder: str) -> LookedUp:
    """Ask the store for every object of these parts: it may be gone since the inventory, or another one."""
    target = resources.target
    # Neighbours together, so that a page of a listing tells of many.
    _, ordered = in_order(resources.engine, target, target, folder, garbage)
    work = partial(look_up_parts, target, folder)
    rows = resources.run_on_parts(ordered, work, LOOKED_UP_SCHEMA)
    found = LookedUp.of(rows)
    found.oldest = min((row["oldest"] for row in rows if row["oldest"]), default=None)
    if found.tally(*_OUTCOMES) != tally_of(garbage):
        raise doubt(f"{tally_of(garbage)} were to be looked up, {found.tally(*_OUTCOMES)} were")
    return found


def look_up_parts(target: Target, folder: str, parts: Iterator[str]) -> Iterator[pa.RecordBatch]:
    """Work function: splits each part by whether the store has its objects with the same size and time."""
    store = target.open()
    for part in parts:
        rows = read_mark(store.read(part))
        split: dict[str, list[dict[str, Any]]] = {outcome: [] for outcome in _OUTCOMES}
        with Crew(_IN_FLIGHT) as crew:
            known = look_up(store, rows.column("address").to_pylist(), crew, trust_absence=True)
        for row in rows.to_pylist():
            split[_outcome(row, known[row["address"]])].append(row)
        yield pa.RecordBatch.from_pylist(
            [_told(store, folder, outcome, some) for outcome, some in split.items()],
            schema=LOOKED_UP_SCHEMA,
        )


def _outcome(row: dict[str, Any], found: ObjectInfo | StorageError | None) -> str:
    if isinstance(found, StorageError):
        raise found
    if found is None:
        return VANISHED
    named = ObjectInfo(row["address"], row["size_bytes"], row["last_modified"], None)
    if not is_same_object(named, found):
        return REWRITTEN
    return EXPIRED if row["reason"] == "expired" else UNREFERENCED


def _told(
    store: ObjectStore, folder: str, outcome: str, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    table = pa.Table.from_pylist(rows, schema=MARK_SCHEMA)
    is_garbage = outcome in (EXPIRED, UNREFERENCED)
    told = write_outcome(
        store,
        folder,
        outcome,
        table,
        stem="garbage" if is_garbage else outcome,
        example=rows[0]["address"] if rows else "",
    )
    return told | {"oldest": pc.min(table.column("last_modified")).as_py() if is_garbage else None}


def inventory_facts(inventory: Inventory, listing: Listing, looked_up: LookedUp) -> dict[str, Any]:
    """What a record says of the inventory: which one it was, and where each count came from."""
    passed, asked = listing.passed, looked_up.tally(*_OUTCOMES)
    return {
        "uri": inventory.uri,
        "kind": inventory.kind,
        "taken_at": format_time(inventory.taken_at),
        "files": len(inventory.files),
        "filters": inventory.filters,
        "rows": _rows_in(listing),
        "rows_listed": listing.listed.objects,
        "rows_outside": passed.get(OUTSIDE, 0),
        "rows_in_other_folders": passed.get(_OTHER_FOLDER, 0),
        "rows_not_current": passed.get(NOT_CURRENT, 0),
        "looked_up": asked.objects,
        "as_listed": looked_up.tally(EXPIRED, UNREFERENCED).objects,
        "rewritten": looked_up.tally(REWRITTEN).objects,
        "vanished": looked_up.tally(VANISHED).objects,
    }
