"""`doctor`: can a run do its work here, and what would hurt? Deletes nothing but files of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from lakesweep.catalogs.lakefs.graph import RepositoryRefs
from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.rights import right_to_dump
from lakesweep.collector.lakefs.between_runs.history import DamagedRun, list_runs
from lakesweep.collector.lakefs.between_runs.known_heads import refuse_older_refs
from lakesweep.collector.lakefs.between_runs.saved import NotUsable, load_saved_run
from lakesweep.collector.lakefs.between_runs.served import note_served, remove_served
from lakesweep.collector.lakefs.checks.ownership import refuse_shared_namespace
from lakesweep.collector.lakefs.doctor.executor_version import (
    TOLD_SCHEMA,
    lakesweep_version,
    tell_of_executor,
)
from lakesweep.collector.lakefs.doctor.probes import (
    Check,
    CheckResult,
    Finding,
    StoreProbe,
    attempt,
    ok,
    warning,
    wrong,
)
from lakesweep.collector.lakefs.paths import uncommitted_folder
from lakesweep.collector.lakefs.repository import LakeFSRepository, read_refs
from lakesweep.collector.record import RunStatus
from lakesweep.collector.resources import Resources
from lakesweep.collector.run_files import RunId
from lakesweep.domain.durations import format_duration
from lakesweep.engine.tasks import Scatter
from lakesweep.progress import human_count

__all__ = ["Check", "CheckResult", "examine"]

# A branch whose head is older than this, and than its retention, holds on to data that nobody seems to change.
STALE_AFTER = timedelta(days=90)
_MOST_NAMES = 5


def examine(
    repository: LakeFSRepository, resources: Resources, probe: StoreProbe | None = None
) -> Iterator[Check]:
    """Every check, as it is made."""
    doctor = _Doctor(repository, resources, probe or StoreProbe(resources.store))
    yield attempt("server", doctor.server)
    yield from doctor.probe.run()
    yield attempt("clocks", doctor.clocks)
    yield attempt("commits", doctor.commits)
    yield attempt("uncommitted", doctor.uncommitted)
    yield attempt("rules", doctor.rules)
    yield attempt("other repositories", doctor.other_repositories)
    yield attempt("branches", doctor.branches)
    yield attempt("earlier runs", doctor.earlier_runs)
    yield attempt("spark", doctor.spark)  # last, since it takes its time to start


class _Doctor:
    def __init__(
        self, repository: LakeFSRepository, resources: Resources, probe: StoreProbe
    ) -> None:
        self._repository, self._resources = repository, resources
        self.probe = probe
        self._refs: RepositoryRefs[History] | None = None

    def server(self) -> Finding:
        profile = self._repository.profile
        kind = "the embedded lake" if profile.is_embedded else "lakeFS"
        grace = self._repository.client.grace_period()
        found = (
            f"{kind} {profile.version}, which keeps data in {profile.blockstore_type}; "
            f"an upload may be linked for {format_duration(grace)} after it began"
        )
        if not profile.lists_linked_objects:
            return warning(
                found,
                "On local files its uncommitted list leaves out linked objects: only --what committed works.",
            )
        return ok(found)

    def spark(self) -> Finding:
        """One task on each slot, as far as Spark spreads them."""
        engine = self._resources.engine
        slots = engine.slots
        told = engine.collect(Scatter(list(range(slots)), tell_of_executor, TOLD_SCHEMA, slots))
        ours = lakesweep_version()
        executors = sorted({(row["python"], row["version"]) for row in told.to_pylist()})
        found = f"{slots} tasks at a time; " + ", ".join(
            f"{python} with lakesweep {version}" for python, version in executors
        )
        if any(version != ours for _, version in executors):
            return wrong(
                found, f"The driver has lakesweep {ours}: install the same on all executors."
            )
        return ok(found)

    def clocks(self) -> Finding:
        ours, server = self._resources.clock(), self._repository.client.server_time()
        others = {"the store": self.probe.store_time, "the server": server}
        known = {whose: time - ours for whose, time in others.items() if time is not None}
        worst = max((abs(skew) for skew in known.values()), default=timedelta(0))
        found = ", ".join(f"{whose} {_skew(skew)}" for whose, skew in known.items()) or "none told"
        if worst > self._resources.margins.clock_skew:
            allowed = format_duration(self._resources.margins.clock_skew)
            return wrong(found, f"Runs refuse more than {allowed}: set the clocks (NTP).")
        return ok(found)

    def commits(self) -> Finding:
        name, store = self._repository.name, self._resources.store
        self._refs = read_refs(self._repository, store)
        note_served(store, self._refs.dump_files, self._resources.clock())
        remove_served(store)
        # An error says that the server went back in time, and what to do about it.
        refuse_older_refs(store, name, self._refs)
        found = ", ".join(
            human_count(len(some), unit)
            for some, unit in (
                (self._refs.graph, "commits"),
                (self._refs.heads, "branches"),
                (self._refs.tags, "tags"),
            )
        )
        if not self._refs.complete:
            return warning(
                f"{found}, from branch logs: there is no right to dump refs",
                "Nothing expires this way, because commits that no branch or tag reaches are not seen. Add this statement to one of the "
                f"user's policies: {right_to_dump(name).statement}",
            )
        return ok(found)

    def uncommitted(self) -> Finding:
        page = self._repository.client.prepare_uncommitted(self._repository.name)
        # One page shows the right; its files belong to a run that will not be.
        folder = uncommitted_folder(RunId(page.run_id))
        store = self._resources.store
        store.delete_many(list(store.keys(folder)))
        return ok("the server lists what is staged")

    def rules(self) -> Finding:
        rules = self._repository.client.rules(self._repository.name)
        if rules is None:
            return warning(
                "there are none: nothing expires",
                "`lakesweep rules set` sets them. Objects that were never committed are collected without rules.",
            )
        self._repository.client.start_prepare_commits(self._repository.name)
        return ok(str(rules))

    def other_repositories(self) -> Finding:
        # An error says who else is there, and what to do about it.
        skew = self._resources.margins.clock_skew
        refuse_shared_namespace(self._repository, self._resources.target, skew, claim=False)
        if "data/_lakefs/" in self._resources.store.list_folder("data/").folders:
            return wrong(
                "there is one below data/_lakefs/",
                "Its objects would look like garbage of this one. Move one of them before any run.",
            )
        return ok("no repository that we may see uses this namespace")

    def branches(self) -> Finding:
        if self._refs is None:
            return warning("not checked: the commits could not be read")
        now = self._resources.clock()
        stale = sorted(_stale(self._refs, now, self._repository.details.default_branch))
        if not stale:
            return ok(f"each has had a commit in the last {STALE_AFTER.days} days")
        named = ", ".join(f"{name} ({-days} days)" for days, name in stale[:_MOST_NAMES])
        more = f" and {len(stale) - _MOST_NAMES} more" if len(stale) > _MOST_NAMES else ""
        return warning(
            f"{human_count(len(stale), 'branches')} without a commit for {STALE_AFTER.days} days: {named}{more}",
            "Everything at the head of a branch is live for ever. Delete the ones that nobody needs.",
        )

    def earlier_runs(self) -> Finding:
        runs = list_runs(self._resources.store)
        begun = [
            r.run_id
            for r in runs
            if not isinstance(r, DamagedRun) and r.status is RunStatus.PARTLY_SWEPT
        ]
        if begun:
            return warning(
                f"{human_count(len(begun), 'sweeps')} did not come to the end, the newest is {begun[0]}",
                f"lakesweep runs resume {self._repository.name} {begun[0]}",
            )
        saved = load_saved_run(self._resources.store, self._repository.name)
        next_run = "the next one lists only what may have changed"
        if isinstance(saved, NotUsable):
            next_run = f"the next one lists everything, because {saved.why}"
        return ok(f"{len(runs)}; {next_run}")


def _stale(
    refs: RepositoryRefs[History], now: datetime, default_branch: str
) -> Iterator[tuple[int, str]]:
    for head in refs.heads:
        age = now - refs.graph.made_at(head.commit_id)
        if head.id != default_branch and age > STALE_AFTER:
            yield -age.days, head.id


def _skew(skew: timedelta) -> str:
    seconds = skew.total_seconds()
    return f"{abs(seconds):.0f} s {'ahead' if seconds >= 0 else 'behind'}"
