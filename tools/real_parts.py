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
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from lakesweep.cachefolder import cache_folder
from lakesweep.testing.real_parts import AZURITE, FAKE_GCS, LAKEFS, MINIO, PARTS, Part

# Go's module and build caches take most of it, outside our cache folder.
ROOM_NEEDED_BYTES = 4 << 30

HOW_TO_GET = {
    "go": "Go 1.26.4 or newer builds lakeFS, MinIO and fake-gcs-server: https://go.dev/dl "
    "(unpack it anywhere and put its bin/ on the PATH; no root needed)",
    "npm": "Node.js 18 or newer with npm installs and runs Azurite: https://nodejs.org "
    "(unpack it anywhere and put its bin/ on the PATH; no root needed)",
}


class CannotInstallError(Exception):
    """Says what is missing and how to get it."""


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


def install_azurite(part: Part, target: Path) -> None:
    npm = program("npm")
    wanted = f"{part.source}@{part.version}"
    run([npm, "install", "--prefix", str(target), "--no-audit", "--no-fund", "--silent", wanted])


RECIPES: Mapping[str, Callable[[Part, Path], None]] = {
    LAKEFS.name: install_lakefs,
    MINIO.name: install_go_program,
    FAKE_GCS.name: install_go_program,
    AZURITE.name: install_azurite,
}


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise CannotInstallError(f"`{name}` is not on the PATH. {HOW_TO_GET[name]}.")
    return found


def run(
    words: list[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    capture: bool = False,
) -> str:
    done = subprocess.run(
        words,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdout=subprocess.PIPE if capture else sys.stderr,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotInstallError(
            f"`{' '.join(words)}` ended with status {done.returncode}. Nothing was installed; "
            "what it said is above. Run it again when the network or the tool is fit."
        )
    return done.stdout or ""


def check_room() -> None:
    free = shutil.disk_usage(cache_folder()).free
    if free < ROOM_NEEDED_BYTES:
        raise CannotInstallError(
            f"{cache_folder()} has {free >> 20} MiB left; building needs {ROOM_NEEDED_BYTES >> 20}. "
            "Free some, or set LAKESWEEP_CACHE to a folder on a larger disk."
        )


def say(message: str) -> None:
    print(f"real_parts: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
