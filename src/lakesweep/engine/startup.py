"""A quicker JVM start on one machine: an archive of Spark's loaded classes, made once and kept in the cache folder."""

from __future__ import annotations

import hashlib
import os
from importlib.util import find_spec
from pathlib import Path

from lakesweep.cachefolder import cache_folder
from lakesweep.engine.pyspark_internals import pyspark_version
from lakesweep.java import find_java_home

# Without the JVM's second compiler a start costs half the CPU (6.5 s instead of 13 s on the machine it was measured
# on). The JVM only schedules and moves packed cells here; `--conf spark.driver.extraJavaOptions=…` takes its place.
# Left to itself it takes a heap by the machine's size and fills it before it first cleans up.
_COMMON = "-XX:TieredStopAtLevel=1 -Xms64m"
# Few cores: one thread cleans up a small nursery often, and the JVM stays 100 MiB smaller. Many: threads share it.
_FEW_CORES = 4
_FEW, _MANY = "-XX:+UseSerialGC -Xmn48m", "-XX:+UseParallelGC"
# What the JVM says of itself, of an archive that does not fit for one, must not get between our results.
_QUIET = "-Xlog:disable -Xlog:all=off:stdout"


def class_archive() -> Path:
    """Where the archive for this JVM and this Spark lies. The JVM refuses one made of other files than it finds."""
    java = find_java_home()
    release = java / "release"
    runtime = release.read_bytes() if release.exists() else str(java.resolve()).encode()
    jars = (spark_home() or Path()) / "jars"
    place = _digest(runtime, str(java).encode(), str(jars).encode())
    # Another Spark in the same place has other times or sizes, by which the JVM goes too.
    facts = sorted((jar.name, jar.stat()) for jar in jars.glob("*.jar"))
    state = _digest(*(f"{name} {s.st_size} {s.st_mtime_ns}".encode() for name, s in facts))
    return cache_folder() / "jvm" / f"spark-{pyspark_version()}-{place}-{state}.jsa"


def outdated_archives(archive: Path) -> list[Path]:
    """Archives of the same Java and Spark as they were before: nobody can use them any more."""
    place, _, _ = archive.stem.rpartition("-")
    return [old for old in archive.parent.glob(f"{place}-*.jsa") if old != archive]


def quick_start_options() -> str:
    """JVM options for a session of our own on one machine: quiet, and quick where the archive is there."""
    options = [_manner()]
    log_settings = Path(__file__).with_name("log4j2.properties")
    if _fits_on_command_line(log_settings):
        options.append(f"-Dlog4j2.configurationFile={log_settings.as_uri()}")
    archive = class_archive()
    if archive.exists() and _fits_on_command_line(archive):
        options.append(f"-XX:SharedArchiveFile={archive} -Xshare:auto")
    return " ".join(options)


def spark_home() -> Path | None:
    """Where pyspark looks for Spark's programs, found without loading pyspark; None where there is no Spark."""
    named = os.environ.get("SPARK_HOME")
    spec = None if named else find_spec("pyspark")
    if named:
        return Path(named)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def _manner() -> str:
    """How the JVM runs: the same for the one that makes the archive and those that use it."""
    return f"{_COMMON} {_FEW if (os.cpu_count() or 1) <= _FEW_CORES else _MANY} {_QUIET}"


def _fits_on_command_line(path: Path) -> bool:
    # Spark splits the options at spaces.
    return not any(character.isspace() for character in str(path))


def archive_making_options() -> tuple[Path, str]:
    """A file to fill, and the JVM options that fill it when that JVM exits."""
    target = class_archive()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}.draft")
    return draft, f"{_manner()} -XX:ArchiveClassesAtExit={draft}"
