"""The commands against a real lakeFS on MinIO, with what a user of lakectl and of the AWS tools has set."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from lakesweep_testing.commands import Shell
from lakesweep_testing.servers import MinIOServer, RealLakeFS
from lakesweep_testing.user import User

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.usefixtures("spark")]

NAME = "commands"
# Objects here are seconds old.
LOW = ("--min-age", "1s", "--unsafe-min-age", NAME)


@pytest.fixture
def user(minio: MinIOServer, real_lakefs: RealLakeFS) -> Iterator[User]:
    minio.make_bucket(NAME)
    minio.make_bucket("copies")
    auth = (real_lakefs.access_key_id, real_lakefs.secret_access_key)
    with httpx.Client(base_url=real_lakefs.api_url, auth=auth, timeout=60) as api:
        yield User.create(api, NAME, f"s3://{NAME}/repo")


@pytest.fixture
def shell(
    minio: MinIOServer,
    real_lakefs: RealLakeFS,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    for name in list(os.environ):
        is_ours = name.startswith(("LAKESWEEP_", "LAKECTL_", "AWS_"))
        if is_ours and name != "LAKESWEEP_CACHE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("LAKECTL_CONFIG_FILE", str(tmp_path / "none.yaml"))
    monkeypatch.setenv("LAKECTL_SERVER_ENDPOINT_URL", real_lakefs.url)
    monkeypatch.setenv("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", real_lakefs.access_key_id)
    monkeypatch.setenv("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", real_lakefs.secret_access_key)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", minio.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", minio.secret_access_key)
    monkeypatch.setenv("AWS_ENDPOINT_URL", minio.url)
    return Shell(capsys)


def test_an_afternoon_on_the_real_thing(user: User, shell: Shell) -> None:
    """Doctor, mark, backup, sweep with 410, restore; nothing is configured but what is there anyway."""
    user.set_rules(7)
    user.upload("main", "expired")
    user.upload("main", "live")
    first = user.commit("main", days=40)
    user.delete("main", "expired")
    user.commit("main", days=30)
    user.upload("main", "staged", "one")
    user.upload("main", "staged", "two")
    time.sleep(2)

    assert shell.json("doctor", NAME)["fit"] is True
    marked = shell.json("mark", NAME, "us-east-1", *LOW, "--mark-id", "m")
    assert (marked["objects"]["expired"], marked["objects"]["unreferenced"]) == (1, 1)
    saved = shell.json("backup", NAME, "--mark-id", "m", "--to", "s3a://copies/of/m")
    assert saved["objects"]["copied"] == 2
    swept = shell.json("sweep", NAME, "--mark-id", "m", *LOW[2:])
    assert swept["objects"]["deleted"] == 2
    assert user.status(first, "expired") == 410
    assert user.status("main", "live") == 200
    assert user.status("main", "staged") == 200
    back = shell.json("restore", NAME, "--mark-id", "m", "--from", "s3://copies/of/m")
    assert back["objects"]["copied"] == 2
    assert user.status(first, "expired") == 200
    time.sleep(2)
    gone = shell.json("gc", NAME, *LOW, "--backup-to", "s3://copies/of/m")
    assert gone["objects"]["deleted"] == 2
    assert shell.json("gc", NAME, *LOW)["status"] == "nothing-to-do"
