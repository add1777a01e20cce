"""Which names and paths are acceptable."""

from __future__ import annotations

import re

from lakesweep.lake.errors import InvalidRequestError

_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_BRANCH = re.compile(r"\w[-\w]*", re.ASCII)
_TAG_FORBIDDEN = re.compile(r"[\x00-\x20\x7f/^~:?*\[\\]|\.\.|@\{")
_MAX_NAME = 1024
_MAX_PATH_BYTES = 1024
_SCHEME = re.compile(r"(s3|gs|https?|mem|local)://.+")


def check_repository_id(repository_id: str) -> None:
    """3 to 63 of a-z, 0-9 and `-`, not beginning with `-`."""
    if not _REPOSITORY.fullmatch(repository_id):
        raise _invalid(
            f"{repository_id!r} is not a repository name: use 3 to 63 of a-z, 0-9 and '-'"
        )


def check_branch_id(branch_id: str) -> None:
    """Letters, digits, `_` and `-`, not beginning with `-`."""
    if len(branch_id) > _MAX_NAME or not _BRANCH.fullmatch(branch_id):
        raise _invalid(f"{branch_id!r} is not a branch name: use letters, digits, '_' and '-'")


def check_tag_id(tag_id: str) -> None:
    """Much like git's rule: nothing that a ref expression could be mistaken for."""
    is_bad = (
        not tag_id
        or tag_id == "@"
        or len(tag_id) > _MAX_NAME
        or tag_id.endswith((".", ".lock", "@", "$"))
        or _TAG_FORBIDDEN.search(tag_id) is not None
    )
    if is_bad:
        raise _invalid(f"{tag_id!r} is not a tag name")


def check_storage_namespace(storage_namespace: str) -> None:
    """A URI of a kind of store that a namespace may lie in."""
    if not _SCHEME.fullmatch(storage_namespace):
        raise _invalid(
            f"{storage_namespace!r} is not a storage namespace:"
            " use s3://, gs://, https:// (Azure), local:// or mem://"
        )


def path_key(path: str) -> bytes:
    """The ref store's key of an object path; refuses paths that lakeFS refuses."""
    if not path:
        raise _invalid("an object path may not be empty", kind="empty-path")
    try:
        key = path.encode()
    except UnicodeEncodeError as wrong:
        raise _invalid(f"{path!r} is not text, so it is not an object path") from wrong
    if len(key) > _MAX_PATH_BYTES:
        raise _invalid(f"an object path of {len(key)} bytes is longer than {_MAX_PATH_BYTES}")
    return key


def prefix_key(prefix: str) -> bytes:
    """Bytes that a path must start with; may be empty."""
    try:
        return prefix.encode()
    except UnicodeEncodeError as wrong:
        raise _invalid(f"{prefix!r} is not text, so no path starts with it") from wrong


def _invalid(message: str, *, kind: str | None = None) -> InvalidRequestError:
    return InvalidRequestError(f"{message}. Nothing was changed.", kind=kind)
