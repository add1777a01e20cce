"""Ages are told by clocks: where they differ by more than ten minutes, nobody knows what is old."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakesweep.collector.nessie import opening
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.record import RunRecord
from lakesweep.domain.location import Location
from lakesweep.errors import UnsafeToSweepError
from lakesweep.storage import ObjectStore, StorageOptions
from lakesweep.storage.clocks import store_time
from lakesweep.storage.http_wire import Reply
from lakesweep.storage.opening import open_store
from lakesweep.storage.s3.client import S3Client
from lakesweep_testing.nessie_scene import NessieScene

TOO_MUCH = timedelta(minutes=11)
STILL_GOOD = timedelta(minutes=9)


def _orphan(scene: NessieScene) -> str:
    orders = scene.table("orders")
    orders.append("a.parquet")
    return orders.iceberg.write_orphan("x.parquet")


@pytest.mark.parametrize("by", [TOO_MUCH, -TOO_MUCH])
def test_a_mark_by_another_time_than_nessies_is_refused(scene: NessieScene, by: timedelta) -> None:
    """What it calls old may be committed this minute."""
    _orphan(scene)
    scene.nessie.date = datetime.now(UTC) + by
    with pytest.raises(UnsafeToSweepError, match="the Nessie server") as refused:
        scene.mark()
    assert refused.value.kind == "clock-skew"


def test_a_mark_by_nearly_the_same_time_is_made(scene: NessieScene) -> None:
    """Clocks are never quite the same."""
    _orphan(scene)
    scene.nessie.date = datetime.now(UTC) + STILL_GOOD
    scene.mark()


def _immediately(scene: NessieScene) -> Callable[[], RunRecord]:
    marked = scene.mark()
    return lambda: scene.expire(marked, ask_nessie=True)


def _from_a_list(scene: NessieScene) -> Callable[[], RunRecord]:
    marked = scene.mark()
    scene.defer(marked)
    return lambda: scene.delete_deferred(marked, ask_nessie=True)


WAYS = {"expire": _immediately, "deferred-deletes": _from_a_list}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
class TestSweep:
    def test_nessie_by_another_time(
        self, scene: NessieScene, way: Callable[[NessieScene], Callable[[], RunRecord]]
    ) -> None:
        orphan = _orphan(scene)
        sweep = way(scene)
        scene.nessie.date = datetime.now(UTC) - TOO_MUCH
        with pytest.raises(UnsafeToSweepError, match="the Nessie server"):
            sweep()
        assert orphan in scene.files()

    def test_this_machine_by_another_time(
        self,
        scene: NessieScene,
        monkeypatch: pytest.MonkeyPatch,
        way: Callable[[NessieScene], Callable[[], RunRecord]],
    ) -> None:
        orphan = _orphan(scene)
        sweep = way(scene)
        real = scene.context

        def early() -> NessieContext:
            return replace(real(), clock=lambda: datetime.now(UTC) + TOO_MUCH)

        monkeypatch.setattr(scene, "context", early)
        with pytest.raises(UnsafeToSweepError, match="this machine"):
            sweep()
        assert orphan in scene.files()

    def test_the_tables_store_by_another_time(
        self,
        scene: NessieScene,
        monkeypatch: pytest.MonkeyPatch,
        way: Callable[[NessieScene], Callable[[], RunRecord]],
    ) -> None:
        """Our own store, where the lease lies, may be another one with another clock."""
        orphan = _orphan(scene)
        sweep = way(scene)

        def late(store: ObjectStore) -> datetime:
            return datetime.now(UTC) - TOO_MUCH

        monkeypatch.setattr(opening, "store_time", late)
        with pytest.raises(UnsafeToSweepError, match="this machine"):
            sweep()
        assert orphan in scene.files()


def test_a_store_tells_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 dates every answer; a local folder has no clock but the machine's."""
    dated = Reply(200, {"date": "Tue, 05 May 2026 10:00:00 GMT"}, b"")
    monkeypatch.setattr(S3Client, "request", lambda *asked, **how: dated)
    options = StorageOptions(
        s3_endpoint="http://s3", s3_access_key_id="key", s3_secret_access_key="s"
    )
    said = store_time(open_store(Location.parse("s3://lake/t"), options))
    assert said == datetime(2026, 5, 5, 10, tzinfo=UTC)
    assert store_time(open_store(Location.parse(f"file://{tmp_path}"), options)) is None
