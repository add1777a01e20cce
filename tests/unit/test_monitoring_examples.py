"""Alerts, dashboard, timers and their page name metrics, labels, kinds and commands that exist, in expressions that parse."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from lakesweep.cli.main import app
from lakesweep.collector.record import COUNTERS, RunStatus
from lakesweep.metrics.values import METRICS, OUTCOMES

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ALERTS = yaml.safe_load((EXAMPLES / "monitoring/alerts.yml").read_text("utf-8"))
DASHBOARD = json.loads((EXAMPLES / "monitoring/dashboard.json").read_text("utf-8"))
NAMES = {metric.name for metric in METRICS}
RUN_LABELS = {"catalog", "repository", "command"}
KINDS = {
    kind
    for group in tomllib.loads((ROOT / "docs/reference/errors.toml").read_text("utf-8")).values()
    for kind in group
}
LABEL_VALUES = {
    "state": set(COUNTERS) - set(OUTCOMES),
    "outcome": set(OUTCOMES),
    "status": {status.value for status in RunStatus},
    "kind": KINDS,
}
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS = DASHBOARD["panels"]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [
    target["expr"] for panel in PANELS for target in panel["targets"]
]


class PromQL:
    """A parser for the part of PromQL that the examples use; raises ValueError where an expression is none."""

    TOKEN = re.compile(
        r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<duration>\d+(?:ms|[smhdwy])\b)|(?P<number>\d+(?:\.\d+)?)'
        r"|(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)|(?P<op>==|!=|>=|<=|=~|!~|[-+*/%^(){},=<>]))"
    )
    LEVELS = (
        {"or"},
        {"and", "unless"},
        {"==", "!=", ">", "<", ">=", "<="},
        {"+", "-"},
        {"*", "/", "%"},
        {"^"},
    )

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            found = self.TOKEN.match(text, at)
            if found is None:
                raise ValueError(f"no token at {text[at:]!r}")
            self.tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        self.at = 0
        self.selectors: list[tuple[str, dict[str, str]]] = []
        self.joins_on_labels = False
        self.parse(0)
        if self.at != len(self.tokens):
            raise ValueError(f"something is left: {self.tokens[self.at :]}")

    def next(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        kind, text = self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")
        if wanted and text not in wanted and kind not in wanted:
            raise ValueError(f"{wanted} expected, {text!r} found")
        self.at += 1
        return text

    def parse(self, level: int) -> None:
        if level == len(self.LEVELS):
            return self.parse_one()
        self.parse(level + 1)
        while self.next() in self.LEVELS[level]:
            is_set = self.take() in ("and", "or", "unless")
            if self.next() in ("on", "ignoring"):
                self.joins_on_labels |= is_set
                self.take()
                self.take("(")
                while self.take("name") and self.next() == ",":
                    self.take()
                self.take(")")
            self.parse(level + 1)
        return None

    def parse_one(self) -> None:
        if self.next() == "(":
            self.take()
            self.parse(0)
            self.take(")")
        elif self.next()[:1].isdigit():
            self.take("number")
        else:
            name = self.take("name")
            if self.next() == "(":
                if name != "time":
                    raise ValueError(f"the function {name} is not known here")
                self.take()
                self.take(")")
                return
            self.selectors.append((name, self.matchers()))
        if self.next() == "offset":
            self.take()
            self.take("duration")

    def matchers(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self.next() == "{":
            self.take()
            while self.next() != "}":
                label, _, value = (
                    self.take("name"),
                    self.take("=", "!=", "=~", "!~"),
                    self.take("string"),
                )
                found[label] = value[1:-1]
                if self.next() == ",":
                    self.take()
            self.take("}")
        return found


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_parse_and_name_what_is_exported(expression: str) -> None:
    """Every metric, every label, and every value of a label that is ours."""
    parsed = PromQL(expression)
    assert parsed.selectors
    if re.search(r" (and|unless) ", expression):
        # Series of two metrics have different labels, and would never meet.
        assert parsed.joins_on_labels or len({name for name, _ in parsed.selectors}) == 1
    for name, matchers in parsed.selectors:
        assert name in NAMES
        for label, text in matchers.items():
            if label in RUN_LABELS:
                continue
            assert set(text.split("|")) <= LABEL_VALUES[label], (label, text)


@pytest.mark.parametrize("wrong", ["a >", "a{b=c}", "(a", "a b", "sum(a)", 'a{b="c"', "a offset b"])
def test_the_parser_notices_what_is_no_expression(wrong: str) -> None:
    """Otherwise the test above would prove nothing."""
    with pytest.raises(ValueError):
        PromQL(wrong)


def test_alerts_have_the_shape_of_rules() -> None:
    """The fields that Prometheus knows; names once; labels that the metrics have."""
    assert set(ALERTS) == {"groups"}
    assert all(set(group) == {"name", "rules"} for group in ALERTS["groups"])
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[mhd]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert used <= RUN_LABELS, rule["alert"]


def test_what_must_be_alerted_on_is() -> None:
    """No good run, refused, not complete, failed keys, clocks, growing garbage."""
    texts = [rule["expr"] for rule in RULES]
    for wanted in (
        r"^time\(\) - lakesweep_last_success_timestamp_seconds > \d+ \* 86400$",
        r"^lakesweep_last_run_exit_status == 4$",
        r"^lakesweep_last_run_exit_status == 5$",
        r'^lakesweep_deletes\{outcome="failed"\} > 0$',
        r'^lakesweep_last_run_error\{kind="clock-skew"\} == 1$',
        r'state="garbage"\} offset 7d',
    ):
        assert any(re.search(wanted, text) for text in texts), wanted


def test_the_dashboard_has_the_shape_that_grafana_reads() -> None:
    """Ids once, panels beside each other in 24 columns, variables that are declared."""
    assert {"uid", "title", "schemaVersion", "panels", "templating", "time"} <= set(DASHBOARD)
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        assert panel["type"] in ("stat", "table", "timeseries")
        assert panel["title"]
        assert panel["description"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert [target["refId"] for target in panel["targets"]] == ["A"]
    declared = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(PANELS) + str(DASHBOARD["templating"])))
    assert used - {"__all"} <= declared


def test_the_page_lists_every_metric() -> None:
    """And no other."""
    page = (ROOT / "docs/how-to/monitor.md").read_text("utf-8")
    assert set(re.findall(r"\blakesweep_[a-z_]+", page)) == NAMES


def scheduled_commands() -> Iterator[tuple[str, str]]:
    """The command lines of timers and cron."""
    unit = (EXAMPLES / "systemd/lakesweep@.service").read_text("utf-8")
    yield "systemd", re.findall(r"^ExecStart=(.+)$", unit, re.M)[0].replace("%i", "example-repo")
    cron = (EXAMPLES / "cron/lakesweep").read_text("utf-8").splitlines()
    (line,) = [line for line in cron if re.match(r"[\d*]", line)]
    *when, user, command = line.split(maxsplit=6)
    assert len(when) == 5
    assert user == "lakesweep"
    yield "cron", command.partition(">")[0]


@pytest.mark.parametrize(("where", "line"), list(scheduled_commands()))
def test_scheduled_commands_are_taken(where: str, line: str) -> None:
    """By the command's own parser; nothing is run."""
    program, name, *words = shlex.split(line)
    assert program == "/opt/lakesweep/bin/lakesweep"
    command: Any = typer.main.get_command(app)
    # A command without its program above it would forget that `-h` means help, for the tests that come after.
    above = command.make_context("lakesweep", [], resilient_parsing=True)
    command.commands[name].make_context(name, words, parent=above)


def test_units_belong_together() -> None:
    """A stop is an interrupt, after which a run can be resumed; nothing else may be written to."""
    unit, timer = (configparser.ConfigParser(strict=False, interpolation=None) for _ in range(2))
    unit.optionxform = timer.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(EXAMPLES / "systemd/lakesweep@.service")
    timer.read(EXAMPLES / "systemd/lakesweep@.timer")
    assert unit["Service"]["Type"] == "oneshot"
    assert unit["Service"]["KillSignal"] == "SIGINT"
    assert timer["Install"]["WantedBy"] == "timers.target"
    assert "OnCalendar" in timer["Timer"]
    text = (EXAMPLES / "systemd/lakesweep@.service").read_text("utf-8")
    cron = (EXAMPLES / "cron/lakesweep").read_text("utf-8")
    files = re.findall(r"LAKESWEEP_METRICS_FILE=(\S+)", text + cron)
    writable = unit["Service"]["ReadWritePaths"]
    assert all(file.startswith(f"{writable}/") and file.endswith(".prom") for file in files)
    variables = set(re.findall(r"\b(LAKESWEEP_[A-Z_]+)=", text + cron))
    assert variables == {"LAKESWEEP_CONFIG", "LAKESWEEP_METRICS_FILE", "LAKESWEEP_CACHE"}
    assert len(files) == 2
