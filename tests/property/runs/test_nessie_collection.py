"""On random catalogs, an expiry deletes what the plain model calls garbage, and nothing else."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from hypothesis import given, note
from hypothesis import strategies as st

from lakesweep.testing.iceberg_tables import EQUALITY_DELETES
from lakesweep.testing.nessie_model import CatalogModel
from lakesweep.testing.nessie_scene import NessieScene, SceneTable

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
        elif verb == "delete reference":
            self._delete_reference(number)
        elif verb == "switch":
            branches = sorted(r for r in self.model.references if not r.startswith("v"))
            self.branch = branches[number % len(branches)]
        elif here:
            self._change(verb, self.tables[here[number % len(here)]])

    def _create(self, name: str, location: str | None) -> None:
        table = self.scene.table(name, location, format_version=1 + len(self.tables) % 3)
        self.tables[name] = table
        self._put(table, table.iceberg.append(self._name()))

    def _change(self, verb: str, table: SceneTable) -> None:
        iceberg = table.iceberg
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
                self._put(table, replace(iceberg.snapshots[-1], snapshot_id=0))
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
                self.has_dropped = True

    def _put(self, table: SceneTable, snapshot) -> None:  # type: ignore[no-untyped-def]
        table.branch = self.branch
        table.commit(snapshot)
        self.model.put(self.branch, table, snapshot)

    def _refer(self, name: str, *, is_branch: bool) -> None:
        create = self.scene.nessie.create_branch if is_branch else self.scene.nessie.create_tag
        create(name, self.branch)
        self.model.references[name] = self.model.references[self.branch]

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
    """Live, young and dropped tables' files stay; all else below live tables' folders goes; a second run finds nothing."""
    with tempfile.TemporaryDirectory() as folder, NessieScene(Path(folder)) as scene:
        story = Story(scene)
        for verb, number in [("create", 0), ("create nested", 0), *story_steps]:
            story.tell(verb, number)
        policy = "NONE" if commits_kept is None else str(commits_kept)
        before = scene.files()
        heads = scene.nessie.heads()
        live = story.model.live_files(commits_kept)
        bases = tuple(f"{base}/" for base in story.model.live_bases(commits_kept))
        dropped = story.model.dropped_files(commits_kept)
        garbage = {
            file
            for file in before - live - story.young - story.foreign - dropped
            if bases and file.startswith(bases)
        }

        deferred = scene.mark(policy)
        scene.defer(deferred)
        record = scene.expire(scene.mark(policy))

        deleted = before - scene.files()
        note(f"not deleted: {garbage - deleted}; deleted in vain: {deleted - garbage}")
        assert deleted <= garbage
        assert scene.deferred(deferred) == deleted
        # Below the folder of a dropped table inside a live one all stays, also what the model calls its garbage.
        if not story.has_dropped and not (live - before):
            unknown = {
                f for f in garbage - deleted if not _is_of_live_table(f, story, commits_kept)
            }
            assert garbage - deleted == unknown
        seen = record.objects
        assert seen["listed"] == seen["live"] + seen["young"] + seen["protected"] + seen["garbage"]
        assert seen["garbage"] == seen["deleted"] == len(deleted)
        assert scene.expire(scene.mark(policy)).objects["garbage"] == 0
        assert scene.nessie.heads() == heads


def _is_of_live_table(file: str, story: Story, commits_kept: int | None) -> bool:
    """Whether the innermost table folder around a file is a live table's: one on a deleted reference is unknown."""
    around = [t for t in story.tables.values() if file.startswith(f"{t.iceberg.location}/")]
    innermost = max(around, key=lambda t: len(t.iceberg.location))
    return innermost.iceberg.location in story.model.live_bases(commits_kept)
