"""Every file that a run reads, missing, cut short or damaged: the right result, or a clear error, and nothing live lost."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lakesweep.collector.lakefs.between_runs.history import list_runs
from lakesweep.collector.lakefs.collect import run_gc, run_sweep
from lakesweep.collector.lakefs.paths import mark_record
from lakesweep.collector.lakefs.request import Flow
from lakesweep.collector.record import RunRecord
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.run_files import MarkId
from lakesweep.errors import FormatError, LakesweepError
from lakesweep.storage import ObjectStore
from lakesweep_testing.few_of_many import few_of
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import MeddlingBackend

GC = "_lakefs/retention/gc/"
OWN = f"{GC}lakesweep/"

# What a run reads, by its key.
FILES = {
    "table": r"_lakefs/[0-9a-f]{64}",  # ranges, metaranges and the refs dump
    "retained commits": rf"{GC}commits/.*commits\.csv",
    "uncommitted list": rf"{GC}uncommitted/[^/]+/uncommitted/.*",
    "listing part": rf"{OWN}runs/.*/listing/.*",
    "verdict part": rf"{OWN}runs/.*/verdicts/.*",
    "plan": rf"{OWN}runs/.*/plan\.json",
    "record": rf"{OWN}runs/.*/record\.json",
    "mark record": rf"{OWN}marks/.*",
    "mark part": rf"{GC}addresses/.*",
    "deletions": rf"{OWN}events/.*",
    "saved run": rf"{OWN}last-run\.json",
    "saved lists": rf"{OWN}runs/RUN/(ledger|verdicts)/.*|{GC}uncommitted/RUN/.*",
    "range index": rf"{OWN}ranges/index-.*",
    "range pack": rf"{OWN}ranges/pack-.*",
    "metarange cache": rf"{OWN}metaranges/known-.*",
}
IN_A_MARK = (
    *("table", "retained commits", "uncommitted list", "listing part"),
    *("verdict part", "mark part", "range index", "range pack", "metarange cache"),
)
IN_AN_OPTIMIZED_MARK = (
    *("saved run", "saved lists", "uncommitted list", "deletions"),
    *("range index", "metarange cache"),
)
IN_A_SWEEP = ("plan", "mark record", "mark part", "record", "verdict part", "deletions")

Damage = Callable[[bytes, random.Random], bytes | None]


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


DAMAGES: dict[str, Damage] = {
    "missing": lambda data, chance: None,
    "cut short": lambda data, chance: data[: chance.randrange(len(data))],
    "flipped bit": _flip,  # every bit of a list, a part and a table is flipped in tests/unit/formats
    "another file": lambda data, chance: b'{"schema": "something else"}',
}


def damaging(file: str, damage: str, run_id: str = "") -> Callable[[ObjectStore], ObjectStore]:
    """A store that gives damaged bytes for the files named (of one run), each time the same for one file."""
    pattern = FILES[file].replace("RUN", run_id)
    chance = random.Random(f"{file} {damage}")
    seen: dict[str, bytes | None] = {}

    def change(key: str, data: bytes) -> bytes | None:
        if not data or not re.fullmatch(pattern, key):
            return data
        if key not in seen:
            seen[key] = DAMAGES[damage](data, chance)
        return seen[key]

    return MeddlingBackend.wrap(change=change)


def attempted(run: Callable[[], RunRecord]) -> tuple[RunRecord | None, LakesweepError | None]:
    """The run's record, or the error of ours that it ended with; any other error fails the test."""
    try:
        return run(), None
    except LakesweepError as error:
        return None, error


@pytest.fixture(scope="module")
def _collected(make_scene: Callable[[], Scene]) -> Scene:
    scene = make_scene()
    scene.gc()
    scene.lake.clock.advance(timedelta(minutes=5))
    scene.put_back(scene.garbage.values())
    scene.keep_as_is()
    return scene


@pytest.fixture
def collected(_collected: Scene) -> Scene:
    """A repository that was collected before, with a range cache, deletions and a saved run; the garbage is back."""
    _collected.rewind()
    return _collected


@pytest.mark.parametrize("damage", few_of(DAMAGES, 2))
@pytest.mark.parametrize("file", IN_A_MARK)
def test_damaged_file_loses_nothing_live(collected: Scene, file: str, damage: str) -> None:
    """A clean collection over damaged files errs in our own words, or does what it should."""
    context = collected.context(wrap=damaging(file, damage))
    request = replace(AGED, flow=Flow.CLEAN)
    _, error = attempted(lambda: run_gc(context, request, SweepRequest()))
    if error is not None:
        assert error.exit_status in (3, 4, 5)
        assert "eleted" in error.message, "it says what was not done"
    else:
        assert not collected.left()
    collected.assert_nothing_else_gone()


@pytest.mark.parametrize("damage", few_of(DAMAGES, 2))
@pytest.mark.parametrize("file", IN_AN_OPTIMIZED_MARK)
def test_damaged_file_makes_an_optimized_run_no_less_safe(
    collected: Scene, file: str, damage: str
) -> None:
    """The same for a run that builds on an earlier one; what that one saved, damaged, only makes it a clean run."""
    (earlier,) = [run for run in list_runs(collected.store) if isinstance(run, RunRecord)]
    context = collected.context(wrap=damaging(file, damage, earlier.run_id))
    record, error = attempted(lambda: run_gc(context, AGED, SweepRequest()))
    if error is not None:
        assert file not in ("saved run", "saved lists", "range index", "metarange cache")
        assert error.exit_status in (3, 4, 5)
    elif file.startswith("saved") and "flipped" not in damage:  # some bits mean nothing
        assert record is not None
        assert record.flow == Flow.CLEAN
        assert any("(a clean run), because" in note for note in record.notes)
        assert not collected.left()
    collected.assert_nothing_else_gone()


@pytest.mark.parametrize("damage", few_of(DAMAGES, 2))
@pytest.mark.parametrize("file", IN_A_SWEEP)
def test_damaged_mark_loses_nothing_live_when_it_is_swept(
    collected: Scene, file: str, damage: str
) -> None:
    """A sweep of its own, over damaged files of the mark; the next one, without the damage, goes through."""
    marked = collected.mark(replace(AGED, flow=Flow.CLEAN))
    context = collected.context(wrap=damaging(file, damage))
    _, error = attempted(lambda: run_sweep(context, marked.mark_id, SweepRequest()))
    assert error is None or error.exit_status in (2, 3, 4, 5)
    collected.assert_nothing_else_gone()
    collected.sweep(marked.mark_id)
    assert not collected.left()
    collected.assert_nothing_else_gone()


def test_mark_record_that_names_another_marks_plan_is_refused(scene: Scene) -> None:
    """Sweeping one mark never deletes what another one named."""
    first = scene.mark(replace(AGED, mark_id="first"))
    scene.mark(replace(AGED, mark_id="second", flow=Flow.CLEAN))
    own = scene.store.read(mark_record(MarkId(first.mark_id)))
    scene.store.write(mark_record(MarkId("second")), own)
    with pytest.raises(FormatError, match="plan of another mark"):
        scene.sweep("second")
    assert scene.left() == set(scene.garbage)


def test_foreign_file_among_the_deletions_is_passed_over(scene: Scene) -> None:
    """Whatever somebody dropped there does not stop collections."""
    scene.put(f"{OWN}events/.DS_Store", b"x")
    scene.put(f"{OWN}events/notes/readme.parquet", b"x")
    scene.gc()
    assert not scene.left()
