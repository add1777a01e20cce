"""The examples name commands, options and fields that exist."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.loaders
import botocore.model
import botocore.validate
import pytest
import typer.main
import yaml

from lakesweep.cli.main import app
from lakesweep.settings.spark_properties import read_properties

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def words_of_commands() -> Iterator[tuple[str, list[str]]]:
    """Every call of lakesweep in the examples, without the program's name."""
    cron = yaml.safe_load((EXAMPLES / "kubernetes/cronjob.yaml").read_text("utf-8"))
    template = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    yield "cronjob", template["containers"][0]["args"]
    bundle = yaml.safe_load((EXAMPLES / "databricks/job.yml").read_text("utf-8"))
    for task in bundle["resources"]["jobs"]["lakesweep"]["tasks"]:
        yield "databricks", task["python_wheel_task"]["parameters"]
    dag = (EXAMPLES / "airflow/lakesweep_dag.py").read_text("utf-8")
    for line in re.findall(r'bash_command=f"lakesweep (.+)"', dag):
        yield "airflow", shlex.split(line)


@pytest.mark.parametrize(("where", "words"), list(words_of_commands()))
def test_every_command_is_one_that_lakesweep_takes(where: str, words: list[str]) -> None:
    """The command's own parser takes the words; nothing is run."""
    command: Any = typer.main.get_command(app)
    found = command.commands[words[0]]
    # A command without its program above it would forget that `-h` means help, for the tests that come after.
    above = command.make_context("lakesweep", [], resilient_parsing=True)
    found.make_context(words[0], list(words[1:]), parent=above)


def test_the_emr_job_is_what_the_service_takes() -> None:
    """By the model of the service's API that botocore brings."""
    asked = json.loads((EXAMPLES / "emr/job.json").read_text("utf-8"))
    model = botocore.loaders.Loader().load_service_model("emr-serverless", "service-2")
    shape = botocore.model.ServiceModel(model).operation_model("StartJobRun").input_shape
    report = botocore.validate.ParamValidator().validate(asked, shape)
    assert not report.has_errors(), report.generate_report()


def test_spark_properties_are_known() -> None:
    """What the examples set is not refused as unknown."""
    text = "".join(path.read_text("utf-8") for path in EXAMPLES.rglob("*") if path.is_file())
    named = set(re.findall(r"spark\.hadoop\.lakefs\.[a-z_.]*[a-z]", text))
    assert named
    read_properties(dict.fromkeys(named, "1"))
