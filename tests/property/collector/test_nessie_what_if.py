"""On random catalogs, what a cut-off of any number of days frees is what a mark and an expiry with it find."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakesweep.collector.nessie.what_if.file_fates import FileFates, FilesMeeting
from lakesweep.collector.nessie.what_if.what_if import CutoffsRequest, WhatIf, what_if_cutoffs
from lakesweep.domain.cutoff_policies import CutoffPolicies, CutoffPolicy
from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import Curve
from lakesweep.formats.file_hashes import hash_listed_files
from lakesweep_testing.nessie_scene import NessieScene, SceneTable

DAY = timedelta(days=1)
OLDEST = 30


class Story:
    """What writers do to a catalog in a month, as chance has it."""

    def __init__(self, scene: NessieScene, chance: Random) -> None:
        self.scene, self.chance = scene, chance
        self.names = 0
        self.branches = ["main"]

    def tell(self, steps: int) -> None:
        verbs = (
            *(self._append, self._append, self._append, self._create, self._create_inside),
            *(self._remove, self._overwrite, self._compact, self._expire_snapshots),
            *(self._statistics, self._orphan, self._foreign_table, self._drop, self._recreate),
            *(self._branch, self._tag, self._unlisted_snapshot, self._young_orphan),
        )
        self._at(OLDEST)
        self._create()
        for step in range(steps):
            self._at(OLDEST * (steps - step) / (steps + 1))
            self.chance.choice(verbs)()

    def _at(self, days_ago: float) -> None:
        # Never on the hour at which days begin and end.
        self.scene.nessie.now = datetime.now(UTC) - days_ago * DAY - timedelta(hours=1)

    def _name(self) -> str:
        self.names += 1
        return f"{self.names}.parquet"

    def _table(self) -> SceneTable | None:
        branch = self.chance.choice(self.branches)
        there = [
            table
            for table in self.scene.tables
            if self.scene.nessie.contents([table.key], branch).get(table.key) is not None
            and any(
                state.metadata_location
                == self.scene.nessie.contents([table.key], branch)[table.key]["metadataLocation"]
                for state in table.states
            )
        ]
        if not there:
            return None
        table = self.chance.choice(there)
        table.branch = branch
        location = self.scene.nessie.contents([table.key], branch)[table.key]["metadataLocation"]
        table.iceberg.snapshots = list(table.iceberg.listed[location])
        return table

    def _create(self, location: str | None = None, instead_of: SceneTable | None = None) -> None:
        name = f"t{len(self.scene.tables)}"
        made = self.scene.table(name, location, instead_of=instead_of)
        made.branch = instead_of.branch if instead_of else self.chance.choice(self.branches)
        made.commit(made.iceberg.append(self._name()))

    def _create_inside(self) -> None:
        outer = self._table()
        if outer is not None:
            self._create(f"{outer.iceberg.location}/t{len(self.scene.tables)}")

    def _append(self) -> None:
        table = self._table()
        if table is not None:
            table.append(self._name(), self._name())

    def _remove(self) -> None:
        table = self._table()
        if table is not None and (entries := list(table.iceberg.alive())):
            table.commit(table.iceberg.remove(entries[0].path))

    def _overwrite(self) -> None:
        table = self._table()
        if table is not None:
            table.commit(table.iceberg.overwrite(self._name()))

    def _compact(self) -> None:
        table = self._table()
        if table is not None:
            table.commit(table.iceberg.compact(self._name()))

    def _expire_snapshots(self) -> None:
        table = self._table()
        if table is not None:
            table.commit(table.iceberg.expire_snapshots())

    def _statistics(self) -> None:
        table = self._table()
        if table is not None:
            table.commit(table.iceberg.add_statistics(f"{self._name()}.puffin"))

    def _unlisted_snapshot(self) -> None:
        table = self._table()
        if table is not None:
            table.commit(replace(table.states[-1], snapshot_id=0))

    def _orphan(self) -> None:
        table = self._table()
        if table is not None:
            table.iceberg.write_orphan(self._name())

    def _young_orphan(self) -> None:
        table = self._table()
        if table is not None:
            self.scene.touch(table.iceberg.write_orphan(self._name()), datetime.now(UTC))

    def _foreign_table(self) -> None:
        table = self._table()
        if table is not None:
            folder = f"{table.iceberg.location}/foreign-{self._name()}"
            self.scene.write(f"{folder}/metadata/v1.metadata.json", b"foreign")
            self.scene.write(f"{folder}/part-0.parquet", b"foreign")

    def _drop(self) -> None:
        table = self._table()
        if table is not None:
            table.drop()

    def _recreate(self) -> None:
        table = self._table()
        if table is not None:
            table.drop()
            self._create(table.iceberg.location, instead_of=table)

    def _branch(self) -> None:
        name = f"b{self._name()}"
        self.scene.nessie.create_branch(name, self.chance.choice(self.branches))
        self.branches.append(name)

    def _tag(self) -> None:
        self.scene.nessie.create_tag(f"v{self._name()}", self.chance.choice(self.branches))


def ask(scene: NessieScene) -> tuple[WhatIf, FileFates]:
    """A what-if, and what it says of every single file: in the end, if it has listed the lake again."""
    seen: list[FileFates] = []
    fates = FilesMeeting.fates

    def spy(meeting: FilesMeeting, references: pa.Table, listed: pa.Table) -> FileFates:
        seen.append(fates(meeting, references, listed))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch, scene.nessie.client() as client:
        patch.setattr(FilesMeeting, "fates", spy)
        request = CutoffsRequest(
            CutoffPolicies(CutoffPolicy()),
            datetime.now(UTC),
            days=tuple(range(OLDEST + 3)),
            save=False,
        )
        return what_if_cutoffs(scene.context(), client, request), seen[-1]


@pytest.mark.slow
@settings(
    max_examples=max(2, settings().max_examples // 25),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32), steps=st.integers(5, 20))
def test_every_cutoff_frees_what_an_expiry_finds(seed: int, steps: int) -> None:
    """The same files; tables that a shorter cut-off drops keep theirs, nested and foreign ones are told apart."""
    chance = Random(seed)
    with tempfile.TemporaryDirectory() as folder, NessieScene(Path(folder)) as scene:
        Story(scene, chance).tell(steps)
        before = scene.files()
        result, seen = ask(scene)
        assert scene.files() == before
        assert not list((Path(folder) / "work").rglob("*"))
        by_table = sum((group.curve for group in result.groups), Curve())
        for days in sorted(chance.sample(range(OLDEST + 3), 3)):
            marked = scene.mark(f"P{days}D")
            scene.defer(marked)
            expected = sorted(scene.deferred(marked))
            hashes, _ = hash_listed_files(pa.array(expected, pa.string()))
            freed = set(seen.hashes[((seen.goes >> days) & 1).astype(bool)].tolist())
            assert freed == set(hashes.tolist()), f"{days} days"
            size = sum(Path(uri.removeprefix("file://")).stat().st_size for uri in expected)
            assert result.freed(days) == Tally(len(expected), size)
            assert by_table.at(days) == result.curve.at(days)
