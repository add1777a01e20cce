"""A JVM that is started ahead serves the session that comes, and is gone where none does."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lakesweep.engine.rehearsal import make_class_archive
from lakesweep.engine.startup import quick_start_options
from lakesweep.java import find_java_home

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(200)]

JVMS = """
import psutil

def started():
    family = psutil.Process().children(recursive=True)
    return [p.pid for p in family if p.status() != psutil.STATUS_ZOMBIE]

def jvms():
    return [pid for pid in started() if psutil.Process(pid).name() == "java"]
"""


def run(program: str, temporary: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A program of its own: this one may have a JVM already."""
    return subprocess.run(
        [sys.executable, "-c", JVMS + program],
        env={**os.environ, "TMPDIR": str(temporary), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def left_over(temporary: Path) -> list[int]:
    """Processes whose words name a file of the program's own folder, a moment after it ended."""
    _, alive = psutil.wait_procs(
        [p for p in psutil.process_iter() if any(str(temporary) in w for w in words_of(p))], 30
    )
    return [process.pid for process in alive]


def words_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def test_a_session_takes_the_jvm_that_is_there(short_folder: Path) -> None:
    """One JVM for both, which goes when the program does; nothing of it is on stdout, no warning of Java's, and no file stays."""
    done = run(
        """
from lakesweep.engine.jvm import jvm_ahead
with jvm_ahead("local[1]", {"spark.app.id": "early"}):
    before = started()
    from lakesweep.engine.session import build_session
    session = build_session(master="local[1]", conf={"spark.app.id": "early"})
    assert session.range(3).count() == 3
assert session.range(4).count() == 4, "it is there for as long as it is needed"
[jvm] = jvms()
print(jvm in before, jvm)
""",
        short_folder,
    )
    assert done.returncode == 0, done.stderr
    is_same, pid = done.stdout.split()
    assert is_same == "True"
    assert "incubator" not in done.stderr
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(pid)).wait(100)
    assert not left_over(short_folder)
    assert not [path.name for path in short_folder.glob("lakesweep-jvm-*")]


PARENTS = """
import os
import pyarrow as pa
def parents(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"parent": [os.getppid()]})
def parent_of_worker(session):
    [row] = session.range(0, 1, 1, 1).mapInArrow(parents, "parent long").collect()
    return row.parent
"""


def test_workers_are_forked_from_the_process_that_was_started_ahead(short_folder: Path) -> None:
    """It has loaded by the time that Spark asks for a worker, and goes when Spark does."""
    done = run(
        PARENTS
        + """
from lakesweep.engine.jvm import jvm_ahead
with jvm_ahead("local[1]", {}):
    [ahead] = [c for c in psutil.Process().children() if "lakesweep.engine.workers_ahead" in c.cmdline()]
    from lakesweep.engine.session import build_session
    session = build_session(master="local[1]")
assert parent_of_worker(session) == ahead.pid
print(ahead.pid)
""",
        short_folder,
    )
    assert done.returncode == 0, done.stderr
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(100)


def test_if_the_process_ahead_has_died_workers_come_from_another(short_folder: Path) -> None:
    """It only saves time."""
    done = run(
        PARENTS
        + """
from lakesweep.engine.jvm import jvm_ahead
with jvm_ahead("local[1]", {}):
    [ahead] = [c for c in psutil.Process().children() if "lakesweep.engine.workers_ahead" in c.cmdline()]
    ahead.kill()
    from lakesweep.engine.session import build_session
    session = build_session(master="local[1]")
assert parent_of_worker(session) != ahead.pid
""",
        short_folder,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.search
def test_a_session_with_other_settings_starts_its_own(short_folder: Path) -> None:
    """Settings of the JVM can't be changed once it runs."""
    done = run(
        """
from lakesweep.engine.jvm import jvm_ahead
with jvm_ahead("local[1]", {}):
    before = started()
    from lakesweep.engine.session import build_session
    session = build_session(master="local[1]", conf={"spark.driver.memory": "600m"})
    assert session.sparkContext.getConf().get("spark.driver.memory") == "600m"
assert not set(before) & set(started()), "the first was of no use to anybody"
print(len(jvms()))
""",
        short_folder,
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_a_jvm_that_nobody_takes_is_ended(short_folder: Path) -> None:
    """A command that is refused leaves no JVM and no file behind, and does not wait for it."""
    done = run(
        """
from lakesweep.engine.jvm import jvm_ahead
try:
    with jvm_ahead("local[1]", {}):
        assert started(), "it was started"
        raise ValueError("refused")
except ValueError:
    print(started())
""",
        short_folder,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert not left_over(short_folder)
    assert not list(short_folder.glob("lakesweep-jvm-*"))


def test_a_jvm_that_dies_is_told_by_pyspark(short_folder: Path) -> None:
    """Wrong options are refused by the JVM itself; what it says is on stderr."""
    done = run(
        """
from lakesweep.engine.jvm import jvm_ahead
wrong = {"spark.driver.extraJavaOptions": "-Xms5g"}
with jvm_ahead("local[1]", wrong):
    from lakesweep.engine.session import build_session
    build_session(master="local[1]", conf=wrong)
""",
        short_folder,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "heap size" in done.stderr
    assert "JAVA_GATEWAY_EXITED" in done.stderr
    assert not left_over(short_folder)


def test_where_no_java_is_nothing_is_started_ahead(short_folder: Path) -> None:
    """Whoever needs Spark is told; a command that is refused before is not held up by it."""
    done = run(
        """
import lakesweep.engine.session_settings as settings
from lakesweep.errors import ConfigError
def none():
    raise ConfigError("no Java")
settings.find_java_home = none
from lakesweep.engine.jvm import jvm_ahead
with jvm_ahead("local[1]", {}):
    print(started())
""",
        short_folder,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_an_archive_that_does_not_fit_is_passed_over_in_silence(short_folder: Path) -> None:
    """A JVM that finds other classes than the archive was made of says so on stdout, where results are."""
    archive = make_class_archive()
    assert archive is not None
    java = find_java_home() / "bin" / "java"

    def start(*words: str) -> str:
        command = [str(java), *words, "-cp", str(short_folder), "-version"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    assert "[warning][cds" in start(f"-XX:SharedArchiveFile={archive}")
    options = quick_start_options().split()
    assert f"-XX:SharedArchiveFile={archive}" in options
    assert start(*options) == ""
