"""The archive of classes belongs to one Java and one Spark, as they are now."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakesweep.engine.startup import class_archive, outdated_archives, spark_home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark of one jar, and a cache folder of our own."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "spark-core.jar").write_bytes(b"jar")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("LAKESWEEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "spark"


def test_another_spark_in_the_same_place_has_another_archive(home: Path) -> None:
    """The JVM would refuse the old one at every start; it is known as outdated, and others' archives are not."""
    before = class_archive()
    assert class_archive() == before
    jar = home / "jars" / "spark-core.jar"
    os.utime(jar, ns=(1, 1))
    after = class_archive()
    assert after != before
    before.parent.mkdir(parents=True)
    other = before.with_name("spark-4.0.0-0123456789ab-0123456789ab.jsa")
    for archive in (before, after, other):
        archive.touch()
    assert outdated_archives(after) == [before]


def test_spark_is_where_the_environment_says(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else where pyspark is installed, which need not be loaded for it."""
    assert spark_home() == home
    monkeypatch.delenv("SPARK_HOME")
    found = spark_home()
    assert found is not None
    assert (found / "bin" / "spark-submit").exists()


def test_little_is_loaded_before_the_jvm_is_on_its_way() -> None:
    """Settings and the launch know nothing of stores and columns, which take longer to load than all else."""
    program = (
        "import sys, lakesweep.cli.main, lakesweep.settings.load, lakesweep.engine.jvm; "
        "print(sorted({'pyarrow', 'numpy', 'botocore', 'obstore', 'httpx', 'pyspark'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
