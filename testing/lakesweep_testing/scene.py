"""A repository with something of every kind in it, ready to be collected under all sorts of trouble.

It lies in memory, on an embedded lake whose clock also dates the objects, so it can be put back to its first state at
once: what a trouble did is then told from what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.transport import Timeouts
from lakesweep.collector import lease
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_sweep
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.explain.explain import ExplainRequest, explain
from lakesweep.collector.lakefs.paths import GC, OWN, mark_folder
from lakesweep.collector.lakefs.request import MarkRequest
from lakesweep.collector.record import RunRecord
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.run_files import MarkId
from lakesweep.domain.cutoff import SafetyMargins
from lakesweep.domain.explanations import Explanations
from lakesweep.engine.tasks import Engine
from lakesweep.formats.entries import Entry
from lakesweep.formats.identity import entry_identity
from lakesweep.formats.metaranges import write_metarange
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.tables import read_mark
from lakesweep.formats.values import join_value
from lakesweep.progress import Display
from lakesweep.storage import ObjectStore, StorageOptions
from lakesweep.storage.memory import memory_container
from lakesweep_testing.embedded import MIN_AGE, EmbeddedLake, source_of
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.trouble import MeddlingTransport, through_store
from lakesweep_testing.user import User

__all__ = ["AGED", "ANY_CLOCK", "Scene", "assert_adds_up", "old_lake"]

# The lake's clock has nothing to do with the machine's, which dates answers and hurries deletions.
ANY_CLOCK = SafetyMargins(
    least_age=timedelta(hours=24),
    clock_skew=timedelta(days=36500),
    delete_not_after=timedelta(days=36500),
    lease_life=timedelta(days=36501),
)
LEASES = f"{OWN}{lease.LEASES}"
AGED = MarkRequest(min_age=MIN_AGE, allow_lower_min_age=True)
RETENTION_DAYS = 5


def old_lake(folder: Path) -> EmbeddedLake:
    """An embedded lake whose clock has years to go before it meets the machine's."""
    lake = EmbeddedLake(folder)
    lake.clock.now = datetime.now(UTC) - timedelta(days=3000)
    return lake


class Scene:
    """`live` and `garbage` are addresses by name; everything else in the store may not change either."""

    def __init__(self, lake: EmbeddedLake, name: str, *, each: int = 3) -> None:
        self.lake = lake
        self.name = name
        self.container = memory_container(name)
        self.container.clock = lake.clock
        self.user = User.create(lake.api, name, f"mem://{name}/ns", lake.clock)
        self.live: dict[str, str] = {}
        self.garbage: dict[str, str] = {}
        self.foreign: dict[str, str] = {}
        self._stack = ExitStack()
        self._write_history(each)
        self.keep_as_is()

    def close(self) -> None:
        """Close the connections of runs with a troubled server."""
        self._stack.close()

    def _write_history(self, each: int) -> None:
        user, clock = self.user, self.lake.clock
        user.set_rules(RETENTION_DAYS)
        self.live["base"] = self.upload("main", "base")
        for number in range(each):
            self.garbage[f"expired-{number}"] = self.upload("main", f"expired-{number}")
        self.expired_commit = user.commit("main")
        clock.advance(timedelta(days=1))
        for number in range(each):
            user.delete("main", f"expired-{number}")
        user.commit("main")
        clock.advance(timedelta(days=8))
        for number in range(each):
            self.garbage[f"orphan-{number}"] = self.upload("main", f"orphan-{number}")
        user.reset("main")
        self.live["retained"] = self.upload("main", "retained")
        self.retained_commit = user.commit("main")
        clock.advance(timedelta(days=1))
        user.delete("main", "retained")
        user.commit("main")
        user.branch("dev", "main")
        self.live["staged"] = self.upload("main", "staged")
        self.live["staged on dev"] = self.upload("dev", "staged-on-dev")
        self.live["renamed"] = self.upload("dev", "before")
        user.copy("dev", "before", "after")
        user.delete("dev", "before")
        clock.advance(timedelta(hours=30))
        # A multipart upload may be born old: its store gives it the time at which it began.
        self.pending_uri = user.issue_address("main", "pending")
        self.live["pending"] = self.put(self.relative(self.pending_uri), b"12345", days_ago=3)
        self.live["young"] = self.upload("main", "young")
        user.delete("main", "young")
        clock.advance(timedelta(hours=1))
        slice_folder = self.live["base"].rsplit("/", 1)[0]
        for key in ("README.txt", "data/plain", f"{slice_folder}/not-an-object", "other/x"):
            self.foreign[key] = self.put(key, b"foreign", days_ago=30)

    # -- what users do

    def upload(self, branch: str, path: str, content: str | None = None) -> str:
        """Upload, and give the address relative to the namespace."""
        return self.relative(self.user.upload(branch, path, content))

    def relative(self, address: str) -> str:
        """A full address relative to the namespace."""
        return address.removeprefix(f"mem://{self.name}/ns/")

    def put(self, key: str, data: bytes, *, days_ago: float = 0) -> str:
        """Write an object past the lake, as of some days ago."""
        stored = self.container.store(f"ns/{key}", data)
        at = self.lake.clock.now - timedelta(days=days_ago)
        self.container.objects[f"ns/{key}"] = replace(stored, last_modified=at)
        return key

    def commit_entries(self, branch: str, entries: Mapping[str, Entry]) -> str:
        """A commit of just these entries, on a new branch, as servers of any age may have made it."""
        records = [
            (
                path.encode(),
                join_value(
                    entry_identity(
                        size=entry.size, e_tag=entry.e_tag, metadata={}, content_type=""
                    ),
                    entry.encode(),
                ),
            )
            for path, entry in sorted(entries.items())
        ]
        ranges = list(write_ranges(records))
        meta_range_id, data = write_metarange(ranges)
        for written in ranges:
            self.put(f"_lakefs/{written.id}", written.data)
        self.put(f"_lakefs/{meta_range_id}", data)
        self.user.branch(branch, "main")
        return str(
            self.user._ask(
                "POST",
                f"/branches/{branch}/commits",
                params={"source_metarange": meta_range_id},
                json={"message": "entries"},
            ).json()["id"]
        )

    # -- what happened to it

    def keep_as_is(self) -> None:
        """This is the state that `rewind` goes back to and that `assert_nothing_else_gone` compares with."""
        self._first_state = dict(self.container.objects)
        self._first_time = self.lake.clock.now

    def rewind(self) -> None:
        """All objects as they were; refs are not touched by collections."""
        self.container.objects.clear()
        self.container.objects.update(self._first_state)
        self.lake.clock.now = self._first_time

    def put_back(self, addresses: Iterable[str]) -> None:
        """Some objects as they were, past the collector's knowledge."""
        for address in addresses:
            self.container.objects[f"ns/{address}"] = self._first_state[f"ns/{address}"]

    @property
    def store(self) -> ObjectStore:
        """The namespace, without any trouble."""
        return self.context().store

    def present_keys(self) -> set[str]:
        """Every key that is there now."""
        return {key.removeprefix("ns/") for key in list(self.container.objects)}

    def left(self) -> set[str]:
        """Names of the garbage that is still there."""
        there = self.present_keys()
        return {name for name, address in self.garbage.items() if address in there}

    def assert_nothing_else_gone(self) -> None:
        """All that is live, young or foreign is there with the bytes it had, and so is the lake's metadata."""
        may_change = {f"ns/{address}" for address in self.garbage.values()}
        for key, before in self._first_state.items():
            if key in may_change or key.startswith((f"ns/{GC}", "ns/_lakefs/refs_manifest")):
                continue
            now = self.container.objects.get(key)
            assert now is not None, f"{key} is gone"
            assert now.data == before.data, f"{key} was changed"

    def assert_everything_reads(self) -> None:
        """Every path of every branch reads through the server."""
        for branch in self.user.branches():
            for path in self.user.paths(branch):
                assert self.user.status(branch, path) == 200, f"{branch}/{path}"
        assert self.user.status(self.retained_commit, "retained") == 200

    def release_lease(self) -> None:
        """Free the lease of a run that could not do it itself; its owner is this process, which lives on."""
        for key in [key for key in self.container.objects if key.startswith(f"ns/{LEASES}")]:
            del self.container.objects[key]

    # -- collections

    def context(
        self,
        *,
        wrap: Callable[[ObjectStore], ObjectStore] | None = None,
        transport: MeddlingTransport | None = None,
        engine: Engine | None = None,
        margins: SafetyMargins = ANY_CLOCK,
        display: Display | None = None,
    ) -> RunContext:
        """A run on the lake's clock, with trouble at its store, its server, or both."""
        server = self.lake.server
        client = self.lake.client
        if transport is not None:
            client = self._stack.enter_context(
                LakeFSClient(
                    server.endpoint,
                    server.access_key_id,
                    server.secret_access_key,
                    # Requests are counted by tests, so a machine that stands still for a while must not cause more.
                    timeouts=Timeouts(connect=60, read=60),
                    sleep=lambda seconds: time.sleep(min(seconds, 0.005)),
                    http_transport=transport,
                )
            )
        context = open_repository(
            client,
            self.name,
            StorageOptions(first_pause_seconds=0.001, throttle_patience_seconds=1.0),
            engine or InProcessEngine(),
            display=display,
            margins=margins,
            clock=self.lake.clock,
        )
        return context if wrap is None else through_store(context, wrap)

    def mark(self, request: MarkRequest = AGED) -> RunRecord:
        """Mark without any trouble."""
        return run_mark(self.context(), request)

    def sweep(self, mark_id: str, request: SweepRequest | None = None) -> RunRecord:
        """Sweep without any trouble."""
        return run_sweep(self.context(), mark_id, request or SweepRequest())

    def gc(self, request: MarkRequest = AGED) -> RunRecord:
        """Mark and sweep without any trouble."""
        return run_gc(self.context(), request, SweepRequest())

    def explain(
        self,
        *objects: str,
        request: ExplainRequest | None = None,
        transport: MeddlingTransport | None = None,
    ) -> Explanations:
        """Explain objects by the lake's clock, with the minimum age of `AGED`."""
        context = self.context(transport=transport)
        asked = replace(request or ExplainRequest(), min_age=AGED.min_age)
        return explain(source_of(context), objects, asked)

    def marked(self, mark_id: str) -> set[str]:
        """The addresses that a mark names."""
        folder = mark_folder(MarkId(mark_id))
        keys = list(self.store.keys(folder))
        return {
            a for k in keys for a in read_mark(self.store.read(k)).column("address").to_pylist()
        }


def assert_adds_up(record: RunRecord) -> None:
    """Every object of a swept plan has exactly one outcome."""
    for counted in (record.objects, record.bytes):
        outcomes = ("deleted", "already_gone", "revived", "kept_undecided", "failed")
        assert sum(counted[outcome] for outcome in outcomes) == counted["garbage"], counted
