"""Local files as objects, through the operating system itself: exact names, atomic writes, no link followed.

obstore's local client rewrites some names and lists half-written files of other programs, so it is not used here.
A file is an object; a folder, a symbolic link or a device is not. Writes go to a temporary file beside the target,
which is never listed, and are put in place by rename (or by link, which fails where the name is taken).
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import BinaryIO

import pyarrow as pa

from lakesweep.errors import PreconditionError, UnsupportedStoreError
from lakesweep.storage.backend import Backend
from lakesweep.storage.local_walk import TEMPORARY_PREFIX, first_file, has_file, walk_files
from lakesweep.storage.signing import UrlSigner
from lakesweep.storage.translate import os_errors_translated
from lakesweep.storage.values import (
    NO_TERMS,
    DeleteOutcome,
    DeleteStatus,
    DeleteTerms,
    Folder,
    ObjectInfo,
    listing_batch,
)
from lakesweep.storage.waiting import WouldWait

_BATCH_ROWS = 10_000
_CHUNK_BYTES = 8 << 20
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without these, to open a pipe would wait for its other end, and to note the time of a file's first reading would wait
# for the file system's journal.
_WITHOUT_WAITING = os.O_NONBLOCK | getattr(os, "O_NOATIME", 0)
_READ_CACHED: int | None = getattr(os, "RWF_NOWAIT", None)  # Linux has it
_NOT_CACHED = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.ENOSYS})
_NO_HARD_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
)


class LocalBackend:
    """The files below one folder, which need not exist yet."""

    delete_batch_size = 1000
    is_key_ordered = True
    reads_odd_keys = False
    signer: UrlSigner | None = None

    def __init__(self, root: str, *, fsync: bool) -> None:
        self._root = root
        self._real_root = ""  # found when it is needed
        self._fsync = fsync

    def scan(self, prefix: str, start_after: str | None) -> Iterator[pa.RecordBatch]:
        with os_errors_translated(f"listing {self._root}/{prefix}"):
            rows: list[tuple[str, os.stat_result]] = []
            for row in walk_files(self._root, prefix, start_after):
                rows.append(row)
                if len(rows) == _BATCH_ROWS:
                    yield _batch(rows)
                    rows = []
            if rows:
                yield _batch(rows)

    def folder(self, prefix: str) -> Folder:
        with os_errors_translated(f"listing {self._root}/{prefix}"):
            rows: list[tuple[str, os.stat_result]] = []
            folders: list[str] = []
            for key, status in walk_files(self._root, prefix, None, is_recursive=False):
                if status is not None:
                    rows.append((key, status))
                elif has_file(self._root, key):
                    # An empty folder is nothing to an object store.
                    folders.append(key)
            return Folder(tuple(folders), _batch(rows))

    def first_key(self, prefix: str, start_after: str | None) -> str | None:
        with os_errors_translated(f"listing {self._root}/{prefix}"):
            return first_file(self._root, prefix, start_after)

    def bare_gets(self) -> None:
        """None: there are no requests of our own."""

    def bare_heads(self) -> None:
        """None: there are no requests of our own."""

    def bare_lists(self) -> None:
        """None: there are no requests of our own."""

    def get(self, key: str) -> bytes:
        with os_errors_translated(f"reading {self._root}/{key}"), self._opened(key) as file:
            return file.read()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with os_errors_translated(f"reading {self._root}/{key}"), self._opened(key) as file:
            file.seek(start)
            return file.read(length)

    def get_range_at_once(self, key: str, start: int, length: int) -> bytes:
        """Part of a file that the operating system has in memory; else `WouldWait`."""
        with os_errors_translated(f"reading {self._root}/{key}"):
            try:
                descriptor = os.open(self._path(key), _READ | _WITHOUT_WAITING)
            except PermissionError:
                raise WouldWait from None  # Only a file's owner may leave its time alone; a thread finds out.
            try:
                status = os.fstat(descriptor)
                _require_file(status)
                data = bytearray(max(0, min(length, status.st_size - start)))
                if data and _read_cached(descriptor, data, start) < len(data):
                    raise WouldWait
                return bytes(data)
            finally:
                os.close(descriptor)

    def stream(self, key: str) -> Iterator[bytes]:
        with os_errors_translated(f"reading {self._root}/{key}"), self._opened(key) as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    def head(self, key: str) -> ObjectInfo:
        with os_errors_translated(f"looking up {self._root}/{key}"):
            status = os.lstat(self._path(key))
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(errno.ENOENT, "not a file")
            return _info(key, status)

    def put(self, key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo:
        return self._write(key, [data], create=create, if_match=if_match)

    def put_new(self, objects: Sequence[tuple[str, bytes]]) -> None:
        """Writes several files whose names nobody else knows, and waits for the disk when all are written."""
        real_folders: dict[str, str] = {}
        made: list[str] = []
        opened: list[int] = []
        changed: dict[str, None] = {}
        with os_errors_translated(f"writing {len(objects)} files below {self._root}"):
            try:
                for key, data in objects:
                    path = self._path(key, real_folders)
                    folder = os.path.dirname(path)
                    if folder not in changed:
                        changed |= _make_folder(folder)
                    opened.append(os.open(path, _CREATE, 0o666))
                    made.append(path)
                    _write_all(opened[-1], data)
                if self._fsync:
                    for descriptor in opened:
                        os.fsync(descriptor)
                    _sync_folders(changed)
            except BaseException:
                for path in made:
                    _remove_quietly(path)
                raise
            finally:
                for descriptor in opened:
                    os.close(descriptor)

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> ObjectInfo:
        return self._write(key, chunks, create=False, if_match=None)

    def copy_from(self, source: Backend, source_key: str, target_key: str) -> bool:
        if not isinstance(source, LocalBackend):
            return False
        self._write(target_key, source.stream(source_key), create=False, if_match=None)
        return True

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> Sequence[DeleteOutcome]:
        real_folders: dict[str, str] = {}
        return [self._delete_one(key, terms.etags.get(key), real_folders) for key in keys]

    def _delete_one(
        self, key: str, etag: str | None, real_folders: dict[str, str]
    ) -> DeleteOutcome:
        try:
            path = self._path(key, real_folders)
            status = os.lstat(path)
            mode = status.st_mode
            if stat.S_ISDIR(mode):
                return DeleteOutcome(key, DeleteStatus.ALREADY_ABSENT)
            if not stat.S_ISREG(mode):
                return DeleteOutcome(
                    key, DeleteStatus.FAILED, "not a regular file; such a file is never removed"
                )
            if etag is not None and _etag(status) != etag:
                return DeleteOutcome(key, DeleteStatus.CHANGED)
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return DeleteOutcome(key, DeleteStatus.ALREADY_ABSENT)
        except PermissionError as error:
            return DeleteOutcome(key, DeleteStatus.DENIED, error.strerror or "permission denied")
        except OSError as error:
            return DeleteOutcome(key, DeleteStatus.FAILED, error.strerror or str(error))
        except UnsupportedStoreError as error:
            return DeleteOutcome(key, DeleteStatus.FAILED, error.message)
        return DeleteOutcome(key, DeleteStatus.GONE)

    def _path(self, key: str, real_folders: dict[str, str] | None = None) -> str:
        """The file's path; refuses what would lead out of the root over a link.

        `real_folders` are those that were found before and hold for the same call: to find one takes longer than a delete.
        """
        folder, _, name = key.rpartition("/")
        if any(part.startswith(TEMPORARY_PREFIX) for part in key.split("/")):
            raise UnsupportedStoreError(
                f"{key!r} is a name of half-written files; nothing was done with it."
            )
        if not folder:
            return os.path.join(self._root, name)
        found = {} if real_folders is None else real_folders
        if folder in found:
            return os.path.join(found[folder], name)
        root = self._find_real_root()
        if _is_plain_folder(root, folder):
            found[folder] = real_parent = os.path.join(root, folder)
            return os.path.join(real_parent, name)
        real_parent = os.path.realpath(f"{self._root}/{folder}")
        if real_parent != root and not real_parent.startswith(root.rstrip("/") + "/"):
            raise UnsupportedStoreError(
                f"{key!r} leads out of {self._root} over a symbolic link; nothing was done with it."
            )
        found[folder] = real_parent
        return os.path.join(real_parent, name)

    def _find_real_root(self) -> str:
        """The root without links. To look whether it is still the same folder takes a tenth of the time to find it."""
        try:
            if os.path.samestat(os.stat(self._root), os.lstat(self._real_root)):
                return self._real_root
        except OSError:
            pass  # not there yet, or not any more
        self._real_root = os.path.realpath(self._root)
        return self._real_root

    @contextmanager
    def _opened(self, key: str) -> Iterator[BinaryIO]:
        descriptor = os.open(self._path(key), _READ)
        with os.fdopen(descriptor, "rb") as file:
            _require_file(os.fstat(descriptor))
            yield file

    def _write(
        self, key: str, chunks: Iterable[bytes], *, create: bool, if_match: str | None
    ) -> ObjectInfo:
        with os_errors_translated(f"writing {self._root}/{key}"):
            path = self._path(key)
            if os.path.isdir(path):
                raise OSError(errno.EISDIR, "a folder has this name")
            changed = _make_folder(os.path.dirname(path))
            temporary = os.path.join(os.path.dirname(path), TEMPORARY_PREFIX + secrets.token_hex(8))
            try:
                with open(temporary, "xb") as file:
                    for chunk in chunks:
                        file.write(chunk)
                    file.flush()
                    if self._fsync:
                        os.fsync(file.fileno())
                    status = os.fstat(file.fileno())
                self._put_in_place(temporary, path, create=create, if_match=if_match)
                if self._fsync:
                    _sync_folders(changed)
            except BaseException:
                _remove_quietly(temporary)
                raise
            return _info(key, status)

    def _put_in_place(
        self, temporary: str, path: str, *, create: bool, if_match: str | None
    ) -> None:
        if create:
            try:
                os.link(temporary, path)
            except OSError as error:
                if error.errno in _NO_HARD_LINKS:
                    raise UnsupportedStoreError(
                        f"the file system of {self._root} has no hard links, so a file can't be created only if "
                        "absent; nothing was written."
                    ) from error
                raise
            os.unlink(temporary)
        elif if_match is not None:
            with _folder_locked(os.path.dirname(path)):
                if _etag_of(path) != if_match:
                    raise PreconditionError(
                        f"writing {path} failed: it holds another version; nothing was written."
                    )
                os.replace(temporary, path)
        else:
            os.replace(temporary, path)


def _is_plain_folder(root: str, folder: str) -> bool:
    """Whether every folder on the way from the root is there, and none is a link."""
    path = root
    try:
        for part in folder.split("/") if folder else ():
            path = f"{path}/{part}"
            if part in ("", ".", "..") or not stat.S_ISDIR(os.lstat(path).st_mode):
                return False
    except OSError:
        return False
    return True


def _require_file(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "not a file")


def _read_cached(descriptor: int, data: bytearray, start: int) -> int:
    """Read what is in memory; how many bytes that was."""
    if _READ_CACHED is None:
        return 0
    try:
        return os.preadv(descriptor, [data], start, _READ_CACHED)
    except OSError as error:
        if error.errno in _NOT_CACHED:
            return 0
        raise


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _batch(rows: Sequence[tuple[str, os.stat_result]]) -> pa.RecordBatch:
    return listing_batch(
        [key for key, _ in rows],
        [status.st_size for _, status in rows],
        [status.st_mtime_ns // 1000 for _, status in rows],
        [_etag(status) for _, status in rows],
    )


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    microseconds = status.st_mtime_ns // 1000
    modified = datetime.fromtimestamp(microseconds // 1_000_000, UTC)
    modified = modified.replace(microsecond=microseconds % 1_000_000)
    return ObjectInfo(key, status.st_size, modified, _etag(status))


def _etag(status: os.stat_result) -> str:
    # Every write makes a new file, so the inode tells versions of one nanosecond apart.
    return f'"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"'


def _etag_of(path: str) -> str | None:
    try:
        return _etag(os.lstat(path))
    except FileNotFoundError:
        return None


@contextmanager
def _folder_locked(path: str) -> Iterator[None]:
    """Keeps compare-and-replace of several processes apart; a lock on the folder leaves no lock file behind."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_folder(path: str) -> dict[str, None]:
    """Make a folder and those above it that are missing. The folders that have something new in them, lowest first."""
    if os.path.isdir(path):
        return {path: None}
    changed = _make_folder(os.path.dirname(path))
    with suppress(FileExistsError):  # another writer was quicker
        os.mkdir(path)
    return {path: None, **changed}


def _sync_folders(paths: Iterable[str]) -> None:
    """Wait until names in these folders are on the disk. Called after files were waited for: little is left to do then."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_quietly(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # The error that led here says more, and listings pass over what is left.
