"""On random catalogs, an expiry deletes what the plain model calls garbage, and nothing else."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from lakesweep.errors import UnsafeToSweepError
from lakesweep.runs.record import RunRecord
from lakesweep.testing.iceberg_tables import EQUALITY_DELETES
from lakesweep.testing.nessie_model import CatalogModel
from lakesweep.testing.nessie_scene import NessieScene, SceneTable

# Files that name others: a run must read them.
NAMING = (".json", ".avro")

VERBS = (
    "create",
    "create nested",
    "append",
    "append",
    "remove",
    "delete rows",
    "overwrite",
    "expire snapshots",
    "statistics",
    "append after statistics",
    "unlisted snapshot",
    "foreign table",
    "orphan",
    "young orphan",
    "drop",
    "branch",
    "tag",
    "delete reference",
    "switch",
    "sweep",
    "sweep",
    "tag an older commit",
    "reset",
)

# Short lists tell nothing: what goes wrong needs several tables, references and commits at once.
steps = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 7)), min_size=12, max_size=30)
kept = st.one_of(st.none(), st.integers(0, 4))


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
    has_dropped: bool = False
    has_swept: bool = False
    hashes: list[str] = field(default_factory=list)  # of the model's commits
    gone: set[str] = field(default_factory=set)  # what sweeps deleted

    def tell(self, verb: str, number: int) -> None:
        here = self.model.tables_on(self.branch)
        if verb == "create":
            self._create(f"t{len(self.tables)}", None)
        elif verb == "create nested" and here:
            outer = self.tables[here[number % len(here)]]
            name = f"t{len(self.tables)}"
            self._create(name, f"{outer.iceberg.location}/{name}")
        elif verb == "branch":
            self._refer(f"b{self._number()}", is_branch=True)
        elif verb == "tag":
            self._refer(f"v{self._number()}", is_branch=False)
        elif verb == "sweep":
            self.sweep(None if number == 7 else number)
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

    def sweep(self, commits_kept: int | None) -> RunRecord | None:
        """Sweep, and hold it against the model; None where a head's file is missing, and the run must refuse."""
        policy = "NONE" if commits_kept is None else str(commits_kept)
        before, heads = self.scene.files(), self.scene.nessie.heads()
        garbage = self.garbage(commits_kept)
        marked = self.scene.mark(policy)
        lost = {f for f in self.model.head_files(commits_kept) - before if f.endswith(NAMING)}
        if lost:
            with pytest.raises(UnsafeToSweepError, match="can't be read"):
                self.scene.expire(marked)
            assert self.scene.files() == before
            return None
        record = self.scene.expire(marked)
        deleted = before - self.scene.files()
        note(f"not deleted: {garbage - deleted}; deleted in vain: {deleted - garbage}")
        assert deleted <= garbage
        seen = record.objects
        assert seen["listed"] == seen["live"] + seen["young"] + seen["protected"] + seen["garbage"]
        assert seen["garbage"] == seen["deleted"] == len(deleted)
        assert self.scene.nessie.heads() == heads
        self.gone |= deleted
        self.has_swept = True
        return record

    def garbage(self, commits_kept: int | None) -> set[str]:
        """What a sweep may delete by the model."""
        bases = tuple(f"{base}/" for base in self.model.live_bases(commits_kept, self.gone))
        kept = self.model.live_files(commits_kept, self.gone) | self.young | self.foreign
        kept |= self.model.dropped_files(commits_kept)
        return {f for f in self.scene.files() - kept if bases and f.startswith(bases)}

    def _create(self, name: str, location: str | None) -> None:
        table = self.scene.table(name, location, format_version=1 + len(self.tables) % 3)
        self.tables[name] = table
        self._put(table, table.iceberg.append(self._name()))

    def _change(self, verb: str, table: SceneTable) -> None:
        iceberg = table.iceberg
        # A writer goes on from what the branch has, and knows nothing of other branches or what a reset left behind.
        state = self.model.state(self.branch, table.name)
        iceberg.snapshots = list(iceberg.listed[state.metadata_location])
        current = [
            f.path for m in iceberg.snapshots[-1].manifests for f in m.entries if f.status < 2
        ]
        match verb:
            case "append":
                self._put(table, iceberg.append(self._name(), self._name()))
            case "remove" if current:
                self._put(table, iceberg.remove(current[0]))
            case "delete rows":
                self._put(table, iceberg.delete_rows(self._name(), content=EQUALITY_DELETES))
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
                self.scene.nessie.commit(self.branch, deletes=[table.key])
                self.model.drop(self.branch, table.name)
                self.hashes.append(self.scene.nessie.heads()[self.branch])
                self.has_dropped = True

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


@given(steps, kept)
def test_an_expiry_deletes_exactly_what_the_model_calls_garbage(
    story_steps: list[tuple[str, int]], commits_kept: int | None
) -> None:
    """Live, young, foreign and dropped tables' files stay; all else below live tables' folders goes.

    Sweeps stand between other work, under any policy, and commits that they cut off become live again. A second run
    finds nothing.
    """
    with tempfile.TemporaryDirectory() as folder, NessieScene(Path(folder)) as scene:
        story = Story(scene)
        for verb, number in [("create", 0), ("create nested", 0), *story_steps]:
            story.tell(verb, number)
        has_swept = story.has_swept
        garbage = story.garbage(commits_kept)
        before = scene.files()

        deferred = scene.mark("NONE" if commits_kept is None else str(commits_kept))
        with suppress(UnsafeToSweepError):
            scene.defer(deferred)
        record = story.sweep(commits_kept)

        deleted = before - scene.files()
        assert scene.deferred(deferred) == deleted
        # Below the folder of a dropped table inside a live one all stays, also what the model calls its garbage.
        is_whole = not (story.model.live_files(commits_kept) - before)
        if record and not story.has_dropped and not has_swept and is_whole:
            unknown = {
                f for f in garbage - deleted if not _is_of_live_table(f, story, commits_kept)
            }
            assert garbage - deleted == unknown
        again = story.sweep(commits_kept)
        assert (again is None) == (record is None)
        assert again is None or again.objects["garbage"] == 0


def _is_of_live_table(file: str, story: Story, commits_kept: int | None) -> bool:
    """Whether the innermost table folder around a file is a live table's: one on a deleted reference is unknown."""
    around = [t for t in story.tables.values() if file.startswith(f"{t.iceberg.location}/")]
    innermost = max(around, key=lambda t: len(t.iceberg.location))
    return innermost.iceberg.location in story.model.live_bases(commits_kept)
