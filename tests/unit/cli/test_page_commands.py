"""Every command that a page tells its reader to type is one that the program has, with options that it has."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
import typer

from lakesweep.cli.main import app
from lakesweep.collector.record import BACKUP, RunStatus
from lakesweep.domain.verdicts import Tally
from lakesweep.report.accounts import DEFERRED_DELETES
from lakesweep.report.html.commands import commands, what_if_command
from lakesweep_testing.sample_runs import sample_record

RECORD = replace(sample_record(), min_age_lowered=True, backup_to="s3://b/x").tallied(
    {"deleted": Tally(1, 1)}
)
NESSIE = replace(RECORD, what="nessie", repository="http://nessie/api/v2")
RECORDS = {
    "repository": RECORD,
    "no plan": replace(RECORD, plan_id="", run_id=""),
    "backup": replace(RECORD, flow=BACKUP),
    "catalog": NESSIE,
    "recorded files": replace(NESSIE, flow=DEFERRED_DELETES),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_commands_of_a_page_exist(kind: str) -> None:
    """Whatever became of the run."""
    program: Any = typer.main.get_command(app)
    for status in RunStatus:
        record = replace(RECORDS[kind], status=status)
        for line in (*(one.command for one in commands(record)), what_if_command(record)):
            name, *words = shlex.split(line)
            assert name == "lakesweep"
            found, group = program, True
            while group and words and words[0] in found.commands:
                found = found.commands[words.pop(0)]
                group = hasattr(found, "commands")
            assert not group, f"{line}: no such command"
            flags = {flag for p in found.params for flag in (*p.opts, *p.secondary_opts)}
            assert [w for w in words if w.startswith("--") and w not in flags] == [], line
            arguments = [p for p in found.params if p.param_type_name == "argument"]
            needed = [p for p in arguments if p.required]
            assert len([w for w in words if not w.startswith("-")]) >= len(needed), line
