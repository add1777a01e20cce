"""Sums over the garbage of a mark: made from columns, small whatever the lake, and equal to what plain Python counts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from lakesweep.collector import garbage_sums
from lakesweep.collector.garbage_sums import save_summary, sum_garbage, sum_parts
from lakesweep.collector.parts import Part, parts_told, written_parts
from lakesweep.collector.phases import Phases
from lakesweep.collector.resources import Resources
from lakesweep.collector.target import Target
from lakesweep.domain.garbage_summary import (
    AGES,
    LARGEST,
    SIZES,
    GarbageSummary,
    decode_garbage,
    fold_small_folders,
    parent_of,
    shown_folders,
)
from lakesweep.domain.location import Location
from lakesweep.domain.run_summary import RunSummary, decode_summary
from lakesweep.domain.verdicts import Tally
from lakesweep.formats.tables import MARK_SCHEMA
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

NOW = datetime(2026, 5, 1, tzinfo=UTC)
TARGET = Target(Location.parse("mem://garbage-sums/ns"), StorageOptions())
Row = tuple[str, int | None, datetime | None, str | None]


def write(*rows: Row, schema: pa.Schema = MARK_SCHEMA) -> list[Part]:
    columns = [
        pa.array(list(column), f.type)
        for column, f in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return parts_told(
        written_parts(TARGET.open(), "p/", "garbage", pa.Table.from_arrays(columns, schema=schema))
    )


def rows_of(count: int, part: int = 0) -> list[Row]:
    """Rows of every size and age, some without."""
    return [
        (
            f"data/s{n % 7}-{part}/o{n:04}" if n % 50 else f"top{n}-{part}",
            None if n % 11 == 0 else (n * 7919) % (1 << (n % 38)),
            None if n % 13 == 0 else NOW - timedelta(hours=n * 9),
            "expired" if n % 3 else "unreferenced",
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("rows_here", [0, 10_000], ids=["in tasks", "in this process"])
def test_sums_are_what_plain_counting_gives(
    monkeypatch: pytest.MonkeyPatch, rows_here: int
) -> None:
    """Over several parts and tasks, by reason, folder, age and size, nothing lost and nothing twice."""
    monkeypatch.setattr(garbage_sums, "_ROWS_HERE", rows_here)
    rows = [rows_of(700, part) for part in range(3)]
    parts = [part for some in rows for part in write(*some)]
    found = sum_garbage(InProcessEngine(), TARGET, parts, NOW, 200)

    every = [row for some in rows for row in some]
    assert found.total == Tally(len(every), sum(size or 0 for _, size, _, _ in every))
    assert found.is_whole
    reasons: Counter[str | None] = Counter(reason for *_, reason in every)
    assert {name: tally.objects for name, tally in found.reasons.items()} == reasons
    folders = Counter(name.rpartition("/")[0] + "/" if "/" in name else "" for name, *_ in every)
    assert {name: tally.objects for name, tally in found.folders.items()} == folders
    for classes, lows, values in (
        (found.sizes, SIZES, [size for _, size, _, _ in every]),
        (found.ages, AGES, [None if at is None else (NOW - at).days for _, _, at, _ in every]),
    ):
        counted = Counter(_class(value, [low for low, _ in lows]) for value in values)
        assert [t.objects for t in classes] == [counted[n] for n in range(len(lows) + 1)]
    known = sorted((size for _, size, _, _ in every if size is not None), reverse=True)
    assert [one.size_bytes for one in found.largest] == known[:LARGEST]
    largest = found.largest[0]
    assert (largest.name, largest.size_bytes, largest.modified, largest.reason) in every


def _class(value: int | None, lows: list[int]) -> int:
    if value is None:
        return len(lows)
    return max(n for n, low in enumerate(lows) if value >= low)


def test_files_of_a_nessie_plan_have_sums_too() -> None:
    """They are known by URIs and have no reason of their own."""
    schema = pa.schema(
        [
            pa.field("uri", pa.string(), nullable=False),
            pa.field("size_bytes", pa.int64()),
            pa.field("last_modified", pa.timestamp("us", tz="UTC")),
            pa.field("etag", pa.string()),
        ]
    )
    parts = write(("s3://b/w/t/data/f.parquet", 5, NOW, None), schema=schema)
    found = sum_garbage(InProcessEngine(), TARGET, parts, NOW, 200)
    assert dict(found.folders) == {"s3://b/w/t/data/": Tally(1, 5)}
    assert dict(found.reasons) == {"unreferenced": Tally(1, 5)}


def test_what_a_task_tells_is_small() -> None:
    """A hundred thousand folders and long names come to the driver as a text of bounded length."""
    rows: list[Row] = [(f"data/p={n}/{'x' * 900}{n}", n, NOW, "expired") for n in range(6_000)]
    keys = iter([part.key for part in write(*rows)])
    (batch,) = sum_parts(TARGET, NOW, keys)
    (text,) = batch.column("summary").to_pylist()
    assert len(text) < 200_000
    assert decode_garbage(json.loads(text)).is_whole


def test_no_garbage_has_empty_sums() -> None:
    """And no task is started for it."""
    assert sum_garbage(InProcessEngine(), TARGET, [], NOW, 200) == GarbageSummary()


def test_folders_fold_into_those_around_them() -> None:
    """The smallest go first, and the sum stays."""
    folders = {f"a/b{n}/": Tally(1, n) for n in range(10)} | {"c/": Tally(1, 100)}
    folded = fold_small_folders(folders, 4)
    assert len(folded) <= 4
    assert folded["c/"] == Tally(1, 100)
    assert sum(folded.values(), Tally()) == sum(folders.values(), Tally())
    assert [parent_of(name) for name in ("a/b/", "a/", "", "s3://b/x/", "s3://b/")] == [
        *("a/", "", "", "s3://b/", ""),
    ]


def test_shown_folders_make_up_the_whole() -> None:
    """The heaviest are opened; what else is in a folder is one line."""
    folders = {f"data/s{n:03}/": Tally(2, 10 * n) for n in range(100)} | {"x/y/z/": Tally(1, 9_000)}
    shown = shown_folders(folders, 10)
    assert len(shown) <= 11
    assert sum((tally for _, tally in shown), Tally()) == sum(folders.values(), Tally())
    assert shown[0][0] == "data/…"
    assert ("x/y/z/", Tally(1, 9_000)) in shown
    assert shown_folders({}) == [("", Tally())]


def test_sums_that_do_not_add_up_are_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No page is better than one with wrong numbers, and the run goes on."""
    parts = write(*rows_of(20))
    right = sum_garbage(InProcessEngine(), TARGET, parts, NOW, 200)
    resources = Resources(TARGET, InProcessEngine(), Phases("r"), lambda: NOW)
    save_summary(resources, "right.json", parts)
    saved = decode_summary(resources.store.read("right.json"), "right.json")
    assert saved == RunSummary(NOW, right)
    for wrong in (replace(right, total=Tally(19, 5)), replace(right, ages=right.ages[:-1])):
        monkeypatch.setattr(garbage_sums, "sum_garbage", lambda *_, wrong=wrong: wrong)
        save_summary(resources, "wrong.json", parts)
        assert resources.store.find("wrong.json") is None
    said = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 2
    assert all("could not be summed up" in message for message in said)
