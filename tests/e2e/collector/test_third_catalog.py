"""A catalog that the collector has never seen gets all of it: marks, plans, guards, sweeps, ledger, resume, backup, records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.collector import guards
from lakesweep.collector.ledger import deleting
from lakesweep.collector.record import RunStatus, decode_record
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.location import Location
from lakesweep.errors import PartlySweptError, UnsafeToSweepError
from lakesweep.report.text import run_text
from lakesweep_testing.parquet_folder import OPTIONS, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "lake")
    folder.put("a", "b", "c", "d")
    folder.put("young", days_ago=0)
    folder.refer("one", "a", "b")
    return folder


def test_mark_and_sweep(folder: Folder) -> None:
    """What no list names and is old goes; the record says so, and so does the report."""
    record = folder.catalog.mark()
    assert (record.objects["garbage"], record.objects["live"]) == (2, 2)
    assert folder.names == {"a", "b", "c", "d", "young"}
    swept = folder.catalog.sweep(SweepRequest())
    assert swept.status is RunStatus.SWEPT
    assert swept.objects["deleted"] == 2
    assert folder.names == {"a", "b", "young"}
    assert "deleted" in run_text(swept)
    assert decode_record((folder.root / "own/record.json").read_bytes(), "record") == swept


def test_what_came_back_to_life_stays(folder: Folder) -> None:
    """A list that names an object after the mark is read before anything is deleted."""
    folder.catalog.mark()
    folder.refer("two", "c")
    swept = folder.catalog.sweep(SweepRequest())
    assert (swept.objects["deleted"], swept.objects["revived"]) == (1, 1)
    assert swept.revived == ("objects/c",)
    assert folder.names == {"a", "b", "c", "young"}


def test_a_large_plan_waits_for_its_confirmation(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its id, and by no other."""
    monkeypatch.setattr(guards, "SMALL_PLAN_OBJECTS", 1)
    folder.put("e", "f")
    record = folder.catalog.mark()
    with pytest.raises(UnsafeToSweepError) as caught:
        folder.catalog.sweep(SweepRequest())
    assert caught.value.kind == "blast-radius"
    assert {"c", "d", "e", "f"} < folder.names
    folder.catalog.sweep(SweepRequest(confirm=record.plan_id))
    assert folder.names == {"a", "b", "young"}


def test_a_sweep_that_dies_is_gone_on_with(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it deleted is on the ledger; the rest is judged again, and a second look keeps what is live by then."""
    folder.catalog.mark()
    monkeypatch.setattr("lakesweep.collector.sweep._ROWS_PER_CHUNK", 1)
    real, asked = deleting.delete_chunk, []

    def dies(*about: object) -> pa.RecordBatch:
        asked.append(about)
        if len(asked) == 2:
            raise OSError("the machine went away")
        return real(*about)  # type: ignore[arg-type]

    monkeypatch.setattr(deleting, "delete_chunk", dies)
    with pytest.raises(PartlySweptError, match="Sweep again"):
        folder.catalog.sweep(SweepRequest())
    assert len(folder.names & {"c", "d"}) == 1
    swept = folder.catalog.sweep(SweepRequest())
    assert swept.status is RunStatus.SWEPT
    assert swept.objects["deleted"] == 2
    assert folder.names == {"a", "b", "young"}


def test_a_backup_comes_before_the_delete(folder: Folder, tmp_path: Path) -> None:
    """Verified copies, and only of what is deleted."""
    folder.catalog.mark()
    backup = Location.parse(f"file://{tmp_path}/backup")
    folder.catalog.sweep(SweepRequest(backup_to=backup, backup_storage=OPTIONS))
    copied = {path.name: path.read_bytes() for path in (tmp_path / "backup/objects").iterdir()}
    assert copied == {"c": b"c", "d": b"d"}
    assert folder.names == {"a", "b", "young"}


def test_a_live_object_that_comes_out_dead_ends_the_run(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader gone blind to a list is noticed by what the list names."""
    monkeypatch.setattr(
        "lakesweep_testing.parquet_catalog.LIVE", 2
    )  # counts as expired what is live
    with pytest.raises(UnsafeToSweepError, match="came out dead"):
        folder.catalog.mark()
