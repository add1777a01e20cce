"""`doctor`: can a run do its work here, and what would hurt? Deletes nothing but files of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from lakesweep.catalogs.lakefs.graph import RepositoryRefs, read_commit_graph
from lakesweep.catalogs.lakefs.rights import right_to_dump
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.executor_version import (
    TOLD_SCHEMA,
    lakesweep_version,
    tell_of_executor,
)
from lakesweep.collector.lakefs.history import DamagedRun, list_runs
from lakesweep.collector.lakefs.ownership import refuse_shared_namespace
from lakesweep.collector.lakefs.paths import uncommitted_folder
from lakesweep.collector.lakefs.probes import Check, CheckResult, StoreProbe, attempt
from lakesweep.collector.lakefs.saved import NotUsable, load_saved_run
from lakesweep.collector.lakefs.served import note_served, remove_served
from lakesweep.collector.record import RunStatus
from lakesweep.collector.run_files import RunId
from lakesweep.domain.durations import format_duration
from lakesweep.engine.tasks import Scatter

__all__ = ["Check", "CheckResult", "examine"]

# A branch whose head is older than this, and than its retention, holds on to data that nobody seems to change.
STALE_AFTER = timedelta(days=90)
_MOST_NAMES = 5


def examine(context: RunContext, probe: StoreProbe | None = None) -> Iterator[Check]:
    """Every check, as it is made."""
    doctor = _Doctor(context, probe or StoreProbe(context.store))
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
    def __init__(self, context: RunContext, probe: StoreProbe) -> None:
        self._context = context
        self.probe = probe
        self._refs: RepositoryRefs | None = None

    def server(self) -> Check:
        profile = self._context.profile
        kind = "the embedded lake" if profile.is_embedded else "lakeFS"
        grace = self._context.client.grace_period()
        found = f"{kind} {profile.version}, data in {profile.blockstore_type}, uploads may be linked for {format_duration(grace)}"
        if not profile.lists_linked_objects:
            return Check(
                "server",
                CheckResult.WARNING,
                found,
                "On local files its uncommitted list leaves out linked objects: only --what committed works.",
            )
        return Check("server", CheckResult.OK, found)

    def spark(self) -> Check:
        """One task on each slot, as far as Spark spreads them."""
        engine = self._context.engine
        slots = engine.slots
        told = engine.collect(Scatter(list(range(slots)), tell_of_executor, TOLD_SCHEMA, slots))
        ours = lakesweep_version()
        executors = sorted({(row["python"], row["version"]) for row in told.to_pylist()})
        found = f"{slots} tasks at a time; " + ", ".join(
            f"{python} with lakesweep {version}" for python, version in executors
        )
        if any(version != ours for _, version in executors):
            return Check(
                "spark",
                CheckResult.WRONG,
                found,
                f"The driver has lakesweep {ours}: install the same on all executors.",
            )
        return Check("spark", CheckResult.OK, found)

    def clocks(self) -> Check:
        ours, server = self._context.clock(), self._context.client.server_time()
        others = {"the store": self.probe.store_time, "the server": server}
        known = {whose: time - ours for whose, time in others.items() if time is not None}
        worst = max((abs(skew) for skew in known.values()), default=timedelta(0))
        found = ", ".join(f"{whose} {_skew(skew)}" for whose, skew in known.items()) or "none told"
        if worst > self._context.margins.clock_skew:
            allowed = format_duration(self._context.margins.clock_skew)
            return Check(
                "clocks",
                CheckResult.WRONG,
                found,
                f"Runs refuse more than {allowed}: set the clocks (NTP).",
            )
        return Check("clocks", CheckResult.OK, found)

    def commits(self) -> Check:
        context = self._context
        self._refs = read_commit_graph(
            context.client,
            context.store,
            context.name,
            with_head_moves=context.profile.keeps_head_moves,
        )
        note_served(context.store, self._refs.dump_files, context.clock())
        remove_served(context.store)
        found = f"{len(self._refs.graph)} commits, {len(self._refs.heads)} branches, {len(self._refs.tags)} tags"
        if not self._refs.complete:
            return Check(
                "commits",
                CheckResult.WARNING,
                f"{found}, from branch logs: there is no right to dump refs",
                "Nothing expires this way, because dangling commits are not seen. Add this statement to one of the "
                f"user's policies: {right_to_dump(context.name).statement}",
            )
        return Check("commits", CheckResult.OK, found)

    def uncommitted(self) -> Check:
        context = self._context
        page = context.client.prepare_uncommitted(context.name)
        # One page shows the right; its files belong to a run that will not be.
        folder = uncommitted_folder(RunId(page.run_id))
        keys = list(context.store.keys(folder))
        context.store.delete_many(keys)
        return Check("uncommitted", CheckResult.OK, "the server lists what is staged")

    def rules(self) -> Check:
        rules = self._context.client.rules(self._context.name)
        if rules is None:
            return Check(
                "rules",
                CheckResult.WARNING,
                "there are none: nothing expires",
                "`lakesweep rules set` sets them; unreferenced objects are collected without.",
            )
        self._context.client.start_prepare_commits(self._context.name)
        return Check("rules", CheckResult.OK, str(rules))

    def other_repositories(self) -> Check:
        # An error says who else is there, and what to do about it.
        refuse_shared_namespace(self._context, claim=False)
        if "data/_lakefs/" in self._context.store.list_folder("data/").folders:
            return Check(
                "other repositories",
                CheckResult.WRONG,
                "there is one below data/_lakefs/",
                "Its objects would look like garbage of this one. Move one of them before any run.",
            )
        return Check(
            "other repositories", CheckResult.OK, "none of those we may see shares the namespace"
        )

    def branches(self) -> Check:
        if self._refs is None:
            return Check(
                "branches", CheckResult.WARNING, "not looked: the commits could not be read"
            )
        now = self._context.clock()
        stale = sorted(_stale(self._refs, now, self._context.repository.default_branch))
        if not stale:
            return Check("branches", CheckResult.OK, f"none is older than {STALE_AFTER.days} days")
        named = ", ".join(f"{name} ({-days} d)" for days, name in stale[:_MOST_NAMES])
        more = f" and {len(stale) - _MOST_NAMES} more" if len(stale) > _MOST_NAMES else ""
        return Check(
            "branches",
            CheckResult.WARNING,
            f"{len(stale)} have had no commit for {STALE_AFTER.days} days: {named}{more}",
            "Everything at the head of a branch is live for ever. Delete the ones that nobody needs.",
        )

    def earlier_runs(self) -> Check:
        runs = list_runs(self._context.store)
        begun = [
            r.run_id
            for r in runs
            if not isinstance(r, DamagedRun) and r.status is RunStatus.PARTLY_SWEPT
        ]
        if begun:
            return Check(
                "earlier runs",
                CheckResult.WARNING,
                f"{len(begun)} swept in part, the newest {begun[0]}",
                f"lakesweep runs resume {self._context.name} {begun[0]}",
            )
        saved = load_saved_run(self._context.store, self._context.name)
        next_run = f"clean ({saved.why})" if isinstance(saved, NotUsable) else "optimized"
        return Check("earlier runs", CheckResult.OK, f"{len(runs)}; the next one is {next_run}")


def _stale(refs: RepositoryRefs, now: datetime, default_branch: str) -> Iterator[tuple[int, str]]:
    for head in refs.heads:
        age = now - refs.graph[head.commit_id].creation_date
        if head.id != default_branch and age > STALE_AFTER:
            yield -age.days, head.id


def _skew(skew: timedelta) -> str:
    seconds = skew.total_seconds()
    return f"{abs(seconds):.0f} s {'ahead' if seconds >= 0 else 'behind'}"
