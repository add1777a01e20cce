"""What users do, in any order, on the embedded lake beside a lake of plain dicts; and collections in between.

After every step: what a live reference reaches can be read, nothing young is gone, and the numbers add up. After a full
run all garbage is gone and a second run, clean or optimised, finds nothing.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lakesweep.collector.copies import order as ordering
from lakesweep.collector.copies.copier import CopyRoad
from lakesweep.collector.copies.copy import copy_parts
from lakesweep.collector.judge import meeting
from lakesweep.collector.lakefs.deletion import ObjectDeletion
from lakesweep.collector.lakefs.paths import events_folder, mark_folder
from lakesweep.collector.lakefs.request import Flow, MarkRequest, What
from lakesweep.collector.ledger.deleting import DELETED_SCHEMA
from lakesweep.collector.parts import Part
from lakesweep.collector.record import RunRecord
from lakesweep.collector.run_files import MarkId
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import PartlySweptError, StorageError
from lakesweep.formats.tables import read_mark
from lakesweep_testing.embedded import EmbeddedLake
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.lake_machine import LakeMachine

WHY_NOT = ObjectDeletion(root_names=True).why_not


class CrashingEngine(InProcessEngine):
    """Loses its driver in the middle of the first deletion: half of the chunks done, no answer."""

    def collect(self, scatter: Scatter) -> pa.Table:
        if scatter.schema == DELETED_SCHEMA:
            half = scatter.items[: (len(scatter.items) + 1) // 2]
            super().collect(Scatter(half, scatter.work, scatter.schema, 1))
            raise StorageError("the driver was lost")
        return super().collect(scatter)


class Collection(LakeMachine):
    """One repository and its model, with everything that operators do."""

    backup_root: Path

    @initialize()
    def no_marks(self) -> None:
        self.marks: list[str] = []

    # -- what operators do

    def swept(self, record: RunRecord, allowed: set[str]) -> set[str]:
        """What is gone since the model last looked, checked against what may go."""
        gone = {a for a in self.model.objects if not Path(self.prefix + a).exists()}
        assert gone <= allowed, f"{gone - allowed} were deleted and may not be"
        assert record.objects["deleted"] + record.objects["already_gone"] >= len(gone)
        self.model.sweep(gone)
        return gone

    @rule(what=st.sampled_from(list(What)), flow=st.sampled_from([Flow.AUTO, Flow.CLEAN]))
    def gc(self, what: What, flow: Flow) -> None:
        expected = self.model.garbage(self.now, what.value)
        live = self.model.live(self.now)
        record = self.lake.gc(self.name, MarkRequest(what, flow=flow))
        gone = self.swept(record, set(self.model.objects) - live)
        if what is not What.COMMITTED:
            assert gone == set(expected)
        else:
            assert gone >= set(expected)

    @rule(what=st.sampled_from(list(What)), keep_tags=st.booleans())
    def mark(self, what: What, keep_tags: bool) -> None:
        record = self.lake.mark(self.name, MarkRequest(what, keep_tags=keep_tags))
        self.marks.append(record.mark_id)

    @precondition(lambda self: bool(self.marks))
    @rule(data=st.data())
    def sweep_an_old_mark(self, data: st.DataObject) -> None:
        mark_id = self.marks.pop(data.draw(st.integers(0, len(self.marks) - 1), label="mark"))
        live = self.model.live(self.now)
        record = self.lake.sweep(self.name, mark_id)
        self.swept(record, set(self.model.objects) - live)

    @rule()
    def crash_and_resume(self) -> None:
        expected = self.model.garbage(self.now)
        live = self.model.live(self.now)
        marked = self.lake.mark(self.name, MarkRequest(flow=Flow.CLEAN))
        try:
            self.lake.sweep(self.name, marked.mark_id, engine=CrashingEngine())
        except (StorageError, PartlySweptError):
            pass
        record = self.lake.sweep(self.name, marked.mark_id)
        gone = self.swept(record, set(self.model.objects) - live)
        assert gone == set(expected)
        assert record.objects["deleted"] + record.objects["already_gone"] == len(gone)

    @precondition(lambda self: bool(self.marks))
    @rule(data=st.data())
    def back_up_and_restore(self, data: st.DataObject) -> None:
        """Back a mark up, sweep it, restore it: every object that was swept reads again."""
        mark_id = self.marks.pop(data.draw(st.integers(0, len(self.marks) - 1), label="mark"))
        context = self.lake.open_run(self.name)
        target = context.resources.target
        to = Location.parse(f"file://{self.backup_root}/{self.name}-{mark_id}")
        backup = Target(to, target.storage)
        parts = _parts_of(context.store, mark_id)
        copy_parts(
            context.resources.engine,
            CopyRoad(target, target, backup, target, "_lakefs/verified/", WHY_NOT),
            parts,
        )
        before = dict(self.model.objects)
        record = self.lake.sweep(self.name, mark_id)
        gone = self.swept(record, set(self.model.objects) - self.model.live(self.now))
        copy_parts(
            context.resources.engine,
            CopyRoad(target, backup, target, target, "_lakefs/verified/", WHY_NOT),
            parts,
        )
        order = int(self.now.timestamp() * 1000) + 1
        folder = events_folder(order, "restored", mark_id)
        for number, part in enumerate(parts):
            context.store.write(f"{folder}{number}.parquet", context.store.read(part.key))
        for address in gone:
            assert Path(self.prefix + address).exists(), "restored"
            self.lake.date_file(f"{self.prefix}{address}")
            stored = before[address]
            self.model.store(address, stored.content, self.now, stored.size)

    # -- what must hold

    @invariant()
    def everything_live_reads(self) -> None:
        """Every address that the model calls live, and that was not restored away, lies in the store."""
        if not hasattr(self, "model"):
            return
        for address in self.model.live(self.now):
            if address in self.model.objects:
                assert Path(self.prefix + address).exists(), f"{address} is live and gone"

    def teardown(self) -> None:
        """The end of every history: a full run leaves no garbage, and a second one, of either flow, finds nothing."""
        if not hasattr(self, "model"):
            return
        self.lake.clock.advance(timedelta(days=2))
        self.gc(What.ALL, Flow.AUTO)
        for flow in (Flow.AUTO, Flow.CLEAN):
            again = self.lake.mark(self.name, MarkRequest(flow=flow))
            assert again.objects["garbage"] == 0, f"a second {flow} run finds {again.objects}"
        for branch in self.model.branches:
            for path, address in self.model.visible(branch).items():
                if address in self.model.objects:
                    assert self.user.status(branch, path) == 200


def _parts_of(store: Any, mark_id: str) -> list[Part]:
    keys = [
        k for b in store.list(mark_folder(MarkId(mark_id))) for k in b.column("key").to_pylist()
    ]
    return [Part(key, read_mark(store.read(key)).num_rows, 0) for key in keys]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_filtered", [False, True], ids=["all references", "chosen references"])
def test_collections_never_lose_what_a_reference_reaches(is_filtered: bool) -> None:
    """Any history of users and operators keeps the invariants, also where only some references meet the candidates."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        Collection.backup_root = folder / "backups"
        Collection.lake = stack.enter_context(EmbeddedLake(folder / "lake"))
        # Backups as small as these would be copied in the order of their mark.
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(ordering, "_FEWEST_ROWS", 1)
        # Lakes of this size would never need a filter.
        patch.setattr(meeting, "is_worth_it", lambda candidates, references: is_filtered)
        run_state_machine_as_test(
            Collection,
            settings=settings(
                max_examples=max(3, settings().max_examples // 20),
                stateful_step_count=25,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
