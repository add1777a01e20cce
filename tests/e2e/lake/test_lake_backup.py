"""A copy of a lake that is being served, and the lake that it is brought back as."""

from __future__ import annotations

import errno
import json
import shutil
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakesweep.errors import ConfigError
from lakesweep.lake import backup
from lakesweep.lake.backup import LakeBackupError, back_up_lake, restore_lake
from lakesweep.lake.server import LakeServer, open_lake
from lakesweep.lake.values import LakeSettings
from lakesweep_testing.commands import Shell

KEY = {"access_key_id": "AKIAFIRST", "secret_access_key": "first-secret"}
AUTH = tuple(KEY.values())


def fill(server: LakeServer) -> None:
    server.lake.repositories.create("sales", "local://sales")
    objects = f"{server.endpoint}/repositories/sales/branches/main"
    for path in ("committed", "staged"):
        httpx.post(f"{objects}/objects?path={path}", content=path.encode(), auth=AUTH)
        if path == "committed":
            httpx.post(f"{objects}/commits", json={"message": "m"}, auth=AUTH).raise_for_status()


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with LakeServer(tmp_path / "lake", **KEY) as server:
        fill(server)
    return tmp_path / "lake"


def read(server: LakeServer, path: str) -> bytes:
    url = f"{server.endpoint}/repositories/sales/refs/main/objects?path={path}"
    return httpx.get(url, auth=AUTH).raise_for_status().content


def test_lake_is_copied_while_it_serves_and_comes_back_whole(tmp_path: Path, capsys: Any) -> None:
    """Committed and staged objects, keys and ages; the key file travels apart."""
    shell = Shell(capsys)
    old, copy, new = (tmp_path / name for name in ("lake", "copy", "new"))
    with LakeServer(old, **KEY) as server:
        fill(server)
        said = shell.run("lake", "backup", "--data", str(old), "--to", str(copy))
        httpx.post(
            f"{server.endpoint}/repositories/sales/branches/main/objects?path=later",
            content=b"x",
            auth=AUTH,
        )
    assert said.startswith("copied 1 repositories")
    assert not list(copy.rglob("secrets.key"))
    shell.run("lake", "restore", "--from", str(copy), "--data", str(new))
    shutil.copy(old / "secrets.key", new / "secrets.key")
    with LakeServer(new, **KEY) as server:
        assert (read(server, "committed"), read(server, "staged")) == (b"committed", b"staged")
    files = [path for path in (new / "sales").rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert path.stat().st_mtime_ns == (old / path.relative_to(new)).stat().st_mtime_ns


def test_full_folders_are_left_alone(lake: Path, tmp_path: Path) -> None:
    """Neither a copy nor a restore writes into what is there; and a lake is not copied into itself."""
    back_up_lake(lake, tmp_path / "copy")
    for refused in (
        lambda: back_up_lake(lake, tmp_path / "copy"),
        lambda: back_up_lake(lake, lake / "sales" / "copy"),
        lambda: restore_lake(tmp_path / "copy", lake),
        lambda: back_up_lake(tmp_path / "no-lake", tmp_path / "copy2"),
    ):
        with pytest.raises(ConfigError):
            refused()


def test_a_place_that_can_not_be_written_is_no_bug(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where the folder should be is a wrong setting; a disk that fills up leaves no copy, and says what to do."""
    file = tmp_path / "file"
    file.touch()
    below, new = f"sqlite:///{file}/refs.db", tmp_path / "new-lake"
    for refused in (
        lambda: back_up_lake(lake, file),
        lambda: open_lake(LakeSettings(file)),
        lambda: open_lake(LakeSettings(new), below),
        lambda: LakeServer(new, settings=LakeSettings(new, key_file=file / "secrets.key"), **KEY),
    ):
        with pytest.raises(ConfigError, match=f"The folder {file} can't be made: File exists"):
            refused()
    mode = tmp_path.stat().st_mode
    with pytest.raises(ConfigError, match="is a folder, and a file is needed"):
        open_lake(LakeSettings(new), f"sqlite:///{tmp_path}")
    assert tmp_path.stat().st_mode == mode
    back_up_lake(lake, tmp_path / "copy")

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(backup.os, "fsync", full)
    for copied, undone in (
        (lambda: back_up_lake(lake, tmp_path / "copy2"), "has no manifest; remove it"),
        (lambda: restore_lake(tmp_path / "copy", tmp_path / "back"), "The lake was not restored"),
    ):
        with pytest.raises(LakeBackupError, match=f"No space left on device. .*{undone}"):
            copied()


def test_damaged_copy_is_not_restored(lake: Path, tmp_path: Path) -> None:
    """A changed file, a missing one, changed refs, or no manifest: each is noticed, and leaves no lake."""
    whole = tmp_path / "copy"
    back_up_lake(lake, whole)
    name = next(iter(json.loads((whole / "manifest.json").read_bytes())["files"]))
    damages = {
        "changed": lambda copy: (copy / "objects" / name).write_bytes(b"?"),
        "missing": lambda copy: (copy / "objects" / name).unlink(),
        "refs": lambda copy: (copy / "refs.db").write_bytes(b"?"),
        "manifest": lambda copy: (copy / "manifest.json").unlink(),
    }
    for what, damage in damages.items():
        copy, new = tmp_path / f"copy-{what}", tmp_path / f"new-{what}"
        shutil.copytree(whole, copy)
        damage(copy)
        with pytest.raises((ConfigError, LakeBackupError)):
            restore_lake(copy, new)
        assert not (new / "refs.db").exists()


def test_manifest_can_not_write_outside_of_the_folder(lake: Path, tmp_path: Path) -> None:
    """Whoever may change a copy may not so write anywhere."""
    copy = tmp_path / "copy"
    back_up_lake(lake, copy)
    manifest = json.loads((copy / "manifest.json").read_bytes())
    found = next(iter(manifest["files"]))
    manifest["files"] = {"../outside": manifest["files"][found]}
    (copy / "manifest.json").write_text(json.dumps(manifest))
    (copy / "objects" / found).rename(copy / "outside")
    with pytest.raises(LakeBackupError, match="outside"):
        restore_lake(copy, tmp_path / "new")
    assert not (tmp_path / "outside").exists()


def test_objects_deleted_meanwhile_spoil_the_copy(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refs of the copy may need what a sweep took away between refs and objects."""
    victim = next(path for path in (lake / "sales" / "data").rglob("*") if path.is_file())
    copy_refs = backup._copy_refs

    def sweep_meanwhile(source: Path, target: Path) -> None:
        copy_refs(source, target)
        victim.unlink()

    monkeypatch.setattr(backup, "_copy_refs", sweep_meanwhile)
    with pytest.raises(LakeBackupError, match="no sweep runs"):
        back_up_lake(lake, tmp_path / "copy")
    assert not (tmp_path / "copy" / "manifest.json").exists()


def test_object_that_came_and_went_meanwhile_spoils_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer than the first look at the files, named by the copied refs, and deleted for good before it was copied."""
    settings = LakeSettings(tmp_path / "lake", hard_delete=True, delete_grace=timedelta(0))
    copy_refs = backup._copy_refs
    with closing(open_lake(settings)) as lake:
        sales = lake.repositories.create("sales", "local://sales")

        def come_and_go(source: Path, target: Path) -> None:
            lake.objects.upload(sales, "main", "new", [b"x"])
            copy_refs(source, target)
            lake.objects.delete(sales, "main", "new")
            lake.reviewer.run()

        monkeypatch.setattr(backup, "_copy_refs", come_and_go)
        with pytest.raises(LakeBackupError, match="hard delete"):
            back_up_lake(tmp_path / "lake", tmp_path / "copy")
    assert not (tmp_path / "copy" / "manifest.json").exists()


def test_what_was_deleted_for_good_before_spoils_no_copy(tmp_path: Path) -> None:
    """The refs do not name it any more."""
    settings = LakeSettings(tmp_path / "lake", hard_delete=True, delete_grace=timedelta(0))
    with closing(open_lake(settings)) as lake:
        sales = lake.repositories.create("sales", "local://sales")
        lake.objects.upload(sales, "main", "old", [b"x"])
        lake.objects.delete(sales, "main", "old")
        lake.reviewer.run()
        assert list(lake.delete_ledger.rows(sales))
        back_up_lake(tmp_path / "lake", tmp_path / "copy")
    assert (tmp_path / "copy" / "manifest.json").exists()


def test_namespaces_elsewhere_are_named(lake: Path, tmp_path: Path) -> None:
    """What the copy does not hold is said."""
    with LakeServer(lake, **KEY) as server:
        server.lake.kv.set(
            "graveler",
            b"repos/far",
            (server.lake.kv.get("graveler", b"repos/sales") or b"")
            .replace(b'"sales"', b'"far"')
            .replace(b"local://sales", b"s3://bucket/far"),
        )
    assert back_up_lake(lake, tmp_path / "copy").namespaces_elsewhere == ("s3://bucket/far",)
