"""Errors that are raised on executors arrive whole, whatever Spark makes of exceptions."""

from __future__ import annotations

import importlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakesweep.engine.spark import SparkEngine
from lakesweep.engine.startup import quick_start_options
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter
from lakesweep.errors import (
    CatalogDeniedError,
    ConfigError,
    FormatError,
    LakesweepError,
    ObjectNotFoundError,
    StorageError,
    UnexpectedError,
    UnsafeToSweepError,
)
from lakesweep.java import find_java_home
from lakesweep.storage.translate import TRANSIENT

pytestmark = pytest.mark.spark

ROW = pa.schema([pa.field("item", pa.int64(), nullable=False)])
MESSAGE = "The range 7 is missing.\n  lakesweep.errors.ConfigError: no words of ours\n\nNothing was deleted."
ERRORS = [
    UnsafeToSweepError(MESSAGE, kind="range-missing"),
    FormatError(MESSAGE),
    ObjectNotFoundError(MESSAGE, kind="container-not-found"),
    CatalogDeniedError(MESSAGE),
]


@pytest.fixture(params=["true", "false"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Spark with its simplified tracebacks on, and off."""
    name = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
    spark.conf.set(name, request.param)
    yield spark
    spark.conf.unset(name)


def _rows(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for item in items:
        yield pa.RecordBatch.from_pydict({"item": [item]}, schema=ROW)


def _rows_then(error: LakesweepError, items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    yield from _rows(items)
    raise error


def _cells(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    for item in items:
        row = {"partition": item % 3, "kind": 1, "blob": b"x"}
        yield pa.RecordBatch.from_pylist([row], schema=CELL_SCHEMA)


def _cells_then(error: LakesweepError, items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    yield from _cells(items)
    raise error


def _fail_first(
    marker: str, error: LakesweepError, items: Iterator[int]
) -> Iterator[pa.RecordBatch]:
    with Path(marker).open("a") as tries:
        tries.write("x")
    yield from _rows(items)
    if Path(marker).read_text() == "x":
        raise error


def _count(left: pa.Table, right: pa.Table) -> pa.Table:
    return pa.table({"item": [left.num_rows + right.num_rows]}, schema=ROW)


def _refuse(error: LakesweepError, left: pa.Table, right: pa.Table) -> pa.Table:
    raise error


def _note(marker: str, left: pa.Table, right: pa.Table) -> pa.Table:
    Path(marker).touch()
    return _count(left, right)


def _assert_whole(caught: LakesweepError, error: LakesweepError) -> None:
    assert (type(caught), caught.kind, caught.message) == (type(error), error.kind, error.message)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.kind)
def test_an_error_of_a_work_function_arrives_whole(
    session: SparkSession, error: LakesweepError
) -> None:
    """Class, kind and every line of the message, also when rows came before it."""
    scatter = Scatter([1, 2, 3], partial(_rows_then, error), ROW, 2)
    with pytest.raises(LakesweepError) as caught:
        SparkEngine(session).collect(scatter)
    _assert_whole(caught.value, error)


def test_an_error_of_a_meeting_arrives_whole(session: SparkSession) -> None:
    """A meeting that finds damage says so as a work function does."""
    cells = Scatter([1, 2, 3], _cells, CELL_SCHEMA, 2)
    with pytest.raises(LakesweepError) as caught:
        SparkEngine(session).meet(cells, cells, partial(_refuse, ERRORS[0]), ROW, 3)
    _assert_whole(caught.value, ERRORS[0])


def test_no_meeting_is_held_when_a_side_came_with_an_error(
    session: SparkSession, tmp_path: Path
) -> None:
    """With half of what is live at hand, every verdict would be a guess: the error goes to each partition."""
    cells = Scatter([0, 1, 2], _cells, CELL_SCHEMA, 2)
    broken = Scatter([0], partial(_cells_then, ERRORS[0]), CELL_SCHEMA, 1)
    marker = tmp_path / "met"
    for left, right in ((cells, broken), (broken, cells)):
        with pytest.raises(LakesweepError) as caught:
            SparkEngine(session).meet(left, right, partial(_note, str(marker)), ROW, 3)
        _assert_whole(caught.value, ERRORS[0])
    assert not marker.exists()


def test_a_store_out_of_reach_is_tried_once_more_elsewhere(
    session: SparkSession, tmp_path: Path
) -> None:
    """The next try of the task may run where the store can be reached; its rows count once."""
    marker = str(tmp_path / "tries")
    error = StorageError("reading part-1 failed: no route", kind=TRANSIENT)
    work = partial(_fail_first, marker, error)
    rows = SparkEngine(session).collect(Scatter([1, 2], work, ROW, 1))
    assert rows.column("item").to_pylist() == [1, 2]
    assert Path(marker).read_text() == "xx"


def test_a_store_that_stays_out_of_reach_arrives_whole(session: SparkSession) -> None:
    """After the second try it is told as it is."""
    error = StorageError("reading part-1 failed: no route\nTry later.", kind=TRANSIENT)
    with pytest.raises(StorageError) as caught:
        SparkEngine(session).collect(Scatter([1], partial(_rows_then, error), ROW, 1))
    _assert_whole(caught.value, error)


def test_doubt_is_not_tried_again(session: SparkSession, tmp_path: Path) -> None:
    """A damaged file is damaged on every machine."""
    marker = str(tmp_path / "tries")
    work = partial(_fail_first, marker, ERRORS[0])
    with pytest.raises(UnsafeToSweepError):
        SparkEngine(session).collect(Scatter([1], work, ROW, 1))
    assert Path(marker).read_text() == "x"


def _bug(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    yield from _rows(items)
    raise ZeroDivisionError("seven\nlives")


def _not_installed(items: Iterator[int]) -> Iterator[pa.RecordBatch]:
    yield from _rows(items)
    importlib.import_module("no_such_package.inside")


def test_a_bug_on_an_executor_says_what_it_was(session: SparkSession) -> None:
    """Not only that something was thrown."""
    with pytest.raises(UnexpectedError, match="ZeroDivisionError: seven") as caught:
        SparkEngine(session).collect(Scatter([1], _bug, ROW, 1))
    assert caught.value.__cause__ is not None
    assert caught.value.exit_status == 1


def test_a_package_that_executors_lack_is_a_matter_of_set_up(session: SparkSession) -> None:
    """It names the package, the Python that lacks it and what to set."""
    with pytest.raises(ConfigError) as caught:
        SparkEngine(session).collect(Scatter([1], _not_installed, ROW, 1))
    assert caught.value.kind == "executors-not-set-up"
    assert "without no_such_package" in caught.value.message
    assert f"{sys.executable} {platform.python_version()}" in caught.value.message
    assert "PYSPARK_PYTHON" in caught.value.message
    assert "--archives" in caught.value.message


def _python_without_lakesweep(folder: Path) -> Path:
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "class NotHere:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'lakesweep':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, NotHere())\n"
    )
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={folder}:$PYTHONPATH exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("is_there", [True, False])
def test_executors_with_another_python_are_a_matter_of_set_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """A Python without lakesweep, or none at all: exit 2, and which one it was."""
    program = _python_without_lakesweep(tmp_path / "other")
    if not is_there:
        program.unlink()
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(program))
    with pytest.raises(ConfigError) as caught:
        SparkEngine(spark).collect(Scatter([1], _rows, ROW, 1))
    assert caught.value.exit_status == 2
    said = "without lakesweep" if is_there else f"can't start {program}"
    assert said in caught.value.message
    assert f"Spark starts {program}" in caught.value.message


_SESSION_OF_A_USER = """
import sys
from pyspark.sql import SparkSession
from lakesweep.engine.rehearsal import cells
from lakesweep.engine.spark import SparkEngine
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter
from lakesweep.errors import ConfigError

options = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": sys.argv[1]}
spark = SparkSession.builder.master("local[1]").config(map=options).getOrCreate()
try:
    SparkEngine(spark).collect(Scatter([1], cells, CELL_SCHEMA, 1))
except ConfigError as error:
    print(error.message)
"""


def test_a_session_of_the_users_own_names_the_python_of_its_executors(tmp_path: Path) -> None:
    """Its workers start as Spark's own do, and fail when they unpack what they are sent."""
    program = _python_without_lakesweep(tmp_path / "other")
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": str(program),
        "JAVA_HOME": str(find_java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", _SESSION_OF_A_USER, quick_start_options()],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "The executors have a Python without lakesweep" in done.stdout
    assert f"{sys.executable} {platform.python_version()} on " in done.stdout
