"""What every recipe for a real server uses: find a program, run it, say what is missing. Standard library only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HOW_TO_GET = {
    "go": "Go 1.26.4 or newer builds lakeFS, MinIO and fake-gcs-server: https://go.dev/dl "
    "(unpack it anywhere and put its bin/ on the PATH; no root needed)",
    "npm": "Node.js 18 or newer with npm installs and runs Azurite: https://nodejs.org "
    "(unpack it anywhere and put its bin/ on the PATH; no root needed)",
    **dict.fromkeys(
        ("apt-get", "apt-cache", "dpkg", "dpkg-query"),
        "MariaDB and Chromium come from the packages of Debian or Ubuntu, unpacked into the cache folder; no root needed",
    ),
}


class CannotInstallError(Exception):
    """Says what is missing and how to get it."""


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


def say(message: str) -> None:
    print(f"real_parts: {message}", file=sys.stderr, flush=True)
