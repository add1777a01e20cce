"""Ranges of many commits, read on the driver or by tasks."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.catalogs.lakefs import ranges
from lakesweep.catalogs.lakefs.ranges import committed_key
from lakesweep.collector.lakefs import range_counts
from lakesweep.collector.lakefs.range_counts import count_ranges, foreseen_names
from lakesweep.collector.phases import Phases
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.target import Target
from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.domain.location import Location
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import StorageError, UnsafeToSweepError
from lakesweep.formats.commit_columns import texts
from lakesweep.formats.metaranges import RangeInfo, write_metarange
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine


class TaskLost(InProcessEngine):
    """Forgets the rows of its last task."""

    def collect(self, scatter: Scatter) -> pa.Table:
        return super().collect(scatter).slice(1)


def resources_at(folder: Path, engine: InProcessEngine) -> Resources:
    target = Target(Location.parse(f"file://{folder}"), StorageOptions())
    return Resources(target, engine, Phases("repo"), utc_now)


def put(resources: Resources, *counts: tuple[int, int]) -> MetaRangeId:
    """A metarange of ranges by number, with their counts."""
    infos = [
        RangeInfo(RangeId(f"{number:064x}"), b"%04d" % number, b"%04d" % number, count, 100)
        for number, count in counts
    ]
    metarange, data = write_metarange(infos)
    resources.store.write(committed_key(metarange), data)
    return metarange


@pytest.fixture
def history(tmp_path: Path) -> tuple[Resources, list[MetaRangeId]]:
    """Twenty commits, each with the ranges of the one before and one more; and the first one, which has none."""
    resources = resources_at(tmp_path, InProcessEngine())
    made = [put(resources, *((n, n + 1) for n in range(stop))) for stop in range(1, 21)]
    return resources, [MetaRangeId(""), *made]


@pytest.mark.parametrize("most_on_driver", [0, 1_000])
def test_every_range_comes_once_with_its_count(history, monkeypatch, most_on_driver: int) -> None:
    """On the driver, and by tasks."""
    monkeypatch.setattr(range_counts, "MOST_ON_DRIVER", most_on_driver)
    monkeypatch.setattr(range_counts, "METARANGES_PER_TASK", 5)
    resources, metaranges = history
    assert count_ranges(resources, texts(metaranges)) == [
        {RangeId(f"{number:064x}"): number + 1 for number in range(20)}
    ]


@pytest.mark.parametrize("most_on_driver", [0, 1_000])
@pytest.mark.parametrize("most_lines", [3, 1_000_000])
def test_counts_that_differ_are_refused(history, monkeypatch, most_on_driver, most_lines) -> None:
    """Wherever the two metaranges are read: here, by one task, or by two."""
    monkeypatch.setattr(range_counts, "MOST_ON_DRIVER", most_on_driver)
    monkeypatch.setattr(range_counts, "METARANGES_PER_TASK", 5)
    monkeypatch.setattr(ranges, "_MOST_LINES", most_lines)
    resources, metaranges = history
    with pytest.raises(UnsafeToSweepError, match="another says") as caught:
        count_ranges(resources, texts([*metaranges, put(resources, (7, 99))]))
    assert caught.value.kind == "range-counts-differ"


def test_a_missing_metarange_is_refused_by_tasks_too(history, monkeypatch) -> None:
    """Its commit's objects are not known, so nothing may go."""
    monkeypatch.setattr(range_counts, "MOST_ON_DRIVER", 0)
    resources, metaranges = history
    with pytest.raises(UnsafeToSweepError, match="missing"):
        count_ranges(resources, texts([*metaranges, MetaRangeId("0" * 64)]))


def test_rows_of_a_task_that_got_lost_are_missed(history, tmp_path: Path, monkeypatch) -> None:
    """Each task says how many metaranges it read."""
    monkeypatch.setattr(range_counts, "MOST_ON_DRIVER", 0)
    monkeypatch.setattr(range_counts, "METARANGES_PER_TASK", 5)
    with pytest.raises(UnsafeToSweepError, match="20 metaranges were to be read and") as caught:
        count_ranges(resources_at(tmp_path, TaskLost()), texts(history[1]))
    assert caught.value.kind == "metarange-missing"


@pytest.mark.parametrize("files", [0, 5, 800, 3_000])
def test_the_names_in_all_ranges_are_foreseen_by_one_page(files: int) -> None:
    """Within a third, also where a page has but a part of the files; what is no range does not count."""
    target = Target(Location.parse(f"mem://foreseen-{uuid.uuid4().hex}/ns"), StorageOptions())
    store = target.open()
    for number in range(files):
        name = hashlib.sha256(b"%d" % number).hexdigest()
        store.write(f"_lakefs/{name}", b"x" * 1_000)
    store.write("_lakefs/retention/gc/large", b"x" * 1_000_000)
    store.write("_lakefs/refs_manifest.json", b"x" * 1_000_000)
    assert foreseen_names(store) == pytest.approx(10 * files, rel=1 / 3)


def test_nothing_is_foreseen_where_ranges_can_t_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It only tells whether Spark should start ahead."""
    store = Target(Location.parse("mem://foreseen/ns"), StorageOptions()).open()

    def deny(*words: object, **named: object) -> None:
        raise StorageError("no right to list")

    monkeypatch.setattr(type(store), "list_page", deny)
    assert foreseen_names(store) == 0
