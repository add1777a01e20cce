"""Copies of a whole lake: refs and the namespaces in its folder, made while it serves, and brought back verified.

Refs are copied first, as they are at one moment. Whatever they name was written before that moment, so files that are listed
afterwards hold all of it; only a sweep or an online hard delete in between could take something away. Of a sweep, which takes
nothing young, a file is missing that was there before. A hard delete may take what is newer than that: the refs tell of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakesweep.errors import ConfigError, LakesweepError
from lakesweep.json_text import parse_json
from lakesweep.lake.folders import make_folder
from lakesweep.lake.hard_delete.ledger import LEDGER_PREFIX
from lakesweep.lake.kv.interface import end_of_prefix
from lakesweep.lake.server import REFS_FILE_NAME, open_lake
from lakesweep.lake.values import LakeSettings
from lakesweep.storage.local_walk import TEMPORARY_PREFIX

MANIFEST_NAME = "manifest.json"
_OBJECTS = "objects"
_FORMAT = 1
_CHUNK_BYTES = 1024 * 1024


class LakeBackupError(LakesweepError):
    """A copy of a lake could not be made or brought back; it must not be used."""

    exit_status = 3
    default_kind = "lake-backup"


@dataclass(frozen=True, slots=True)
class LakeCopy:
    """What a copy holds, and the namespaces of repositories that it does not hold."""

    files: int
    bytes: int
    repositories: int
    namespaces_elsewhere: tuple[str, ...]


def back_up_lake(data_dir: Path, to: Path) -> LakeCopy:
    """Copy refs and namespaces into an empty folder. The manifest is written last: without it there is no copy.

    Raises:
        ConfigError: there is no lake, or the folder can't take a copy.
        LakeBackupError: objects were deleted meanwhile, the refs are damaged, or a file can't be read or written.
    """
    data_dir, to = data_dir.absolute(), to.absolute()
    refs = data_dir / REFS_FILE_NAME
    if not refs.exists():
        raise ConfigError(
            f"There is no {REFS_FILE_NAME} in {data_dir}; nothing was copied. Refs in PostgreSQL are copied"
            " with its own tools."
        )
    if to.is_relative_to(data_dir):
        raise ConfigError(f"{to} lies in the lake's own folder; nothing was copied.")
    _assert_empty(to, "nothing was copied")
    undone = f"The copy in {to} is not complete and has no manifest; remove it, and try again with room and rights there."
    with _file_errors_told(f"The lake in {data_dir} could not be copied", undone):
        return _copy_lake(data_dir, to)


def _copy_lake(data_dir: Path, to: Path) -> LakeCopy:
    refs = data_dir / REFS_FILE_NAME
    before = set(_files_in(data_dir))
    _copy_refs(refs, to / REFS_FILE_NAME)
    copied = {
        name: _copy_file(data_dir / name, to / _OBJECTS / name) for name in _files_in(data_dir)
    }
    gone = before - copied.keys() | {name for name, found in copied.items() if found is None}
    if gone:
        raise LakeBackupError(
            f"{len(gone)} files were deleted while the lake was copied, such as {min(gone)}, and its refs may need"
            f" them. The copy in {to} is not complete and has no manifest; remove it, and try again when no sweep runs."
        )
    reviews = _reviews_since(refs, to / REFS_FILE_NAME)
    if reviews:
        raise LakeBackupError(
            f"Objects were deleted for good {reviews} times (hard delete) while the lake was copied, and its refs may need"
            f" them. The copy in {to} is not complete and has no manifest; remove it, and try again, with hard delete"
            " switched off meanwhile (`lakesweep hard-delete set REPO off`)."
        )
    files = {name: found for name, found in copied.items() if found is not None}
    repositories, elsewhere = _read_repositories(to, data_dir)
    manifest = {
        "format": _FORMAT,
        "refs": _describe(to / REFS_FILE_NAME),
        "files": files,
        "repositories": repositories,
        "namespaces_elsewhere": elsewhere,
    }
    draft = to / f".{MANIFEST_NAME}"
    _write_whole(draft, json.dumps(manifest).encode())
    draft.rename(to / MANIFEST_NAME)
    return _summary(manifest)


def restore_lake(source: Path, data_dir: Path) -> LakeCopy:
    """Bring a copy back into an empty folder, verifying every byte. Refs come last: until then there is no lake.

    Raises:
        ConfigError: the folder is not empty, or there is no copy.
        LakeBackupError: the copy is not what its manifest says, or a file can't be read or written.
    """
    source, data_dir = source.absolute(), data_dir.absolute()
    _assert_empty(data_dir, "nothing was restored")
    try:
        manifest = parse_json((source / MANIFEST_NAME).read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{source} holds no whole copy of a lake: {MANIFEST_NAME} can't be read. Nothing was restored."
        ) from error
    if manifest["format"] != _FORMAT:
        raise ConfigError(
            f"The copy in {source} has format {manifest['format']}, and this lakesweep reads format {_FORMAT}."
            " Nothing was restored."
        )
    undone = (
        f"The lake was not restored; remove {data_dir}, and try again with room and rights there."
    )
    with _file_errors_told(f"The copy in {source} could not be restored", undone):
        _restore_files(manifest, source, data_dir)
    return _summary(manifest)


def _restore_files(manifest: Mapping[str, Any], source: Path, data_dir: Path) -> None:
    for name, expected in manifest["files"].items():
        if not os.path.abspath(data_dir / name).startswith(f"{data_dir}{os.sep}"):
            raise LakeBackupError(
                f"The manifest of {source} names {name!r}, which lies outside of {data_dir}. The lake was not restored."
            )
        _restore_file(source / _OBJECTS / name, data_dir / name, expected)
    draft = data_dir / f".{REFS_FILE_NAME}"
    _restore_file(source / REFS_FILE_NAME, draft, manifest["refs"])
    draft.rename(data_dir / REFS_FILE_NAME)


@contextmanager
def _file_errors_told(failed: str, undone: str) -> Iterator[None]:
    """A full disk or a missing right ends a copy as an error of ours that says what is left of it."""
    try:
        yield
    except LakesweepError:
        raise  # some of ours are OSErrors too
    except (OSError, sqlite3.Error) as error:
        raise LakeBackupError(f"{failed}: {error}. {undone}") from error


def _files_in(data_dir: Path) -> Iterator[str]:
    """Files of the namespaces in the lake's folder, but those still being written."""
    for top in sorted(data_dir.iterdir()):
        if not top.is_dir() or top.is_symlink():
            continue  # the ref store, and the key file, which is no part of a copy
        for folder, _, names in os.walk(top):
            for name in names:
                path = Path(folder, name)
                if not name.startswith(TEMPORARY_PREFIX) and not path.is_symlink():
                    yield str(path.relative_to(data_dir))


def _copy_refs(source: Path, target: Path) -> None:
    with (
        closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as live,
        closing(sqlite3.connect(target)) as copy,
    ):
        target.chmod(0o600)
        live.backup(copy)
        (verdict,) = copy.execute("PRAGMA integrity_check").fetchone()
    if verdict != "ok":
        raise LakeBackupError(f"The copy of the refs is damaged: {verdict}. It must not be used.")


def _reviews_since(refs: Path, copy: Path) -> int:
    """How many reviews took objects up for deletion since the refs were copied: each tells its ledger before it deletes."""
    told = []
    for path in (refs, copy):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            begin, end = LEDGER_PREFIX, end_of_prefix(LEDGER_PREFIX)
            query = "SELECT part, k FROM lake_kv WHERE k >= ? AND k < ?"
            told.append(set(store.execute(query, (begin, end))))
    return len(told[0] - told[1])


def _read_repositories(to: Path, data_dir: Path) -> tuple[int, list[str]]:
    """How many repositories the copied refs have, and the namespaces that lie outside of the lake's folder."""
    with closing(open_lake(LakeSettings(to))) as lake:
        namespaces = [repository.storage_namespace for repository in lake.repositories.all()]
    own = ("local://", f"file://{data_dir}/")
    return len(namespaces), sorted(name for name in namespaces if not name.startswith(own))


def _copy_file(source: Path, target: Path) -> dict[str, object] | None:
    """Copy with the file's time, which is the object's age; None when the file is gone."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest = hashlib.sha256()
    try:
        with source.open("rb") as file, open(target, "xb", opener=_private) as copy:
            while piece := file.read(_CHUNK_BYTES):
                digest.update(piece)
                copy.write(piece)
            status = os.fstat(file.fileno())
            copy.flush()
            os.fsync(copy.fileno())
            size = copy.tell()
    except FileNotFoundError:
        return None
    os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))
    return {"size": size, "sha256": digest.hexdigest()}


def _restore_file(source: Path, target: Path, expected: dict[str, object]) -> None:
    if _copy_file(source, target) != expected:
        raise LakeBackupError(
            f"{source} is missing or not what the manifest says. The lake was not restored; remove"
            f" {target.parent} and use another copy."
        )


def _describe(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"size": path.stat().st_size, "sha256": digest}


def _assert_empty(folder: Path, what: str) -> None:
    make_folder(folder, what.capitalize())
    if any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; {what}. Name a new folder.")


def _write_whole(path: Path, data: bytes) -> None:
    with open(path, "xb", opener=_private) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _summary(manifest: dict[str, object]) -> LakeCopy:
    files = manifest["files"]
    assert isinstance(files, dict)
    elsewhere, repositories = manifest["namespaces_elsewhere"], manifest["repositories"]
    assert isinstance(elsewhere, list)
    assert isinstance(repositories, int)
    total = sum(found["size"] for found in files.values())
    return LakeCopy(len(files), total, repositories, tuple(elsewhere))
