"""What users and sweeps do to a Nessie catalog, told to the catalog and to a model of plain values at the same time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from hypothesis import note

from lakesweep.collector.nessie.identify import Marked
from lakesweep.collector.record import RunRecord
from lakesweep.errors import UnsafeToSweepError
from lakesweep_testing.iceberg_tables import EQUALITY_DELETES, POSITION_DELETES
from lakesweep_testing.nessie_model import CatalogModel
from lakesweep_testing.nessie_scene import NessieScene, SceneTable

__all__ = ["FIRST_STEPS", "VERBS", "Story"]

# Files that name others: a run must read them.
NAMING = (".json", ".avro")

VERBS = (
    "create",
    "create nested",
    "append",
    "append",
    "remove",
    "delete rows",
    "delete rows by vectors",
    "overwrite",
    "compact",
    "expire snapshots",
    "statistics",
    "append after statistics",
    "unlisted snapshot",
    "foreign table",
    "orphan",
    "young orphan",
    "drop",
    "drop",
    "recreate",
    "branch",
    "tag",
    "delete reference",
    "switch",
    "sweep",
    "sweep",
    "sweep dropped tables too",
    "tag an older commit",
    "reset",
)

# Shorter than the age of everything but young orphans.
DROPPED_GRACE = timedelta(days=1)

FIRST_STEPS = (("create", 0), ("create nested", 0), ("create", 0))


@dataclass(slots=True)
class Story:
    """Does the same to the catalog and to the model."""

    scene: NessieScene
    model: CatalogModel = field(default_factory=CatalogModel)
    branch: str = "main"
    names: int = 0
    young: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)  # of other catalogs
    tables: dict[str, SceneTable] = field(default_factory=dict)
    hashes: list[str] = field(default_factory=list)  # of the model's commits
    gone: set[str] = field(default_factory=set)  # what sweeps deleted
    sweeps: int = 0

    def tell(self, verb: str, number: int) -> None:
        here = self.model.tables_on(self.branch)
        if verb == "create":
            self._create()
        elif verb == "create nested" and here:
            outer = self.tables[here[number % len(here)]]
            self._create(f"{outer.iceberg.location}/t{len(self.tables)}")
        elif verb == "branch":
            self._refer(f"b{self._number()}", is_branch=True)
        elif verb == "tag":
            self._refer(f"v{self._number()}", is_branch=False)
        elif verb == "sweep":
            self.sweep(None if number == 7 else number)
        elif verb == "sweep dropped tables too":
            # Few commits: a table that was dropped lately is no dropped one while a live commit has it.
            self.sweep(number % 3, collect_dropped=True)
        elif verb == "tag an older commit":
            commits = self.model.history(self.branch)
            self._refer(f"v{self._number()}", is_branch=False, at=commits[number % len(commits)])
        elif verb == "reset":
            commits = self.model.history(self.branch)
            back = commits[min(1 + number % 2, len(commits) - 1)]
            self.scene.nessie.assign(self.branch, self.branch, self.hashes[back])
            self.model.references[self.branch] = back
        elif verb == "delete reference":
            self._delete_reference(number)
        elif verb == "switch":
            branches = sorted(r for r in self.model.references if not r.startswith("v"))
            self.branch = branches[number % len(branches)]
        elif here:
            self._change(verb, self.tables[here[number % len(here)]])

    def sweep(self, commits_kept: int | None, *, collect_dropped: bool = False) -> RunRecord | None:
        """Sweep, and hold it against the model; None where a head's file is missing, and the run must refuse."""
        policy = "NONE" if commits_kept is None else str(commits_kept)
        before, heads = self.scene.files(), self.scene.nessie.heads()
        garbage = self.garbage(commits_kept)
        least, most = garbage, garbage
        if collect_dropped:
            least = garbage | self.files_of_lone_dropped_tables(commits_kept)
            most = self.garbage(commits_kept, collect_dropped=True)
        grace = DROPPED_GRACE if collect_dropped else None
        marked = self.scene.mark(policy, dropped_grace=grace)
        self.sweeps += 1
        lost = {f for f in self.model.head_files(commits_kept) - before if f.endswith(NAMING)}
        if lost:
            with pytest.raises(UnsafeToSweepError, match="can't be read"):
                self._delete(marked)
            assert self.scene.files() == before
            return None
        record = self._delete(marked)
        deleted = before - self.scene.files()
        note(f"not deleted: {least - deleted}; deleted in vain: {deleted - most}")
        assert least <= deleted <= most
        seen = record.objects
        assert seen["garbage"] == seen["deleted"] == len(deleted)
        assert self.scene.nessie.heads() == heads
        self.gone |= deleted
        return record

    def _delete(self, marked: Marked) -> RunRecord:
        """At once, or recorded first: both roads in turn."""
        if self.sweeps % 2:
            record = self.scene.expire(marked, ask_nessie=True)
            seen = record.objects
            kept = seen["live"] + seen["young"] + seen["protected"]
            assert seen["listed"] == kept + seen["garbage"]
            return record
        self.scene.defer(marked)
        return self.scene.delete_deferred(marked, ask_nessie=True)

    def garbage(self, commits_kept: int | None, *, collect_dropped: bool = False) -> set[str]:
        """What a sweep must delete by the model; with dropped tables, what it may delete at most."""
        found = self.model.garbage(
            self.scene.files(), commits_kept, self.gone, collect_dropped=collect_dropped
        )
        return found - self.young - self.foreign

    def files_of_lone_dropped_tables(self, commits_kept: int | None) -> set[str]:
        """All of dropped tables that nobody else can claim: no other table, no young file, no unknown metadata."""
        files, claimed = self.scene.files(), self.young | self.foreign
        found: set[str] = set()
        for table, last in self.model.dropped(commits_kept):
            base = f"{table.iceberg.location}/"
            others = [f"{t.iceberg.location}/" for t in self.tables.values() if t is not table]
            is_lone = not any(o.startswith(base) or base.startswith(o) for o in others)
            is_newest = last.metadata_location == table.iceberg.metadata_files[-1]
            own = {file for file in files if file.startswith(base)}
            if is_lone and is_newest and own.isdisjoint(claimed):
                found |= own
        return found

    def _create(self, location: str | None = None, *, instead_of: SceneTable | None = None) -> None:
        name, version = f"t{len(self.tables)}", 1 + len(self.tables) % 3
        table = self.scene.table(
            name,
            location,
            instead_of=instead_of,
            format_version=version,
            # Early writers of version 1 named manifests in the metadata itself.
            embeds_manifests=version == 1 and self._number() % 2 == 0,
        )
        self.tables[name] = table
        self._put(table, table.iceberg.append(self._name()))

    def _change(self, verb: str, table: SceneTable) -> None:
        iceberg = table.iceberg
        # A writer goes on from what the branch has, and knows nothing of other branches or what a reset left behind.
        state = self.model.state(self.branch, table.name)
        iceberg.snapshots = list(iceberg.listed[state.metadata_location])
        current = [entry.path for entry in iceberg.alive()]
        match verb:
            case "append":
                self._put(table, iceberg.append(self._name(), self._name()))
            case "remove" if current:
                self._put(table, iceberg.remove(current[0]))
            case "delete rows" if iceberg.format_version > 1:
                content = (POSITION_DELETES, EQUALITY_DELETES)[self._number() % 2]
                self._put(table, iceberg.delete_rows(self._name(), content=content))
            case "delete rows by vectors" if iceberg.format_version > 2:
                self._put(table, iceberg.delete_rows_by_vectors(f"{self._number()}.puffin"))
            case "compact":
                self._put(table, iceberg.compact(self._name()))
            case "overwrite":
                self._put(table, iceberg.overwrite(self._name()))
            case "expire snapshots":
                self._put(table, iceberg.expire_snapshots())
            case "statistics":
                self._put(table, iceberg.add_statistics(f"{self._name()}.puffin"))
            case "append after statistics":
                self._put(table, iceberg.add_statistics(f"{self._name()}.puffin"))
                self._put(table, iceberg.append(self._name()))
            case "unlisted snapshot":
                # Protobuf's default, where a writer left the id out.
                self._put(table, replace(state, snapshot_id=0))
            case "foreign table":
                number = self._number()
                folder = f"{iceberg.location}/foreign-{number}"
                log = (
                    "_delta_log/0.json",
                    ".hoodie/hoodie.properties",
                    "metadata/v1.metadata.json",
                )
                for name in (log[number % 3], "part-0.parquet"):
                    self.scene.write(f"{folder}/{name}", b"foreign")
                    self.foreign.add(f"{folder}/{name}")
            case "orphan":
                iceberg.write_orphan(self._name())
            case "young orphan":
                young = iceberg.write_orphan(self._name())
                self.scene.touch(young, self.scene.written_at + timedelta(days=9, hours=12))
                self.young.add(young)
            case "drop":
                self._drop(table)
            case "recreate":
                self._drop(table)
                self._create(iceberg.location, instead_of=table)

    def _drop(self, table: SceneTable) -> None:
        self.scene.nessie.commit(self.branch, deletes=[table.key])
        self.model.drop(self.branch, table.name)
        self.hashes.append(self.scene.nessie.heads()[self.branch])

    def _put(self, table: SceneTable, snapshot) -> None:  # type: ignore[no-untyped-def]
        table.branch = self.branch
        table.commit(snapshot)
        self.model.put(self.branch, table, snapshot)
        self.hashes.append(self.scene.nessie.heads()[self.branch])

    def _refer(self, name: str, *, is_branch: bool, at: int | None = None) -> None:
        create = self.scene.nessie.create_branch if is_branch else self.scene.nessie.create_tag
        at = self.model.references[self.branch] if at is None else at
        create(name, self.branch, None if at is None else self.hashes[at])
        self.model.references[name] = at

    def _delete_reference(self, number: int) -> None:
        others = sorted(r for r in self.model.references if r not in ("main", self.branch))
        if others:
            name = others[number % len(others)]
            self.scene.nessie.delete_reference(name)
            del self.model.references[name]

    def _name(self) -> str:
        return f"{self._number()}.parquet"

    def _number(self) -> int:
        self.names += 1
        return self.names
