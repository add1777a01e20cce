"""A Nessie catalog with its tables in a folder, and a collector beside it: the stage of most Nessie tests.

with NessieScene(tmp_path) as scene:
    orders = scene.table("orders")
    orders.append("a.parquet")                   # written and committed to main
    marked = scene.mark("1")
    record = scene.expire(marked)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from lakesweep.catalogs.nessie.live_sets.memory import InMemoryLiveSets
from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.deferred import delete_deferred
from lakesweep.collector.nessie.expire import expire
from lakesweep.collector.nessie.explain.explain import explain_files
from lakesweep.collector.nessie.identify import Marked, mark_live
from lakesweep.collector.nessie.requests import ExpireRequest, MarkRequest
from lakesweep.collector.phases import Phases
from lakesweep.collector.record import RunRecord
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.domain.location import Location
from lakesweep.domain.nessie_explanations import FileExplanations
from lakesweep.engine.tasks import Engine
from lakesweep.storage import StorageOptions
from lakesweep_testing.fake_nessie import FakeNessie, table, view
from lakesweep_testing.iceberg_tables import IcebergTable, IcebergView, Snapshot
from lakesweep_testing.inprocess import InProcessEngine

__all__ = ["NessieScene", "SceneTable"]

LONG_AGO = timedelta(days=10)


class NessieScene:
    """Everything lies below one folder: tables in `lake/`, our own files in `work/`. Files are born old."""

    def __init__(
        self, root: Path, *, engine: Engine | None = None, live_sets: LiveSetStore | None = None
    ) -> None:
        self.lake = root / "lake"
        self.work = root / "work"
        self.lake.mkdir(parents=True, exist_ok=True)
        self.nessie = FakeNessie()
        self.live_sets = live_sets if live_sets is not None else InMemoryLiveSets()
        self.engine = engine if engine is not None else InProcessEngine()
        self.tables: list[SceneTable] = []
        self.written_at = datetime.now(UTC) - LONG_AGO
        self.storage = StorageOptions(local_fsync=False)

    def __enter__(self) -> Self:
        self.nessie.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.nessie.__exit__(*exc_info)

    def table(
        self,
        name: str,
        location: str | None = None,
        *,
        instead_of: SceneTable | None = None,
        **options: Any,
    ) -> SceneTable:
        """A new table; its first snapshot commits it to main, under the key of a dropped one if that is given."""
        place = location or self.uri(name)
        iceberg = IcebergTable(self.write, place, clock=self._writers_time, **options)
        made = SceneTable(self, name, iceberg, instead_of.key if instead_of else (name,))
        self.tables.append(made)
        return made

    def view(self, name: str, location: str | None = None) -> Snapshot:
        """A view, committed to main."""
        made = IcebergView(self.write, location or self.uri(name)).replace()
        self.nessie.commit("main", puts={(name,): view(made.metadata_location, made.snapshot_id)})
        return made

    def uri(self, name: str) -> str:
        """A place in the lake."""
        return f"file://{self.lake}/{name}"

    def write(self, uri: str, data: bytes) -> None:
        """Write a file as old as all others."""
        path = Path(unquote(uri.removeprefix("file:").replace("//", "/")))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.touch(uri, self.written_at)

    def touch(self, uri: str, at: datetime) -> None:
        """Give a file another time of modification."""
        path = unquote(uri.removeprefix("file:").replace("//", "/"))
        os.utime(path, (at.timestamp(), at.timestamp()))

    def _writers_time(self) -> int:
        return int(self.written_at.timestamp() * 1000)

    def files(self) -> set[str]:
        """Every file of the lake."""
        return {f"file://{path}" for path in self.lake.rglob("*") if path.is_file()}

    def mark(
        self,
        default: str = "NONE",
        cutoffs: Mapping[str, str] | None = None,
        *,
        keep_state_at_cutoff: bool = False,
        dropped_grace: timedelta | None = None,
        at: datetime | None = None,
    ) -> Marked:
        """Mark what is live now, or as of some time."""
        now = at or datetime.now(UTC)
        request = mark_request(default, cutoffs, now, keep_state_at_cutoff, dropped_grace)
        before, self.nessie.date = self.nessie.date, at or self.nessie.date
        with self.nessie.client() as client:
            marked = mark_live(client, self.live_sets, request, Phases("mark"), lambda: now)
        self.nessie.date = before
        return marked

    def explain(
        self,
        *uris: str,
        default: str = "NONE",
        cutoffs: Mapping[str, str] | None = None,
        keep_state_at_cutoff: bool = False,
        dropped_grace: timedelta | None = None,
        at: datetime | None = None,
        **request: Any,
    ) -> FileExplanations:
        """Explain files now, or as of some time."""
        now = at or datetime.now(UTC)
        marking = mark_request(default, cutoffs, now, keep_state_at_cutoff, dropped_grace)
        sweeping = ExpireRequest(LiveSetId(""), **request)
        with self.nessie.client() as client:
            return explain_files(self.context(), client, uris, marking, sweeping)

    def expire(
        self, marked: Marked | LiveSetId, *, ask_nessie: bool = False, **request: Any
    ) -> RunRecord:
        """Expire a live set."""
        wanted = ExpireRequest(_id(marked), **request)
        with self.nessie.client() as client:
            return expire(self.context(), wanted, client if ask_nessie else None)

    def defer(self, marked: Marked, **request: Any) -> RunRecord:
        """Expire a live set, and record what it would delete."""
        return self.expire(marked, defer=True, **request)

    def deferred(self, marked: Marked | LiveSetId) -> set[str]:
        """The files that are recorded."""
        return {file.uri for file in self.live_sets.deferred(_id(marked))}

    def delete_deferred(
        self, marked: Marked, *, ask_nessie: bool = False, **request: Any
    ) -> RunRecord:
        """Delete what is recorded."""
        wanted = ExpireRequest(_id(marked), **request)
        with self.nessie.client() as client:
            return delete_deferred(self.context(), wanted, client if ask_nessie else None)

    def context(self) -> NessieContext:
        """What a run works with."""
        return NessieContext(
            live_sets=self.live_sets,
            engine=self.engine,
            storage=self.storage,
            work_location=Location.parse(f"file://{self.work}"),
            phases=Phases("scene"),
        )


def mark_request(
    default: str,
    cutoffs: Mapping[str, str] | None,
    now: datetime,
    keep_state_at_cutoff: bool,
    dropped_grace: timedelta | None,
) -> MarkRequest:
    """A mark as of a time, by policies as users write them."""
    pairs = tuple((cutoffs or {}).items())
    return MarkRequest(
        policies=parse_policies(default, pairs, now),
        reference_time=now,
        default_policy=default,
        policy_texts=pairs,
        keep_state_at_cutoff=keep_state_at_cutoff,
        dropped_grace=dropped_grace,
    )


@dataclass(slots=True)
class SceneTable:
    """A table whose every change is committed to a branch."""

    scene: NessieScene
    name: str
    iceberg: IcebergTable
    key: tuple[str, ...]
    branch: str = "main"
    states: list[Snapshot] = field(default_factory=list)

    @property
    def content_id(self) -> str:
        """Its id in Nessie, on its branch."""
        content = self.scene.nessie.contents([self.key], self.branch).get(self.key)
        assert content is not None
        return str(content["id"])

    def append(self, *names: str) -> Snapshot:
        return self.commit(self.iceberg.append(*names))

    def remove(self, *names: str) -> Snapshot:
        return self.commit(self.iceberg.remove(*names))

    def commit(self, state: Snapshot) -> Snapshot:
        """Let the catalog point to a state."""
        known = self.scene.nessie.contents([self.key], self.branch).get(self.key)
        content = table(
            state.metadata_location, state.snapshot_id, id=str(known["id"]) if known else None
        )
        self.scene.nessie.commit(self.branch, puts={self.key: content})
        self.states.append(state)
        return state

    def drop(self) -> None:
        """Drop it on its branch."""
        self.scene.nessie.commit(self.branch, deletes=[self.key])

    def live_files(self, *states: Snapshot, all_snapshots: bool = False) -> set[str]:
        """What these states need; without any, all that were committed."""
        return self.iceberg.live_files(*(states or self.states), all_snapshots=all_snapshots)


def _id(marked: Marked | LiveSetId) -> LiveSetId:
    return marked.live_set_id if isinstance(marked, Marked) else marked


def union(sets: Iterable[set[str]]) -> set[str]:
    """All of them together."""
    return set().union(*sets)
