"""Make .venv with the pinned packages, see that there is a Java, and compile the jitted code once.

Called through tools/setup.sh by every make target. Repeating it costs a moment: each step leaves a stamp of what
it was made from. Standard library only.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PACKAGES_STAMP = VENV / "lakesweep-packages.stamp"
WARM_STAMP = VENV / "lakesweep-warm.stamp"
EXTRAS = "spark,connect,java,lake,web,nessie,png,postgres,otel,dev,real"
ROOM_NEEDED_BYTES = 3 << 30


class CannotSetUpError(Exception):
    """Says what is missing and how to get it."""


def main() -> int:
    # The lock is on a file that is always there, so that two makes at once don't build one environment.
    with (ROOT / "pyproject.toml").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            make_environment()
            install_packages()
            warm_up()
        except CannotSetUpError as problem:
            print(f"setup: {problem}", file=sys.stderr)
            return 2
    return 0


def make_environment() -> None:
    """A virtual environment whose Python runs; a broken one (its Python was upgraded away) is made again."""
    if PYTHON.exists() and subprocess.run([PYTHON, "-c", ""], check=False).returncode == 0:
        return
    free = shutil.disk_usage(ROOT).free
    if free < ROOM_NEEDED_BYTES:
        raise CannotSetUpError(
            f"{ROOT} has {free >> 20} MiB left, and the packages need {ROOM_NEEDED_BYTES >> 20}. "
            "Free some, or move the checkout to a larger disk."
        )
    say(f"making .venv with Python {sys.version.split()[0]}")
    shutil.rmtree(VENV, ignore_errors=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        shutil.rmtree(VENV, ignore_errors=True)
        raise CannotSetUpError(
            f"{sys.executable} can't make a virtual environment:\n{made.stdout}{made.stderr}\n"
            "Debian and Ubuntu ship that part apart: `apt install python3-venv`. Without root, "
            "take a Python of your own (`uv python install 3.12`, `pyenv install 3.12`) and run "
            "`make PYTHON=/path/to/it …`."
        )


def install_packages() -> None:
    """The project with all its extras and what its tests stand on, at the versions of constraints.txt."""
    projects = [ROOT / "pyproject.toml", ROOT / "testing" / "pyproject.toml"]
    wanted = fingerprint([*projects, ROOT / "constraints.txt", Path(__file__)])
    if stamped(PACKAGES_STAMP) == wanted:
        return
    say("installing the pinned packages (about two minutes and 1.5 GB the first time)")
    began = time.monotonic()
    words = ["-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--retries", "5"]
    target = [
        "-c",
        str(ROOT / "constraints.txt"),
        "-e",
        f"{ROOT}[{EXTRAS}]",
        "-e",
        f"{ROOT}/testing",
    ]
    env = {**os.environ, "PIP_CONSTRAINT": ""}
    if subprocess.run([PYTHON, *words, *target], env=env, check=False).returncode:
        raise CannotSetUpError(
            "pip could not install the packages; what it said is above. "
            "If the network failed, run make again: what is there is kept. If there is no package index "
            "within reach, point pip at one (PIP_INDEX_URL, or pip.conf)."
        )
    PACKAGES_STAMP.write_text(wanted)
    say(f"packages ready after {time.monotonic() - began:.0f} s")


def warm_up() -> None:
    """Find a Java and compile the jitted code, once for each version of the sources."""
    sources = sorted((ROOT / "src").rglob("*.py"))
    jitted = [source for source in sources if b"@jitted" in source.read_bytes()]
    wanted = fingerprint([PACKAGES_STAMP, ROOT / "tools" / "warm.py", *jitted])
    if stamped(WARM_STAMP) == wanted:
        return
    if subprocess.run([PYTHON, str(ROOT / "tools" / "warm.py")], check=False).returncode:
        raise CannotSetUpError("the environment is made, and one check failed; see above.")
    WARM_STAMP.write_text(wanted)


def fingerprint(files: Iterable[Path]) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for file in files:
        digest.update(str(file).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def stamped(stamp: Path) -> str:
    return stamp.read_text() if stamp.exists() else ""


def say(message: str) -> None:
    print(f"setup: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
