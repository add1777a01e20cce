"""A quicker JVM start on one machine: an archive of Spark's loaded classes, made once and kept in the cache folder."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

import pyspark

from lakesweep.cachefolder import cache_folder
from lakesweep.java import find_java_home

logger = logging.getLogger(__name__)

# Without the JVM's second compiler a start costs half the CPU (6.5 s instead of 13 s on the machine it was measured
# on). The JVM only schedules and moves packed cells here; `--conf spark.driver.extraJavaOptions=…` takes its place.
# Left to itself it takes a heap by the machine's size and fills it before it first cleans up.
_COMMON = "-XX:+UseParallelGC -XX:TieredStopAtLevel=1 -Xms64m"
_QUIET = "-Xlog:disable -Xlog:all=off:stdout"


def class_archive() -> Path:
    """Where the archive for this JVM and this Spark lies; the JVM ignores one that does not fit."""
    java = find_java_home()
    release = java / "release"
    version = release.read_bytes() if release.exists() else str(java.resolve()).encode()
    key = hashlib.sha256(version + str(java).encode() + str(Path(pyspark.__file__)).encode())
    return cache_folder() / "jvm" / f"spark-{pyspark.__version__}-{key.hexdigest()[:12]}.jsa"


def quick_start_options() -> str:
    """JVM options for a session of our own on one machine: quiet, and quick where the archive is there."""
    options = [_COMMON]
    log_settings = Path(__file__).with_name("log4j2.properties")
    if _fits_on_command_line(log_settings):
        options.append(f"-Dlog4j2.configurationFile={log_settings.as_uri()}")
    archive = class_archive()
    if archive.exists() and _fits_on_command_line(archive):
        options.append(f"-XX:SharedArchiveFile={archive} -Xshare:auto")
        options.append("-Xlog:cds=off -Xlog:class+path=off")
    return " ".join(options)


def _fits_on_command_line(path: Path) -> bool:
    # Spark splits the options at spaces.
    return not any(character.isspace() for character in str(path))


def archive_making_options() -> tuple[Path, str]:
    """A file to fill, and the JVM options that fill it when that JVM exits."""
    target = class_archive()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}.draft")
    return draft, f"{_COMMON} -XX:ArchiveClassesAtExit={draft} {_QUIET}"
