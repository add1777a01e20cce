"""List the base locations: cut into pieces that keep all tasks busy, counted, and nothing left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lakesweep.collector.judge.account import doubt
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.folder_sums import SUM_SCHEMA, FolderSum, sum_folders
from lakesweep.collector.nessie.list_folders import (
    DELTA,
    HUDI,
    ICEBERG,
    LISTED_SCHEMA,
    FolderPiece,
    FoundTable,
    list_folders,
)
from lakesweep.collector.parts import Part
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Tally
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import UnsafeToSweepError

# Folders are opened until there are so many pieces for each slot, or so deep.
_PIECES_PER_SLOT = 4
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """What lies in the base locations."""

    seen: Tally  # everything that the stores' pages held
    protected: Tally  # of which these are no candidates
    parts: list[Part]
    tables: frozenset[FoundTable]  # folders that look like a table's
    untouchable: tuple[str, ...]  # examples of names that a store can't carry unchanged


def list_base_folders(
    context: NessieContext, roots: Sequence[Location], folder: str
) -> ListedFiles:
    """List every root once. The caller has made sure that none lies in another."""
    pieces = _cut(context, roots)
    tasks = tasks_for(len(pieces), context.engine.slots, at_most=context.most_tasks, waves=4)
    work = partial(list_folders, context.table_stores, context.target, folder)
    rows = context.engine.collect(Scatter(pieces, work, LISTED_SCHEMA, tasks)).to_pylist()
    by_kind = {kind: [r for r in rows if r["kind"] == kind] for kind in {r["kind"] for r in rows}}
    prefixes, written = by_kind.get("prefix", []), by_kind.get("part", [])
    if len(prefixes) != len(pieces):
        raise UnsafeToSweepError(
            f"{len(pieces)} folders were to be listed, {len(prefixes)} have been. Nothing was deleted. Run again.",
            kind="not-conserved",
        )
    listed = ListedFiles(
        seen=_sum(prefixes, "objects", "bytes"),
        protected=_sum(prefixes, "protected", "protected_bytes"),
        parts=[Part(r["name"], r["objects"], r["bytes"]) for r in written],
        tables=frozenset(
            FoundTable(kind, row["name"])
            for kind in (ICEBERG, DELTA, HUDI)
            for row in by_kind.get(kind, [])
        ),
        untouchable=tuple(r["name"] for r in by_kind.get("untouchable", [])),
    )
    if listed.seen != listed.protected + _sum(written, "objects", "bytes"):
        raise UnsafeToSweepError(
            f"{listed.seen} were listed, and {_sum(written, 'objects', 'bytes')} were written down. "
            "Nothing was deleted. Run again.",
            kind="not-conserved",
        )
    return listed


def sum_up_folders(
    context: NessieContext, folders: Sequence[Location]
) -> dict[Location, FolderSum]:
    """What lies in each of these folders, which may lie in each other. Nothing is kept of the lists."""
    tasks = tasks_for(len(folders), context.engine.slots, at_most=context.most_tasks, waves=4)
    work = partial(sum_folders, context.table_stores)
    pieces = [FolderPiece(folder) for folder in folders]
    rows = context.engine.collect(Scatter(pieces, work, SUM_SCHEMA, tasks)).to_pylist()
    found = {row["folder"]: FolderSum.of_row(row) for row in rows}
    if len(found) != len(folders):
        raise doubt(f"{len(folders)} folders were to be looked at, {len(found)} have been")
    return {folder: found[folder.uri] for folder in folders}


def _cut(context: NessieContext, roots: Sequence[Location]) -> list[FolderPiece]:
    """Roots, opened folder by folder while there are too few pieces to keep every slot busy."""
    wanted = context.engine.slots * _PIECES_PER_SLOT
    whole: list[FolderPiece] = []
    deep = list(roots)
    for _ in range(_DEEPEST):
        if not deep or len(deep) + len(whole) >= wanted:
            break
        opened: list[Location] = []
        for folder in deep:
            inside = context.table_stores.open(folder).list_folder()
            names = [name.removesuffix("/") for name in inside.folders]
            if any(name in ("", ".", "..") for name in names):
                whole.append(FolderPiece(folder))  # such a folder can't be opened by its name
                continue
            if inside.objects.num_rows:
                whole.append(FolderPiece(folder, recursive=False))
            opened += [folder.child(name) for name in names]
        deep = opened
    return [*whole, *(FolderPiece(folder) for folder in deep)]


def _sum(rows: Sequence[dict[str, int]], objects: str, size: str) -> Tally:
    return Tally(sum(r[objects] for r in rows), sum(r[size] for r in rows))
