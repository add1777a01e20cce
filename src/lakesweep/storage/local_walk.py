"""Walking a folder in the key order of object stores, over any file name, following no link."""

from __future__ import annotations

import os
from collections.abc import Iterator
from operator import itemgetter
from typing import Literal, overload

# Half-written files; never objects.
TEMPORARY_PREFIX = ".lakesweep-tmp-"


@overload
def walk_files(
    root: str, prefix: str, start_after: str | None
) -> Iterator[tuple[str, os.stat_result]]: ...
@overload
def walk_files(
    root: str, prefix: str, start_after: str | None, *, is_recursive: Literal[False]
) -> Iterator[tuple[str, os.stat_result | None]]: ...
def walk_files(
    root: str, prefix: str, start_after: str | None, *, is_recursive: bool = True
) -> Iterator[tuple[str, os.stat_result | None]]:
    """(key, status) of every file whose key begins with `prefix` and sorts after `start_after`, in byte order.

    Without `is_recursive`, folders come out as (key ending in "/", None) and are not entered.
    """
    folder = prefix[: prefix.rfind("/") + 1]
    path = os.path.join(os.path.realpath(root), folder).rstrip("/") or "/"
    if os.path.realpath(path) != path:
        return iter(())  # Over a link, or over "..": no object has such a key.
    return _walk(path, folder, prefix, start_after, is_recursive)


def first_file(root: str, prefix: str, start_after: str | None) -> str | None:
    """The smallest key of `walk_files`."""
    return next((key for key, _ in walk_files(root, prefix, start_after)), None)


def has_file(root: str, folder: str) -> bool:
    """Whether any object lies below `folder`, which ends in "/"."""
    return first_file(root, folder, None) is not None


def _walk(
    path: str, folder: str, prefix: str, start_after: str | None, is_recursive: bool
) -> Iterator[tuple[str, os.stat_result | None]]:
    for name, entry in _sorted_entries(path):
        key = folder + name
        is_folder = name.endswith("/")
        if not key.startswith(prefix):
            continue
        is_before = start_after is not None and key <= start_after
        # A folder that sorts before may still hold keys that sort after.
        if is_before and not (is_folder and str(start_after).startswith(key)):
            continue
        if is_folder:
            if is_recursive:
                yield from _walk(entry.path, key, prefix, start_after, is_recursive)
            else:
                yield key, None
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # Removed since the folder was read: it is no longer there to be listed.
        yield key, status


def _sorted_entries(path: str) -> list[tuple[str, os.DirEntry[str]]]:
    """Files and folders of `path`, folders with a "/" so that they sort as their keys do."""
    found: list[tuple[str, os.DirEntry[str]]] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith(TEMPORARY_PREFIX):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    found.append((_text(name) + "/", entry))
                elif entry.is_file(follow_symlinks=False):
                    found.append((_text(name), entry))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found.sort(key=itemgetter(0))
    return found


def _text(name: str) -> str:
    """The name as text; bytes that are no UTF-8 become U+FFFD, which makes the key odd and so untouchable."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return os.fsencode(name).decode("utf-8", "replace")
    return name
