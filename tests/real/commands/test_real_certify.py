"""The promises of a real lakeFS, tried by the command, are those of its page in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakesweep.cli.main import run
from lakesweep_testing.servers import MinIOServer, RealLakeFS

pytestmark = pytest.mark.real

PAGE = Path(__file__).resolve().parents[3] / "docs/explanation/certified/lakefs-1.84.md"


def masked(page: str) -> str:
    """Without the version, which a server built from source does not know, and without what was chosen."""
    return re.sub(r"lakeFS, \S+|[0-9]+ rounds|seed [0-9]+", "…", page)


def test_a_real_server_is_certified(
    real_lakefs: RealLakeFS, minio: MinIOServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is fit for a collector with guards of its own, its known weaknesses are seen, and nothing is left of the trial."""
    bucket = minio.make_bucket("certify")
    for name, value in {**minio.aws_environment, **real_lakefs.lakectl_environment}.items():
        monkeypatch.setenv(name, value)
    found = tmp_path / "page.md"
    words = ["certify", "--storage-namespace", bucket, "--rounds", "2", "--report", str(found)]
    assert run(words) == 0
    assert masked(found.read_text("utf-8")) == masked(PAGE.read_text("utf-8"))
    assert minio.client().list_objects_v2(Bucket="certify")["KeyCount"] == 0
