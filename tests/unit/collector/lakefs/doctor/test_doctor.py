"""The doctor finds what would hurt, and leaves no trace."""

from __future__ import annotations

import dataclasses
import sys
import uuid
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.doctor.doctor import Check, CheckResult, examine
from lakesweep.collector.lakefs.doctor.executor_version import lakesweep_version
from lakesweep.collector.lakefs.doctor.probes import StoreProbe
from lakesweep.collector.lakefs.paths import OWN, RunFolder
from lakesweep.collector.record import RunRecord, RunStatus, encode_record
from lakesweep.collector.run_files import RunId
from lakesweep.domain.commits import BranchHead, BranchId, Commit, CommitId, MetaRangeId
from lakesweep.domain.location import Location
from lakesweep.domain.rules import RetentionRules
from lakesweep.engine.late import LateEngine
from lakesweep.engine.tasks import Engine
from lakesweep.errors import ConfigError
from lakesweep.storage import ObjectInfo, ObjectStore, StorageOptions, open_store
from lakesweep.storage.finality import Finality, Kept
from lakesweep_testing.fake_lakefs import FakeLakeFS
from lakesweep_testing.faults import FaultPlan, FaultyStore
from lakesweep_testing.inprocess import InProcessEngine

NOW = datetime.now(UTC)


def commit(name: str, days_ago: int) -> Commit:
    at = (NOW - timedelta(days=days_ago)).replace(microsecond=0)
    return Commit(CommitId(name * 64), "me", "m", at, MetaRangeId(""), ())


class Clinic:
    """A fake server over a memory store, healthy until a test makes it ill."""

    def __init__(self) -> None:
        self.namespace = f"mem://doctor-{uuid.uuid4().hex}/ns"
        self.server = FakeLakeFS(open_store(Location.parse(self.namespace)), self.namespace)
        self.server.commits = [commit("a", 400), commit("b", 1)]
        self.server.branches = [BranchHead(BranchId("main"), CommitId("b" * 64))]
        self.server.rules = RetentionRules(7)
        self.server.overrides["GET", "healthcheck"] = lambda _: answer_at(datetime.now(UTC))
        self.neighbours: dict[str, str] = {}
        self.server.overrides["GET", "repositories"] = self._repositories

    def context(self) -> RunContext:
        return open_repository(self.server.client(), "repo", StorageOptions(), InProcessEngine())

    def examine(self, store: ObjectStore | None = None, **finality: Kept) -> dict[str, Check]:
        context = self.context()
        kept = finality.get("kept", Kept.NOT_KEPT)
        probe = StoreProbe(store or context.store, lambda _: Finality(kept, "as told"))
        return {
            check.name: check for check in examine(context.repository, context.resources, probe)
        }

    def _repositories(self, request: httpx.Request) -> httpx.Response:
        names = {"repo": self.namespace, **self.neighbours}
        rows = [
            {"id": n, "storage_namespace": s, "default_branch": "main", "creation_date": 1}
            for n, s in names.items()
        ]
        pagination = {
            "has_more": False,
            "next_offset": "",
            "results": len(rows),
            "max_per_page": 1000,
        }
        return httpx.Response(200, json={"pagination": pagination, "results": rows})


def answer_at(time: datetime) -> httpx.Response:
    return httpx.Response(204, headers={"date": time.strftime("%a, %d %b %Y %H:%M:%S GMT")})


@pytest.fixture
def clinic() -> Clinic:
    return Clinic()


def test_a_healthy_repository_is_well_and_nothing_is_left_behind(clinic: Clinic) -> None:
    """Every check is made; the probes are gone again."""
    checks = clinic.examine()
    assert {name for name, check in checks.items() if check.verdict is not CheckResult.OK} == set()
    assert len(checks) == 16
    left = {k for batch in clinic.server.store.list() for k in batch.column("key").to_pylist()}
    assert not {key for key in left if key.startswith((OWN, "data/"))}
    assert not {key for key in left if "/uncommitted/" in key}


@pytest.mark.parametrize(
    ("plan", "wrong"),
    [
        (FaultPlan(denials=1.0), {"list", "write", "delete data"}),
        (FaultPlan(failed_deletes=1.0), {"delete own files", "delete data"}),
    ],
)
def test_missing_rights_on_the_store_are_named(
    clinic: Clinic, plan: FaultPlan, wrong: set[str]
) -> None:
    """One by one, each with what a run needs it for."""
    checks = clinic.examine(FaultyStore(clinic.server.store, 1, plan))
    assert {name for name, check in checks.items() if check.verdict is CheckResult.WRONG} == wrong


@pytest.mark.parametrize("kept", [Kept.KEPT, Kept.UNKNOWN])
def test_deletes_that_free_nothing_are_told(clinic: Clinic, kept: Kept) -> None:
    """Versioning, soft delete, or a store that does not tell."""
    check = clinic.examine(kept=kept)["deletes are final"]
    assert check.verdict is CheckResult.WARNING
    assert "lifecycle" in check.advice


def test_clocks_apart_are_wrong(clinic: Clinic) -> None:
    """A run would refuse them."""
    late = datetime.now(UTC) - timedelta(minutes=30)
    clinic.server.overrides["GET", "healthcheck"] = lambda _: answer_at(late)
    check = clinic.examine()["clocks"]
    assert check.verdict is CheckResult.WRONG
    assert "behind" in check.found


def test_stale_branches_are_named_the_stalest_first(clinic: Clinic) -> None:
    """The default branch is not one of them, however old."""
    clinic.server.branches = [
        BranchHead(BranchId("main"), CommitId("a" * 64)),
        BranchHead(BranchId("old"), CommitId("a" * 64)),
        BranchHead(BranchId("new"), CommitId("b" * 64)),
    ]
    check = clinic.examine()["branches"]
    assert check.verdict is CheckResult.WARNING
    assert "1 branch without a commit for 90 days: old (400 days)" in check.found
    assert "main" not in check.found


@pytest.mark.parametrize("where", ["", "/data/inner", "/.."])
def test_a_neighbour_in_the_namespace_is_wrong(clinic: Clinic, where: str) -> None:
    """Inside, around, or at the same place."""
    own = clinic.namespace
    clinic.neighbours["other"] = own.rpartition("/")[0] if where == "/.." else own + where
    check = clinic.examine()["other repositories"]
    assert check.verdict is CheckResult.WRONG
    assert "other at mem://" in check.found


def test_neighbours_elsewhere_are_fine(clinic: Clinic) -> None:
    """Also those at places that we can't even name."""
    clinic.neighbours |= {"other": f"{clinic.namespace}-2", "odd": "ftp://x"}
    assert clinic.examine()["other repositories"].verdict is CheckResult.OK


def denied(request: httpx.Request) -> httpx.Response:
    return httpx.Response(401, json={"message": "insufficient permissions"})


@pytest.mark.parametrize(
    ("call", "check", "verdict"),
    [
        (("PUT", "refs/dump"), "commits", CheckResult.WARNING),
        (("POST", "gc/prepare_uncommited"), "uncommitted", CheckResult.WRONG),
        (("GET", "settings/gc_rules"), "rules", CheckResult.WRONG),
        (("POST", "gc/prepare_commits/async"), "rules", CheckResult.WRONG),
        (("GET", "repositories"), "other repositories", CheckResult.WRONG),
    ],
)
def test_missing_rights_on_the_server_are_named(
    clinic: Clinic, call: tuple[str, str], check: str, verdict: CheckResult
) -> None:
    """Without the right to dump refs a run still works, and keeps more."""
    clinic.server.overrides[call] = denied
    assert clinic.examine()[check].verdict is verdict


def test_no_rules_is_worth_a_word(clinic: Clinic) -> None:
    """Nothing expires, which may not be what was meant."""
    clinic.server.rules = None
    assert "nothing expires" in clinic.examine()["rules"].found


def test_a_real_server_on_local_files_is_told_apart(clinic: Clinic) -> None:
    """Its uncommitted list is not whole."""
    context = clinic.context()
    profile = dataclasses.replace(context.repository.profile, blockstore_type="local")
    repository = dataclasses.replace(context.repository, profile=profile)
    probe = StoreProbe(context.store, lambda _: Finality(Kept.NOT_KEPT, ""))
    first = next(iter(examine(repository, context.resources, probe)))
    assert first.verdict is CheckResult.WARNING
    assert "--what committed" in first.advice


def test_a_sweep_that_did_not_end_is_told(clinic: Clinic) -> None:
    """With the command that goes on."""
    record = RunRecord("repo", "r1", "r1", "all", "clean", RunStatus.PARTLY_SWEPT, NOW)
    clinic.server.store.write(RunFolder(RunId("r1")).record, encode_record(record))
    check = clinic.examine()["earlier runs"]
    assert check.verdict is CheckResult.WARNING
    assert check.advice == "lakesweep runs resume repo r1"


def test_checks_are_given_as_they_are_made(clinic: Clinic) -> None:
    """A person watches them come: the store is tried before the server is asked for more."""
    context = clinic.context()
    checks = examine(context.repository, context.resources)
    assert next(checks).name == "server"
    asked = len(clinic.server.requests)
    assert [next(checks).name for _ in range(3)] == ["list", "write", "read"]
    assert len(clinic.server.requests) == asked


def test_spark_is_tried_with_a_task_on_every_slot(clinic: Clinic) -> None:
    """It says which Python the executors run, and which lakesweep that has."""
    check = clinic.examine()["spark"]
    assert check.verdict is CheckResult.OK
    assert check.found.startswith(f"2 tasks at a time; {sys.executable} ")
    assert lakesweep_version() in check.found


def test_executors_with_another_lakesweep_are_wrong(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the driver sends may mean something else to them."""
    monkeypatch.setattr(
        "lakesweep.collector.lakefs.doctor.executor_version.lakesweep_version", lambda: "0.0.1"
    )
    check = clinic.examine()["spark"]
    assert check.verdict is CheckResult.WRONG
    assert "install the same" in check.advice


def test_spark_that_does_not_start_is_a_finding(clinic: Clinic) -> None:
    """The other checks are made all the same."""

    def no_java() -> Engine:
        raise ConfigError("There is no Java here.", kind="no-java")

    context = clinic.context()
    resources = dataclasses.replace(context.resources, engine=LateEngine(no_java))
    checks = {check.name: check for check in examine(context.repository, resources)}
    assert (checks["spark"].verdict, checks["spark"].found) == (
        CheckResult.WRONG,
        "There is no Java here.",
    )
    assert checks["write"].verdict is CheckResult.OK


def test_store_that_takes_no_notice_of_conditions_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two collectors could hold the lease there; all else is looked at as ever."""
    clinic = Clinic()
    store = clinic.context().store
    plain = store.backend.put

    def put(key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo:
        return plain(key, data, create=False, if_match=if_match)

    monkeypatch.setattr(store.backend, "put", put)
    checks = clinic.examine(store)
    assert checks["write"].verdict is CheckResult.WARNING
    assert "lease" in checks["write"].found
    assert checks["read"].verdict is CheckResult.OK
