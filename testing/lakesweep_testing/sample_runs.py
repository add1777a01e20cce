"""A run with something of every kind on its page, and one whose every name is hostile."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lakesweep.collector.record import Phase, RunRecord, RunStatus
from lakesweep.domain.commit_summary import CommitNode, CommitSummary, MonthOfCommits
from lakesweep.domain.garbage_summary import AGES, SIZES, GarbageSummary, LargeObject
from lakesweep.domain.run_summary import RunSummary
from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import Curve, WhatIf

__all__ = ["AT", "HOSTILE", "LONG", "hostile", "sample_record", "sample_summary", "sample_what_if"]

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}</style><img src=x onerror=y>\x00\x07\x1b\u202egpj\u2066\ud800"
LONG = "long/" + HOSTILE + "é" * 500


def sample_record() -> RunRecord:
    """A mark with something of every kind."""
    return RunRecord(
        repository="example-repo",
        run_id="g123",
        mark_id="may",
        plan_id="p1",
        what="all",
        flow="clean",
        status=RunStatus.MARKED,
        started_at=AT,
        finished_at=AT + timedelta(minutes=2),
        cutoff=AT - timedelta(days=1),
        min_age_seconds=86_400.0,
        rules={"default_retention_days": 1, "branches": []},
        retained_commits=1,
        expired_commits=2,
        mark="s3://lake/example-repo/_lakefs/retention/gc/addresses/mark_id=may/",
        phases=(Phase("list", 1.0, 1200, 0.5), Phase("judge", 3.0, 1200)),
        protected={"foreign file": [f"f{n}" for n in range(7)]},
        notes=("a clean run",),
    ).tallied(
        {
            "listed": Tally(1_200, 5_000),
            "live": Tally(1_000, 4_000),
            "young": Tally(90, 90),
            "protected": Tally(7, 7),
            "undecided": Tally(3, 3),
            "garbage": Tally(100, 900),
            "expired": Tally(60, 700),
            "unreferenced": Tally(40, 200),
        }
    )


def _classes(count: int, total: Tally) -> tuple[Tally, ...]:
    """All in the first class but one object of unknown size and age."""
    return (Tally(total.objects - 1, total.bytes - 5), *(Tally(),) * (count - 2), Tally(1, 5))


def sample_summary() -> RunSummary:
    """Sums of the garbage in `sample_record`."""
    total = Tally(100, 900)
    return RunSummary(
        AT,
        GarbageSummary(
            total,
            {"expired": Tally(60, 700), "unreferenced": Tally(40, 200)},
            {"data/a/": Tally(99, 800), "data/b/": Tally(1, 100)},
            _classes(len(AGES) + 1, total),
            _classes(len(SIZES) + 1, total),
            tuple(LargeObject(f"data/a/{n}", 900 - n, AT, "expired") for n in range(100)),
        ),
        CommitSummary(
            (
                CommitNode("c0", AT, ("c1",), True, ("main",)),
                CommitNode("c1", AT, ("c9",), False),
            ),
            (MonthOfCommits("2026-05", 1, 2),),
        ),
    )


def sample_what_if() -> WhatIf:
    """A curve of five hundred steps."""
    curve = Curve.of({days: Tally(days, days * 10) for days in range(500)})
    return WhatIf("lakefs", "example-repo", "all", AT, AT, AT, curve)


def hostile(
    record: RunRecord, summary: RunSummary, name: str = LONG
) -> tuple[RunRecord, RunSummary]:
    """All that a lake, a server or a user can name, named badly."""
    total = Tally(100, 900)
    record = replace(
        record,
        repository=name,
        run_id=name,
        mark_id=name,
        plan_id=name,
        flow=name,
        reason=name,
        backup_to=name,
        rules={
            "default_retention_days": name,
            "branches": [{"branch_id": name, "retention_days": 3}] * 500,
        },
        mark=name,
        versions={name: name},
        notes=(name, f"dry run {name}") * 50,
        protected={f"{n}{name}": [name] * 20 for n in range(30)},
        revived=(name,) * 200,
        failures={f"{n}{name}": name for n in range(50)},
        phases=tuple(Phase(name, 1.0, 1) for _ in range(40)),
        finality={"kept": "kept", "said": name, "until": name},
        inventory={"uri": name, "kind": name, "taken_at": name, "filters": name},
        status=RunStatus.PARTLY_SWEPT,
    ).tallied({"deleted": Tally(10, 10), "revived": Tally(5, 5), "failed": Tally(5, 5)})
    garbage = GarbageSummary(
        total,
        {name: total},
        {f"{name}{n}/": Tally(1, 9) for n in range(100)},
        _classes(len(AGES) + 1, total),
        _classes(len(SIZES) + 1, total),
        (LargeObject(name, 5, None, name),) * 100,
    )
    nodes = (CommitNode(name, AT, (name,), False, (name,) * 6),) * 120
    commits = CommitSummary(nodes, (MonthOfCommits(name, 1, 1),) * 61)
    return record, RunSummary(AT, garbage, commits)
