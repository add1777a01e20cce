"""The one place where foreign errors become ours, with no secret in the message."""

from __future__ import annotations

import errno
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException

from botocore.exceptions import BotoCoreError, HTTPClientError
from obstore import exceptions as obstore_errors

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
from lakesweep.storage.rights import how_to_allow

# The kind of an error that may be gone when the same request is made again.
TRANSIENT = "storage-unreachable"
# The kind of an error about a key that a client can't carry unchanged.
ODD_KEY = "odd-key"
# The kind of an error about the bucket or container, not about one object in it.
NO_PRESIGN = "no-presign"
NO_CONTAINER = "container-not-found"

THROTTLE_STATUSES = frozenset({429, 503})
_THROTTLE_CODES = frozenset(
    {"SlowDown", "ServerBusy", "ThrottlingException", "Throttling", "TooManyRequests"}
    | {"RequestLimitExceeded", "BandwidthLimitExceeded", "rateLimitExceeded", "SlowDownRead"}
    | {"SlowDownWrite", "ServiceUnavailable"}
)
_TRANSIENT_CODES = frozenset(
    {
        "InternalError",
        "RequestTimeout",
        "OperationAborted",
        "OperationTimedOut",
        "InternalServerError",
    }
)
_TRANSIENT_STATUSES = frozenset({408, 500, 502, 504})
_DENIED_CODES = frozenset(
    {
        "AccessDenied",
        "SignatureDoesNotMatch",
        "InvalidAccessKeyId",
        "ExpiredToken",
        "AllAccessDisabled",
    }
    | {
        "AuthenticationFailed",
        "AuthorizationFailure",
        "AuthorizationPermissionMismatch",
        "InvalidToken",
    }
)
# The credentials themselves are wrong, so no right of theirs is missing.
_UNKNOWN_CALLER_CODES = frozenset(
    {"SignatureDoesNotMatch", "InvalidAccessKeyId", "ExpiredToken", "InvalidToken"}
    | {"AuthenticationFailed"}
)
_NO_CONTAINER_CODES = frozenset({"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"})

_STATUS = re.compile(r"status code: (\d{3})|\(code: (\d{3})\)")
_UNPARSED_PATH = "invalid path"
_NO_CONTAINER_WORDS = "container does not exist"
_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_WHAT_TO_DO = {
    errno.ENOSPC: "; nothing was written. Make room there, and run again",
    errno.EDQUOT: "; nothing was written. Raise the quota or make room, and run again",
    errno.EROFS: "; nothing was done. Mount that file system for writing, or name another folder",
}
_QUERY = re.compile(r"\?[^\s\"')]+")


def scrubbed(text: str) -> str:
    """One line of `text` without queries (they carry signatures) and without obstore's dump of its own state."""
    text = text.split("\n\nDebug source", 1)[0]
    return " ".join(_QUERY.sub("?…", text).split())[:500]


def error_from_reply(status: int, code: str, message: str, what: str) -> LakesweepError:
    """The error for a reply that was no success; `what` says what was tried on what."""
    words = " ".join(part for part in (str(status) if status else "", code, message) if part)
    text = f"{what} failed: {scrubbed(words)}"
    if code in _NO_CONTAINER_CODES:
        return ObjectNotFoundError(
            f"{text}; check the bucket's or container's name.", kind=NO_CONTAINER
        )
    if status in THROTTLE_STATUSES or code in _THROTTLE_CODES:
        return ThrottledError(f"{text}; it asked us to slow down. Nothing more was done here.")
    if status in (401, 403) or code in _DENIED_CODES:
        advice = "" if code in _UNKNOWN_CALLER_CODES else how_to_allow(what)
        return StorageDeniedError(
            f"{text}; check the credentials and their rights.{' ' * bool(advice)}{advice}"
        )
    if status == 404:
        return ObjectNotFoundError(f"{text}.")
    if status in (409, 412) or code == "PreconditionFailed":
        return PreconditionError(f"{text}; nothing was written.")
    if status == 501:
        return UnsupportedStoreError(f"{text}; nothing was done.")
    is_transient = status in _TRANSIENT_STATUSES or code in _TRANSIENT_CODES
    return StorageError(f"{text}.", kind=TRANSIENT if is_transient else None)


@contextmanager
def obstore_errors_translated(what: str) -> Iterator[None]:
    """Runs obstore calls; whatever they raise comes out as ours."""
    try:
        yield
    except LakesweepError:
        raise  # Some of ours are OSErrors too.
    except obstore_errors.AlreadyExistsError as error:
        raise ObjectExistsError(
            f"{what} failed: the object exists already; nothing was written."
        ) from error
    except obstore_errors.PreconditionError as error:
        raise PreconditionError(
            f"{what} failed: the store holds another version; nothing was written."
        ) from error
    except obstore_errors.NotSupportedError as error:
        raise UnsupportedStoreError(
            f"{what} is not possible here: {scrubbed(str(error))}"
        ) from error
    except ValueError as error:
        raise UnsupportedStoreError(
            f"{what} is not possible: {scrubbed(str(error))}", kind=ODD_KEY
        ) from error
    except (obstore_errors.BaseError, OSError) as error:
        raise _from_text(
            str(error), what, is_missing=isinstance(error, FileNotFoundError)
        ) from error


def _from_text(text: str, what: str, *, is_missing: bool) -> LakesweepError:
    # obstore gives the reply as text only.
    text = text.split("\n\nDebug source", 1)[0]
    status, code, message = _STATUS.search(text), _CODE.search(text), _MESSAGE.search(text)
    if status is None and is_missing:
        return ObjectNotFoundError(f"{what} failed: there is no such object.")
    if status is None and _UNPARSED_PATH in text:
        return UnsupportedStoreError(
            f"{what} came upon a key that obstore can't carry: {scrubbed(text)}. Nothing was done. Rename or "
            "remove that object, or give credentials that list it without obstore: an account key, a SAS token or a "
            "registered application.",
            kind=ODD_KEY,
        )
    if status is None:
        return StorageError(
            f"{what} failed: {scrubbed(text)}; check the endpoint and the network.", kind=TRANSIENT
        )
    words = message[1] if message else scrubbed(text)
    if _NO_CONTAINER_WORDS in text:
        return error_from_reply(404, "ContainerNotFound", words, what)
    return error_from_reply(int(status[1] or status[2]), code[1] if code else "", words, what)


@contextmanager
def connection_errors_translated(what: str) -> Iterator[None]:
    """Runs requests of our own; whatever the connection raises comes out as ours."""
    try:
        yield
    except LakesweepError:
        raise
    except ssl.SSLCertVerificationError as error:
        raise StorageError(
            f"{what} failed: {scrubbed(str(error))}; check the CA bundle."
        ) from error
    except (OSError, HTTPException, HTTPClientError) as error:
        words = scrubbed(str(error)) or type(error).__name__
        raise StorageError(
            f"{what} failed: {words}; check the endpoint and the network.", kind=TRANSIENT
        ) from error
    except BotoCoreError as error:
        raise StorageError(f"{what} failed: {scrubbed(str(error))}.") from error


@contextmanager
def os_errors_translated(what: str) -> Iterator[None]:
    """Runs calls to the operating system; whatever they raise comes out as ours."""
    try:
        yield
    except LakesweepError:
        raise
    except FileNotFoundError as error:
        raise ObjectNotFoundError(f"{what} failed: there is no such file.") from error
    except FileExistsError as error:
        raise ObjectExistsError(
            f"{what} failed: the file exists already; nothing was written."
        ) from error
    except PermissionError as error:
        raise StorageDeniedError(
            f"{what} failed: {error.strerror}; check the folder's rights."
        ) from error
    except (IsADirectoryError, NotADirectoryError) as error:
        raise ObjectNotFoundError(
            f"{what} failed: {error.strerror}; check which folder it is meant to be in."
        ) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ObjectNotFoundError(
                f"{what} failed: it is a symbolic link, which is not an object."
            ) from error
        advice = _WHAT_TO_DO.get(error.errno or 0, "")
        raise StorageError(f"{what} failed: {error.strerror or error}{advice}.") from error
