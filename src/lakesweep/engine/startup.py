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

# On one machine the JVM only schedules and moves packed cells: what the second compiler would gain over the length of
# a run is less than half of what it costs at the start (13 s of CPU instead of 6.5 s, measured with the archive).
_COMMON = "-XX:+UseParallelGC -XX:TieredStopAtLevel=1"
_QUIET = "-Xlog:disable -Xlog:all=off:stdout"


def class_archive() -> Path:
    """Where the archive for this JVM and this Spark lies; the JVM ignores one that does not fit."""
    java = find_java_home()
    release = java / "release"
    version = release.read_bytes() if release.exists() else str(java.resolve()).encode()
    key = hashlib.sha256(version + str(java).encode() + str(Path(pyspark.__file__)).encode())
    return cache_folder() / "jvm" / f"spark-{pyspark.__version__}-{key.hexdigest()[:12]}.jsa"


def quick_start_options() -> str:
    """JVM options that use the archive, or none where there is no archive yet."""
    archive = class_archive()
    if not archive.exists():
        return _COMMON
    return (
        f"{_COMMON} -XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off -Xlog:class+path=off"
    )


def archive_making_options() -> tuple[Path, str]:
    """A file to fill, and the JVM options that fill it when that JVM exits."""
    target = class_archive()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}.draft")
    return draft, f"{_COMMON} -XX:ArchiveClassesAtExit={draft} {_QUIET}"
