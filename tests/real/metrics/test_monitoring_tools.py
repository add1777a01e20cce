"""Alerts, metrics and dashboard, read by the tools of Prometheus and by the types of Grafana."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from lakesweep.collector.record import Phase, RunRecord, RunStatus
from lakesweep.domain.verdicts import Tally
from lakesweep.metrics.outcome import RunOutcome
from lakesweep.metrics.prometheus import write_metrics_file
from lakesweep.metrics.values import run_samples
from lakesweep_testing.real_parts import GRAFANA_TYPES, PROMTOOL

MONITORING = Path(__file__).resolve().parents[3] / "examples" / "monitoring"
ALERTS = MONITORING / "alerts.yml"
LABELS = 'catalog="lakefs", repository="shop", command="gc"'

pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]


def promtool(*words: str | Path, stdin: str = "") -> tuple[int, str]:
    done = subprocess.run(
        [PROMTOOL.file(), *words], input=stdin, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def firing(series: dict[str, str], after: str, folder: Path) -> set[str]:
    """The alerts that Prometheus fires for shop: its test of rules is told to expect none, and names those it got."""
    rules = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"][0]["rules"]
    asked = [{"eval_time": after, "alertname": rule["alert"], "exp_alerts": []} for rule in rules]
    case = {
        "interval": "10m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": asked,
    }
    file = folder / "case.yml"
    rare = {"evaluation_interval": "10m"}
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [case], **rare}))
    status, said = promtool("test", "rules", file)
    found = set(re.findall(r'alertname="(\w+)".*repository="shop"', said))
    assert (status == 0) == (not found), said
    return found


def test_prometheus_reads_the_alerts() -> None:
    """Its own check of rule files finds nothing wrong."""
    status, said = promtool("check", "rules", ALERTS)
    assert status == 0, said


@pytest.mark.parametrize(
    ("series", "after", "alert"),
    [
        ({f"lakesweep_last_run_exit_status{{{LABELS}}}": "4x20"}, "10m", "LakesweepRefused"),
        ({f"lakesweep_last_run_exit_status{{{LABELS}}}": "5x200"}, "2h", "LakesweepNotComplete"),
        ({f"lakesweep_last_run_exit_status{{{LABELS}}}": "5x200"}, "30m", ""),
        ({f"lakesweep_last_success_timestamp_seconds{{{LABELS}}}": "0x1200"}, "8d", "LakesweepNoGoodRun"),
        ({f"lakesweep_last_success_timestamp_seconds{{{LABELS}}}": "0x1200"}, "6d", ""),
        ({f"lakesweep_last_run_timestamp_seconds{{{LABELS}}}": "0x600"}, "3d", "LakesweepNeverGood"),
        (
            {
                f"lakesweep_oldest_garbage_age_seconds{{{LABELS}}}": "8640000x300",
                f'lakesweep_deletes{{{LABELS}, outcome="deleted"}}': "0x300",
            },
            "25h",
            "LakesweepOldGarbage",
        ),
    ],
)  # fmt: skip
def test_alerts_fire_when_they_should(
    series: dict[str, str], after: str, alert: str, tmp_path: Path
) -> None:
    """And no other does; metrics that stand side by side in an expression meet by their labels."""
    assert firing(series, after, tmp_path) == ({alert} if alert else set())


def test_prometheus_reads_the_metrics_file(tmp_path: Path) -> None:
    """A whole run, as `--metrics-file` leaves it."""
    ended = datetime(2026, 3, 1, 12, tzinfo=UTC)
    began = ended - timedelta(seconds=10)
    record = RunRecord(
        *("shop", "run-1", "mark-1", "all", "clean", RunStatus.SWEPT, began),
        oldest_garbage=ended - timedelta(days=40),
    ).tallied({"listed": Tally(100, 1000), "garbage": Tally(42, 420), "deleted": Tally(42, 420)})
    outcome = RunOutcome(
        *("gc", "lakefs", "shop", began, ended),
        record=record,
        phases=(Phase("list", 2.0, 100, 0.5, 1000),),
        phases_began_at=began,
    )
    file = tmp_path / "shop.prom"
    write_metrics_file(file, run_samples(outcome))
    assert promtool("check", "metrics", stdin=file.read_text()) == (0, "")


def test_grafana_takes_the_dashboard(tmp_path: Path) -> None:
    """Every field is one that the types of its package have, with a value that they allow."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))
    written = (
        "type Written<T> = T extends string ? `${T}` : T extends (infer U)[] ? Written<U>[] :\n"
        "  T extends object ? { [K in keyof T]: Written<T[K]> } : T;\n"
    )
    options = {"strict": True, "noEmit": True, "skipLibCheck": True, "types": []}
    modules = {"module": "nodenext", "moduleResolution": "nodenext"}
    (tmp_path / "node_modules").symlink_to(GRAFANA_TYPES.folder / "node_modules")
    (tmp_path / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": {**options, **modules}, "files": ["dashboard.ts"]})
    )
    (tmp_path / "dashboard.ts").write_text(
        f"import type {{ Dashboard }} from '@grafana/schema';\n{written}"
        f"export const dashboard: Written<Partial<Dashboard>> = {json.dumps(dashboard)};\n"
    )
    tsc = GRAFANA_TYPES.file("node_modules/typescript/bin/tsc")
    done = subprocess.run(
        [tsc, "-p", tmp_path], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout
