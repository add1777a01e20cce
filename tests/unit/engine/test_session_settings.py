"""Which Python Spark finds on executors."""

from __future__ import annotations

import os
import sys

import pytest

from lakesweep.engine.session_settings import prepare_environment, session_settings

CLUSTER = "spark://host:7077"


@pytest.mark.parametrize(
    ("variable", "setting", "expected"),
    [
        (None, None, sys.executable),
        ("/opt/python", None, "/opt/python"),
        (None, "./environment/bin/python", "./environment/bin/python"),
        ("/opt/python", "./environment/bin/python", "./environment/bin/python"),
    ],
)
def test_the_python_of_executors(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, setting: str | None, expected: str
) -> None:
    """The setting, then the variable, then our own: the order of spark-submit. pyspark alone looks at the variable only."""
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
    monkeypatch.setenv("PYSPARK_PYTHON", variable or "")
    if variable is None:
        monkeypatch.delenv("PYSPARK_PYTHON")
    conf = {"spark.pyspark.python": setting} if setting else {}
    prepare_environment(session_settings(CLUSTER, conf))
    assert os.environ["PYSPARK_PYTHON"] == expected
