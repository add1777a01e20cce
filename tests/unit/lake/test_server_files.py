"""The server's files are its user's alone, and where they lie is nobody else's business."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.errors import ConfigError
from lakesweep.lake.hidden_paths import HiddenPaths
from lakesweep.lake.server import open_lake
from lakesweep.lake.values import LakeSettings
from lakesweep_testing.asgi import AsgiLake


def test_a_data_folder_is_closed_to_others(tmp_path: Path) -> None:
    """A new one, and one that stood open before, whatever the umask."""
    open_before = tmp_path / "open"
    open_before.mkdir()
    open_before.chmod(0o755)
    earlier = os.umask(0o000)
    try:
        for folder in (open_before, tmp_path / "new"):
            open_lake(LakeSettings(folder)).close()
            assert folder.stat().st_mode & 0o777 == 0o700
            assert (folder / "refs.db").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(earlier)


def test_a_folder_that_can_not_be_closed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's folder, for one."""

    def refuse(_path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(ConfigError, match="not opened"):
        open_lake(LakeSettings(tmp_path))


def test_no_error_shows_where_the_data_lies(tmp_path: Path) -> None:
    """A namespace that a file stands in the way of, over both APIs, and what a task failed of."""
    with AsgiLake(data_dir=tmp_path) as lake:
        body = {"name": "repo", "storage_namespace": "local://repo"}
        assert lake.send("POST", "/repositories", json=body).status_code == 201
        folder = tmp_path / "repo"
        for found in sorted(folder.rglob("*"), reverse=True):
            found.rmdir() if found.is_dir() else found.unlink()
        folder.rmdir()
        folder.write_bytes(b"")
        replies = [
            lake.send("POST", "/repositories/repo/branches/main/objects?path=p", content=b"x"),
            lake.send_s3("PUT", "/repo/main/p", b"x"),
            lake.send("POST", "/repositories", json=body | {"name": "other"}),
            lake.send(
                "POST",
                "/repositories",
                json={"name": "third", "storage_namespace": f"file://{tmp_path}/repo/x"},
            ),
        ]
        for reply in replies:
            assert reply.is_error
            assert str(tmp_path) not in reply.text, reply.text
            assert int(reply.headers["content-length"]) == len(reply.content)


def test_paths_in_every_spelling_are_hidden(tmp_path: Path) -> None:
    """As a URI, as a plain path, through a link, and in the ref store's name."""
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    hidden = HiddenPaths(link)
    for folder in (real, link):
        text = f"file://{folder}/ns/data at {folder} and sqlite:///{folder}/refs.db; try".encode()
        assert hidden.take_out_of(text) == b"local://ns/data at local:// and sqlite; try"
