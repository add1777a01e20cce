"""Programs out of Debian packages, unpacked into a folder: no root, and nothing of the system is touched.

Standard library only.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from installing import program, run


def unpack_packages(names: tuple[str, ...], target: Path, *, whole: bool = False) -> None:
    """Unpack the packages, and those libraries they need that this machine does not have.

    `whole` unpacks everything that they need, also what their libraries need in turn.
    """
    dpkg = program("dpkg")
    with tempfile.TemporaryDirectory(prefix="lakesweep-debs-") as scratch:
        folder = Path(scratch)
        apt = [program("apt-get"), *_lists_of_our_own(folder), "-qq"]
        run([*apt, "update"])
        if whole:
            would = run([*apt, "--no-install-recommends", "-s", "install", *names], capture=True)
            missing = missing_packages(would)
        else:
            depends = run([program("apt-cache"), *apt[1:-1], "depends", *names], capture=True)
            missing = missing_libraries(depends)
        run([*apt, "download", *sorted({*names, *missing})], cwd=folder)
        for package in sorted(folder.glob("*.deb")):
            run([dpkg, "-x", str(package), str(target)])


def missing_packages(would: str) -> list[str]:
    """The packages that apt-get says it would install."""
    return re.findall(r"^Inst (\S+)", would, re.MULTILINE)


def missing_libraries(depends: str) -> list[str]:
    """The library packages in apt-cache's answer that are not installed here."""
    named = set(re.findall(r"^ +\|?Depends: (lib[a-z0-9.+-]+)$", depends, re.MULTILINE))
    return sorted(name for name in named if not _is_installed(name))


def _is_installed(package: str) -> bool:
    asked = subprocess.run(
        [program("dpkg-query"), "-W", "-f", "${db:Status-Status}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.returncode == 0 and asked.stdout.startswith("installed")


def _lists_of_our_own(folder: Path) -> list[str]:
    # The system's lists may be missing or older than the packages that are served, and updating them takes root.
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    settings = {
        "Dir::State::lists": str(folder / "lists"),
        "Dir::Cache": str(folder / "cache"),
        "Debug::NoLocking": "1",
        # Root would hand the download to a user who may not write into our folder.
        "APT::Sandbox::User": "root",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
