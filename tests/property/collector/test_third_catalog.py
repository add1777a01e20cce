"""Any order of writes, references, marks, sweeps and deaths leaves a folder with all that is live, and garbage goes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lakesweep.collector.ledger import deleting
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import PartlySweptError
from lakesweep_testing.parquet_folder import Folder

NAMES = st.sampled_from([f"o{n}" for n in range(6)])
LISTS = st.sampled_from(["one", "two"])


class FolderMachine(RuleBasedStateMachine):
    """A folder, and beside it a model: which objects are there, which are old, and which lists name them."""

    def __init__(self) -> None:
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Folder(Path(self.temporary.name) / "lake")
        self.folder.put("kept")
        self.lists: dict[str, set[str]] = {"base": {"kept"}}
        self.folder.refer("base", "kept")
        self.old, self.young = {"kept"}, set[str]()
        self.planned: set[str] | None = None

    @property
    def live(self) -> set[str]:
        return set[str]().union(*self.lists.values())

    @rule(name=NAMES)
    def put(self, name: str) -> None:
        """An object is written once: who writes it anew takes another name."""
        if name not in self.old | self.young:
            self.folder.put(name)
            self.old.add(name)

    @rule(name=NAMES)
    def put_now(self, name: str) -> None:
        if name not in self.old | self.young:
            self.folder.put(name, days_ago=0)
            self.young.add(name)

    @rule(label=LISTS, name=NAMES)
    def refer(self, label: str, name: str) -> None:
        if name in self.old | self.young:
            self.lists.setdefault(label, set()).add(name)
            self.folder.refer(label, *sorted(self.lists[label]))

    @rule(label=LISTS)
    def drop(self, label: str) -> None:
        if self.lists.pop(label, None) is not None:
            (self.folder.root / "live" / f"{label}.parquet").unlink()

    @rule()
    def mark(self) -> None:
        for path in self.folder.root.glob("own/gone/*"):
            path.unlink()  # one plan at a time: the ledger of the last one has served
        record = self.folder.catalog.mark()
        self.planned = self.old - self.live
        assert record.objects["garbage"] == len(self.planned)

    @precondition(lambda self: self.planned)
    @rule(dies_at=st.integers(1, 3))
    def sweep(self, dies_at: int) -> None:
        """A sweep that dies is gone on with; in between, nothing is known but that what is live is there."""
        assert self.planned is not None
        garbage = self.planned - self.live
        real, asked = deleting.delete_chunk, []

        def dies(*about: object) -> pa.RecordBatch:
            asked.append(about)
            if len(asked) == dies_at:
                raise OSError("the machine went away")
            return real(*about)  # type: ignore[arg-type]

        with (
            patch("lakesweep.collector.sweep._ROWS_PER_CHUNK", 1),
            patch.object(deleting, "delete_chunk", dies),
        ):
            try:
                self.folder.catalog.sweep(SweepRequest())
            except PartlySweptError:
                self.all_that_is_live_is_there()
                self.folder.catalog.sweep(SweepRequest())
        self.old -= garbage
        self.planned = None
        assert self.folder.names == self.old | self.young

    @invariant()
    def all_that_is_live_is_there(self) -> None:
        assert self.live <= self.folder.names

    def teardown(self) -> None:
        self.temporary.cleanup()


FolderMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)
TestFolder = pytest.mark.slow(FolderMachine.TestCase)
