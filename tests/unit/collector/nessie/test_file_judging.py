"""Judging files: no time counts as young, canaries must be live, what is sent must arrive, a plan must be as written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakesweep.catalogs.nessie.live_sets.memory import InMemoryLiveSets
from lakesweep.collector.judge.candidates import listed_parts
from lakesweep.collector.judge.meeting import Judged
from lakesweep.collector.judge.references import LIVE, PROTECTING
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.judging import FilesJudged, file_judge, judge_files
from lakesweep.collector.nessie.listing import FILE_SCHEMA
from lakesweep.collector.nessie.protection import DROPPED_TABLE, FolderIndex
from lakesweep.collector.nessie.records import save_plan
from lakesweep.collector.nessie.references import NamedFiles, ReferenceItem, read_references
from lakesweep.collector.parts import Part, PartWriter
from lakesweep.collector.phases import Phases
from lakesweep.collector.plan import planned_files, planned_parts
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Tally, Verdict
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import UnsafeToSweepError
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

CUTOFF = datetime(2026, 1, 10, tzinfo=UTC)
A, B = "s3://lake/t/a.parquet", "s3://lake/t/b.parquet"


@pytest.fixture
def make_context(tmp_path: Path) -> Callable[..., NessieContext]:
    """`make_context(engine)`: our own folder, and nothing else."""

    def make(engine: InProcessEngine | None = None) -> NessieContext:
        return NessieContext(
            live_sets=InMemoryLiveSets(),
            engine=engine or InProcessEngine(),
            storage=StorageOptions(local_fsync=False),
            work_location=Location.parse(f"file://{tmp_path}/work"),
            phases=Phases("judging"),
        )

    return make


def listed(context: NessieContext, **times: datetime | None) -> list[Part]:
    writer = PartWriter(context.resources.store, "listing/", "l", FILE_SCHEMA)
    rows = [
        {"uri": f"s3://lake/t/{name}.parquet", "size_bytes": 10, "last_modified": time}
        for name, time in times.items()
    ]
    writer.add(pa.RecordBatch.from_pylist(rows, schema=FILE_SCHEMA))
    return writer.close()


def judge(
    context: NessieContext,
    parts: list[Part],
    *references: ReferenceItem,
    canaries: tuple[str, ...] = (),
) -> Judged:
    protection = FolderIndex.of([("s3://lake/t", "")], elsewhere="outside")
    files = file_judge(context.resources.target, "verdicts/", CUTOFF)
    return judge_files(
        context.table_reader,
        references,
        listed_parts(parts),
        protection,
        files,
        "manifests/",
        canaries,
    )


@pytest.mark.parametrize(
    ("written_at", "verdict"),
    [
        (CUTOFF, "unreferenced"),
        (CUTOFF + timedelta(microseconds=1), "young"),
        (None, "young"),
    ],
)
def test_a_file_without_a_time_is_young(
    make_context: Callable[..., NessieContext], written_at: datetime | None, verdict: str
) -> None:
    """Nobody knows whether it was written a minute ago."""
    context = make_context()
    judged = judge(context, listed(context, a=written_at))
    assert {v for v, tally in judged.tallies.items() if tally.objects} == {verdict}


def test_a_file_of_a_dropped_table_stays(make_context: Callable[..., NessieContext]) -> None:
    """It may lie below a table that was made anew in its place, where other old files go."""
    context = make_context()
    judged = judge(context, listed(context, a=CUTOFF, b=CUTOFF), NamedFiles("d", (A,), PROTECTING))
    assert judged.protections[DROPPED_TABLE].examples == (A,)
    assert judged.garbage_tally.objects == 1


def test_a_dead_canary_ends_the_run(make_context: Callable[..., NessieContext]) -> None:
    """A metadata file of the live set that counts as garbage: what is live was not understood."""
    context = make_context()
    parts = listed(context, a=CUTOFF)
    live = NamedFiles("live", (A,), LIVE)
    assert judge(context, parts, live, canaries=(A,)).tallies[Verdict.LIVE].objects
    with pytest.raises(UnsafeToSweepError, match=f"{B}, .* counts as garbage"):
        judge(context, parts, live, canaries=(A, B))


class LossyEngine(InProcessEngine):
    """Loses or doubles the cells of one kind of references on their way."""

    def __init__(self, times: int, kind: int) -> None:
        super().__init__()
        self._times, self._kind = times, kind

    def collect(self, scatter: Scatter) -> pa.Table:
        cells = super().collect(scatter)
        if getattr(scatter.work, "func", None) is not read_references:
            return cells
        is_lost = pc.equal(cells.column("kind"), self._kind)
        some = [cells.filter(is_lost)] * self._times
        return pa.concat_tables([cells.filter(pc.invert(is_lost)), *some])


@pytest.mark.parametrize("kind", [LIVE, PROTECTING])
@pytest.mark.parametrize("times", [0, 2])
def test_references_that_got_lost_or_doubled_end_the_run(
    make_context: Callable[..., NessieContext], times: int, kind: int
) -> None:
    """What was sent is what was received."""
    context = make_context(LossyEngine(times, kind))
    parts = listed(context, a=CUTOFF, b=CUTOFF)
    with pytest.raises(UnsafeToSweepError, match="references were sent"):
        judge(context, parts, NamedFiles("named", (A,), kind))


def test_a_plan_whose_part_was_changed_is_refused(
    make_context: Callable[..., NessieContext],
) -> None:
    """The same number of rows and bytes, and other files: the fingerprint tells."""
    context = make_context()
    parts = listed(context, a=CUTOFF)
    files = planned_files(context.resources.store, parts)
    plan = save_plan(
        context.resources.store, LiveSetId("set"), "catalog", CUTOFF, Tally(2, 20), files
    )
    assert planned_parts(context.resources.store, plan) == parts
    (other,) = listed(context, b=CUTOFF)
    context.resources.store.write(parts[0].key, context.resources.store.read(other.key))
    with pytest.raises(UnsafeToSweepError, match="missing or was changed") as caught:
        planned_parts(context.resources.store, plan)
    assert caught.value.kind == "bad-plan"
    context.resources.store.delete_many([parts[0].key])
    with pytest.raises(UnsafeToSweepError, match="missing or was changed"):
        planned_parts(context.resources.store, plan)


@pytest.mark.parametrize("name", ["%2e%2e/a", "a%2f%2e%2e%2fb"], ids=["folder", "file"])
def test_a_name_that_may_mean_another_place_is_protected(
    make_context: Callable[..., NessieContext], name: str
) -> None:
    """Nobody can tell which live file it would have to be compared with."""
    context = make_context()
    parts = listed(context, **{name: CUTOFF - timedelta(days=1)})
    judged = judge(context, parts, NamedFiles("live", (A,), LIVE))
    assert judged.tallies[Verdict.PROTECTED] == Tally(1, 10)
    assert judged.garbage == []


def test_a_missing_manifest_counts_but_for_those_of_dropped_tables() -> None:
    """What a live table's manifest names is not known without it."""
    rows = [
        {"item": f"m:0:{name}", "problem": "no such file", "is_missing": is_missing, "kind": kind}
        for name, is_missing, kind in (
            ("live-missing", True, LIVE),
            ("live-damaged", False, LIVE),
            ("dropped-missing", True, PROTECTING),
            ("dropped-damaged", False, PROTECTING),
        )
    ]
    judged = FilesJudged(
        **dict.fromkeys(Judged.__slots__) | {"reference_counts": rows}  # type: ignore[arg-type]
    )
    assert judged.bad_manifests.keys() == {"live-missing", "live-damaged", "dropped-damaged"}
