"""The repository's own folder holds what it is known to hold."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# A new name here is a decision, not what a test run or a slip of the shell left.
KNOWN = {
    *("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md"),
    *("Makefile", "constraints.txt", "pyproject.toml"),
    *("benchmarks", "docs", "examples", "src", "testing", "tests", "tools"),
    *(".ci", ".gitignore"),
}


def _tracked() -> set[str]:
    """Names in the folder that git follows; none where the source came without its history."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return set()
    words = [git, "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {path.partition("/")[0] for path in listed.split("\0") if path}


def test_no_stray_file_is_tracked_at_the_root() -> None:
    """An empty `pyspark.worker` was committed once."""
    assert _tracked() <= KNOWN
