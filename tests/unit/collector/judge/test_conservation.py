"""Conservation: whatever is lost, doubled or cut on its way is noticed before anything is believed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakesweep.collector.judge import candidates as cand
from lakesweep.collector.judge import references as refs
from lakesweep.collector.judge.candidates import listed_parts
from lakesweep.collector.judge.columns import MET_SCHEMA
from lakesweep.collector.judge.meeting import add_up
from lakesweep.collector.judge.references import LIVE, RESTORED
from lakesweep.collector.lakefs.candidates import read_candidates
from lakesweep.collector.lakefs.judging import address_judge
from lakesweep.collector.lakefs.listing import CANDIDATE_SCHEMA
from lakesweep.collector.lakefs.references import AddressList, EventFile, Reference, read_references
from lakesweep.collector.parts import PartWriter
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.tables import MARK_SCHEMA, write_mark
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

ADDRESSES = tuple(f"data/gcoca17haabs73f2gtq0/c{n:018d}0" for n in range(40))
PARTITIONS = 4


class LossyEngine(InProcessEngine):
    """Changes the cells of one side on their way to the meeting."""

    def __init__(self, side: str, change: Callable[[pa.Table], pa.Table]) -> None:
        super().__init__()
        self._side, self._change = side, change

    def collect(self, scatter: Scatter) -> pa.Table:
        cells = super().collect(scatter)
        is_left = scatter.work.func is read_references  # type: ignore[attr-defined]
        return self._change(cells) if (self._side == "references") is is_left else cells


def judged_on(engine: InProcessEngine) -> None:
    target = Target(Location.parse(f"mem://lossy-{uuid.uuid4().hex}/ns"), StorageOptions())
    writer = PartWriter(target.open(), "listing/", "l", CANDIDATE_SCHEMA)
    rows = [{"address": a, "size_bytes": 1, "last_modified": None} for a in ADDRESSES]
    writer.add(pa.RecordBatch.from_pylist(rows, schema=CANDIDATE_SCHEMA))
    rows = [{"address": a, "size_bytes": 1, "last_modified": None} for a in ADDRESSES]
    target.open().write("event", write_mark(pa.Table.from_pylist(rows, schema=MARK_SCHEMA)))
    references: list[Reference] = [
        AddressList("live", ADDRESSES, LIVE),
        EventFile("event", RESTORED, 1),
    ]
    candidates = listed_parts(writer.close())
    judge = address_judge(target, "verdicts/", datetime(2026, 1, 1, tzinfo=UTC))
    met = engine.meet(
        Scatter(references, partial(read_references, target, PARTITIONS), CELL_SCHEMA, 1),
        Scatter(candidates, partial(read_candidates, target, PARTITIONS), CELL_SCHEMA, 1),
        judge,
        MET_SCHEMA,
        PARTITIONS,
    )
    add_up(met, references, candidates, judge)


def _without_first_of(kind: int) -> Callable[[pa.Table], pa.Table]:
    def change(cells: pa.Table) -> pa.Table:
        first = pc.index(pc.equal(cells.column("kind"), kind), True).as_py()
        return pa.concat_tables([cells.slice(0, first), cells.slice(first + 1)])

    return change


def _doubled(kind: int) -> Callable[[pa.Table], pa.Table]:
    def change(cells: pa.Table) -> pa.Table:
        return pa.concat_tables([cells, cells.filter(pc.equal(cells.column("kind"), kind))])

    return change


def test_nothing_lost_adds_up() -> None:
    """The control: with every cell in place there is no doubt."""
    judged_on(InProcessEngine())


@pytest.mark.parametrize(
    ("side", "change"),
    [
        ("references", _without_first_of(refs.LIVE)),
        ("references", _without_first_of(refs.COUNTS)),
        ("references", _doubled(refs.LIVE)),
        ("references", _doubled(refs.COUNTS)),
        ("references", _without_first_of(refs.RESTORED)),
        ("references", lambda cells: cells.slice(0, 0)),
        ("candidates", _without_first_of(cand.ROWS)),
        ("candidates", _without_first_of(cand.COUNTS)),
        ("candidates", _doubled(cand.COUNTS)),
        ("candidates", lambda cells: cells.slice(0, 0)),
    ],
)
def test_lost_or_doubled_cells_refuse_the_run(
    side: str, change: Callable[[pa.Table], pa.Table]
) -> None:
    """A cell that got lost would make live data look like garbage; the sums notice it."""
    with pytest.raises(UnsafeToSweepError, match=r"do not add up"):
        judged_on(LossyEngine(side, change))
