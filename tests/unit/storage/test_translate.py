"""Foreign errors come out as ours, by what a caller would do about them, and with no secret."""

from __future__ import annotations

import errno
import os

import pytest
from obstore.exceptions import AlreadyExistsError, GenericError
from obstore.exceptions import PreconditionError as ObstorePreconditionError

from lakesweep.errors import (
    LakesweepError,
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionError,
    StorageDeniedError,
    StorageError,
    ThrottledError,
    UnsupportedStoreError,
)
from lakesweep.storage.translate import (
    NO_CONTAINER,
    ODD_KEY,
    TRANSIENT,
    error_from_reply,
    obstore_errors_translated,
    os_errors_translated,
    scrubbed,
)


@pytest.mark.parametrize(
    ("status", "code", "expected", "kind"),
    [
        (404, "NoSuchBucket", ObjectNotFoundError, NO_CONTAINER),
        (404, "ContainerNotFound", ObjectNotFoundError, NO_CONTAINER),
        (404, "NoSuchKey", ObjectNotFoundError, "object-not-found"),
        (403, "AccessDenied", StorageDeniedError, "storage-denied"),
        (401, "", StorageDeniedError, "storage-denied"),
        (400, "ExpiredToken", StorageDeniedError, "storage-denied"),
        (503, "SlowDown", ThrottledError, "throttled"),
        (429, "", ThrottledError, "throttled"),
        (0, "SlowDown", ThrottledError, "throttled"),
        (500, "InternalError", StorageError, TRANSIENT),
        (0, "InternalError", StorageError, TRANSIENT),
        (412, "PreconditionFailed", PreconditionError, "precondition"),
        (501, "NotImplemented", UnsupportedStoreError, "unsupported-store"),
        (400, "InvalidArgument", StorageError, "storage"),
    ],
)
def test_replies_are_sorted_by_what_to_do(
    status: int, code: str, expected: type[LakesweepError], kind: str
) -> None:
    """Status and code together decide."""
    error = error_from_reply(status, code, "words", "listing s3://b/p")
    assert type(error) is expected
    assert error.kind == kind
    assert "listing s3://b/p" in str(error)


@pytest.mark.parametrize(
    ("raised", "expected", "kind"),
    [
        (AlreadyExistsError("x"), ObjectExistsError, None),
        (ObstorePreconditionError("x"), PreconditionError, None),
        (FileNotFoundError("Object at location x not found"), ObjectNotFoundError, None),
        (ValueError("Could not parse path"), UnsupportedStoreError, ODD_KEY),
        (
            GenericError('Encountered object with invalid path: Path "a//b"'),
            UnsupportedStoreError,
            ODD_KEY,
        ),
        (GenericError("HTTP error: error sending request"), StorageError, TRANSIENT),
        (
            GenericError("status code: 503 Slow: <Error><Code>SlowDown</Code></Error>"),
            ThrottledError,
            None,
        ),
        (GenericError("failed for key x: Server busy. (code: 503)"), ThrottledError, None),
        (
            FileNotFoundError("key x: The specified container does not exist. (code: 404)"),
            ObjectNotFoundError,
            NO_CONTAINER,
        ),
    ],
)
def test_obstore_errors_are_ours(
    raised: Exception, expected: type[LakesweepError], kind: str | None
) -> None:
    """obstore gives most of it as text."""
    with pytest.raises(expected) as caught, obstore_errors_translated("reading x"):
        raise raised
    assert type(caught.value) is expected
    assert kind is None or caught.value.kind == kind


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (FileNotFoundError(errno.ENOENT, "no"), ObjectNotFoundError),
        (FileExistsError(errno.EEXIST, "yes"), ObjectExistsError),
        (PermissionError(errno.EACCES, "denied"), StorageDeniedError),
        (NotADirectoryError(errno.ENOTDIR, "no"), ObjectNotFoundError),
        (OSError(errno.ELOOP, "loop"), ObjectNotFoundError),
        (OSError(errno.ENOSPC, "full"), StorageError),
    ],
)
def test_operating_system_errors_are_ours(raised: OSError, expected: type[LakesweepError]) -> None:
    """By their number."""
    with pytest.raises(expected) as caught, os_errors_translated("writing x"):
        raise raised
    assert type(caught.value) is expected


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "nothing was written. Make room there"),
        (errno.EDQUOT, "nothing was written. Raise the quota"),
        (errno.EROFS, "nothing was done. Mount that file system"),
        (errno.ENOTDIR, "check which folder it is meant to be in"),
    ],
)
def test_a_disk_that_takes_nothing_says_what_to_do(number: int, said: str) -> None:
    """It is the user's to mend, so the words of the system are not enough."""
    with (
        pytest.raises(StorageError, match=f"writing x failed: .*; {said}"),
        os_errors_translated("writing x"),
    ):
        raise OSError(number, os.strerror(number))


def test_signatures_are_scrubbed() -> None:
    """A signed URL in a foreign message loses its query, and obstore's own state is cut off."""
    text = "GET https://a.blob.core.windows.net/c/k?sv=1&sig=SECRET failed\n\nDebug source:\nsig=SECRET"
    assert scrubbed(text) == "GET https://a.blob.core.windows.net/c/k?… failed"
