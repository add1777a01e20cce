"""Pack a Python that runs lakesweep into dist/environment.tar.gz, for nodes of a cluster that have neither.

    python tools/packed_env.py [--extras spark,nessie,…] [--output dist/environment.tar.gz]

Spark unpacks it on every node (`--archives dist/environment.tar.gz#environment`) and starts `./environment/bin/python`.
In it are the interpreter that runs this tool, its standard library, lakesweep, and the packages that lakesweep and the
extras need, each at the version of constraints.txt, taken from this environment. Spark is not in it: a cluster has its
own. A virtual environment would not do: its Python is a link to one that must lie at the same place on every node.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
EXTRAS = "spark,nessie,postgres,otel"
# A cluster brings its own, and its Python half must be that of its jars.
OF_THE_CLUSTER = frozenset({"pyspark", "py4j"})
# Parts of the standard library that no collector uses: tests, teaching, windows, building.
_LEFT_OUT = re.compile(
    r"(test|idlelib|tkinter|turtledemo|ensurepip|lib2to3|site-packages|dist-packages|config-.*)"
)
# Large folders of packages that only their own tests and compilers use.
_UNUSED = ("pandas/tests/", "numba/tests/", "pyarrow/tests/", "pyarrow/include/", "pyarrow/src/")

# Spark starts it from any folder, with its own PYTHONPATH. Python finds its library by where it lies; its packages it
# finds by this, since some builds of Python look for them under other names. numba would look for code that it compiled
# under a name made of the whole path, which is another one on every node: beside the sources it finds what we compiled.
_LAUNCHER = f"""#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd) || exit 1
export LD_LIBRARY_PATH="$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export PYTHONPATH="$here/lib/{VERSION}/site-packages${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONNOUSERSITE=1
export NUMBA_CACHE_LOCATOR_CLASSES=InTreeCacheLocator
exec "$here/bin/{VERSION}" "$@"
"""
# What a node asks of it first, where nothing of this machine's Python may answer.
_CHECK = """
import os, sys
import lakesweep.engine.tasks, lakesweep.formats.jit, lakesweep.storage.s3.backend
known = (sys.argv[1] + os.sep, os.environ["PYTHONPATH"].split(os.pathsep)[-1])
outside = [p for p in (os.__file__, *sys.path) if p and not os.path.abspath(p).startswith(known)]
sys.exit(f"it looks for its files in {', '.join(outside)}" if outside else 0)
"""


class CannotPackError(Exception):
    """Says what is wrong and what to do about it."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--extras", default=EXTRAS, help=f"of lakesweep ({EXTRAS})")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "environment.tar.gz")
    # A tenth larger than by the usual 9, and ready in a third of the time.
    parser.add_argument("--compression", type=int, default=3, help="from 0 (none, quick) to 9 (3)")
    options = parser.parse_args()
    try:
        extras = options.extras.split(",") if options.extras else []
        pack(options.output, extras, options.compression)
    except CannotPackError as problem:
        print(f"packed_env: {problem}", file=sys.stderr)
        return 2
    return 0


def pack(archive: Path, extras: Iterable[str], compression: int) -> None:
    """Write the archive; one that was there before stays until the new one is whole."""
    if not archive.name.endswith(".tar.gz"):
        raise CannotPackError(
            f"{archive.name} does not end in .tar.gz: only such archives are unpacked with the right to run programs."
        )
    began = time.monotonic()
    folder = archive.with_name(f"{archive.name}.{os.getpid()}") / "environment"
    draft = archive.with_name(f"{archive.name}.{os.getpid()}.draft")
    folder.mkdir(parents=True)
    try:
        fill(folder, needed_packages("lakesweep", extras))
        check(folder)
        with tarfile.open(draft, "w:gz", compresslevel=compression) as tar:
            for entry in sorted(folder.iterdir()):
                tar.add(entry, entry.name, filter=_of_nobody)
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)
        shutil.rmtree(folder.parent)
    size, seconds = archive.stat().st_size >> 20, time.monotonic() - began
    print(f"{archive}: {size} MiB, {VERSION} of {sysconfig.get_platform()}, {seconds:.0f} s")


def needed_packages(name: str, extras: Iterable[str]) -> list[Distribution]:
    """What is installed for `name` with `extras`, itself included and Spark not, at the pinned versions."""
    pins = _pins()
    todo = [(canonicalize_name(name), ("", *extras))]
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    while todo:
        package, wanted = todo.pop()
        if package in OF_THE_CLUSTER:
            continue
        found[package] = _installed(package, pins)
        for extra in wanted:
            if (package, extra) in seen:
                continue
            seen.add((package, extra))
            for requirement in map(Requirement, found[package].requires or []):
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                    todo.append((canonicalize_name(requirement.name), ("", *requirement.extras)))
    return list(found.values())


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return {
        canonicalize_name(name): pin for name, _, pin in (line.partition("==") for line in lines)
    }


def _installed(package: str, pins: dict[str, str]) -> Distribution:
    try:
        found = distribution(package)
    except PackageNotFoundError as error:
        raise CannotPackError(f"{package} is not installed here. Run `make setup`.") from error
    pin = pins.get(package, found.version)
    if found.version != pin:
        raise CannotPackError(
            f"{package} is {found.version} here, and constraints.txt says {pin}. Run `make setup`."
        )
    return found


def fill(folder: Path, packages: Iterable[Distribution]) -> None:
    """Interpreter, standard library and packages, as links to the files here wherever the disk allows it."""
    library = folder / "lib" / VERSION
    binary = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    _put(binary, folder / "bin" / VERSION)
    launcher = folder / "bin" / "python"
    launcher.write_text(_LAUNCHER)
    launcher.chmod(0o755)
    (folder / "bin" / "python3").symlink_to("python")
    for shared in _shared_libraries():
        _put(shared, folder / "lib" / shared.name)
    for source in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        for file in _files_below(Path(source)):
            _put(file, library / file.relative_to(source))
    site = library / "site-packages"
    for package in packages:
        for file in package.files or []:
            is_inside = ".." not in file.parts and not str(file).startswith(_UNUSED)
            if is_inside and not file.name.startswith("__editable__"):
                _put(Path(str(file.locate())), site / file)
    ours = ROOT / "src" / "lakesweep"
    for file in ours.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            _put(file, site / "lakesweep" / file.relative_to(ours))


def _shared_libraries() -> list[Path]:
    """Python itself, where the interpreter's program is only its door."""
    name, folder = sysconfig.get_config_var("INSTSONAME"), sysconfig.get_config_var("LIBDIR")
    is_shared = sysconfig.get_config_var("Py_ENABLE_SHARED") and name and folder
    found = Path(folder) / name if is_shared else None
    return [found] if found is not None and found.exists() else []


def _files_below(library: Path) -> Iterator[Path]:
    for entry in library.iterdir():
        if _LEFT_OUT.fullmatch(entry.name):
            continue
        yield from (f for f in entry.rglob("*") if f.is_file()) if entry.is_dir() else (entry,)


def _put(source: Path, target: Path) -> None:
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source.resolve(), target)
    except OSError:  # another disk, or one without links
        shutil.copy2(source, target)


def check(folder: Path) -> None:
    """See that this Python finds itself and its packages where it now lies, and compile what executors would have to."""
    ours = str(folder / "lib" / VERSION / "site-packages" / "lakesweep")
    compiled = "from lakesweep_testing.warmup import warm_up; warm_up()"
    for words in (["-c", _CHECK, str(folder)], ["-m", "compileall", "-q", ours], ["-c", compiled]):
        done = subprocess.run(
            [folder / "bin" / "python", *words],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "testing")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise CannotPackError(
                f"the packed Python does not work: {' '.join(said)}. Nothing was written. Take a Python that can be moved "
                "(`uv python install 3.12`, or one built from source): `make PYTHON=/path/to/it packed-env` in a clean "
                "checkout."
            )


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whoever unpacks it owns it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    sys.exit(main())
