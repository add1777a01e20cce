"""Every error that lakesweep raises on purpose, grouped by what a caller would do about it.

    LakesweepError
    ├── ConfigError                 fix the command or the settings; nothing was touched          exit 2
    │   └── UnknownOptionError      a Python function has no such option       (also a TypeError)
    ├── CatalogError                the lakeFS or Nessie server refused or could not be reached    exit 3
    │   ├── CatalogNotFoundError    … has no such thing                      (also a LookupError)
    │   └── CatalogDeniedError      … did not allow it                   (also a PermissionError)
    ├── StorageError                the object store refused or could not be reached               exit 3
    │   ├── ObjectNotFoundError     … has no such object or container        (also a LookupError)
    │   ├── StorageDeniedError      … did not allow it                   (also a PermissionError)
    │   ├── ObjectExistsError       … has it already (create-if-absent)   (also a FileExistsError)
    │   ├── PreconditionError       … holds another version than the one named
    │   ├── ThrottledError          … asked us to slow down, for longer than we retry
    │   └── UnsupportedStoreError   … can't do this at all
    ├── UnsafeToSweepError          doubt: look before going on; nothing was deleted               exit 4
    │   └── FormatError             bytes that are not what they should be      (also a ValueError)
    ├── PartlySweptError            some was deleted and the sweep is not complete                 exit 5
    ├── InterruptedRunError         stopped by the user                                          exit 130
    ├── OutputError                 done, and the result could not be written to stdout            exit 141
    └── UnexpectedError             a bug, ours or a library's: report it                          exit 1

A message says what failed, on which thing, what was *not* done, and what to try. `kind` is a stable code for
scripts; the class decides the exit status.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "CatalogDeniedError",
    "CatalogError",
    "CatalogNotFoundError",
    "ConfigError",
    "FormatError",
    "InterruptedRunError",
    "LakesweepError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "OutputError",
    "PartlySweptError",
    "PreconditionError",
    "StorageDeniedError",
    "StorageError",
    "ThrottledError",
    "UnexpectedError",
    "UnknownOptionError",
    "UnsafeToSweepError",
    "UnsupportedStoreError",
]


class LakesweepError(Exception):
    """Base of all errors raised on purpose. `kind` is a stable code such as `lease-held`."""

    exit_status = 1
    default_kind = "bug"

    def __init__(self, message: str, *, kind: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or self.default_kind

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark workers); `kind` is keyword-only, so say how to rebuild it.
        return (_rebuild, (type(self), self.message, self.kind))


def _rebuild(cls: type[LakesweepError], message: str, kind: str) -> LakesweepError:
    return cls(message, kind=kind)


class ConfigError(LakesweepError):
    """The command line, the environment, a file or a property is wrong."""

    exit_status = 2
    default_kind = "config"


class UnknownOptionError(ConfigError, TypeError):
    """A function of the Python API was given an option that it does not have."""

    default_kind = "unknown-option"


class CatalogError(LakesweepError):
    """A catalog server refused, failed or could not be reached."""

    exit_status = 3
    default_kind = "catalog"


class CatalogNotFoundError(CatalogError, LookupError):
    """The catalog has no such repository, branch, commit or rule."""

    default_kind = "catalog-not-found"


class CatalogDeniedError(CatalogError, PermissionError):
    """The catalog did not accept the credentials, or they lack a right."""

    default_kind = "catalog-denied"


class StorageError(LakesweepError):
    """An object store refused, failed or could not be reached."""

    exit_status = 3
    default_kind = "storage"


class ObjectNotFoundError(StorageError, LookupError):
    """The store has no such object, bucket or container."""

    default_kind = "object-not-found"


class StorageDeniedError(StorageError, PermissionError):
    """The store did not accept the credentials, or they lack a right."""

    default_kind = "storage-denied"


class ObjectExistsError(StorageError, FileExistsError):
    """The object is there already, and the caller asked to create it."""

    default_kind = "object-exists"


class PreconditionError(StorageError):
    """The object is not the version that the caller named."""

    default_kind = "precondition"


class ThrottledError(StorageError):
    """The store kept asking us to slow down."""

    default_kind = "throttled"


class UnsupportedStoreError(StorageError):
    """The store can't do what was asked, so it was not done."""

    default_kind = "unsupported-store"


class UnsafeToSweepError(LakesweepError):
    """There is doubt about what is live, so nothing was deleted."""

    exit_status = 4
    default_kind = "unsafe"


class FormatError(UnsafeToSweepError, ValueError):
    """Bytes in the catalog's files are damaged, cut short or of an unknown kind."""

    default_kind = "format"


class PartlySweptError(LakesweepError):
    """Something was deleted, and the sweep did not come to its end."""

    exit_status = 5
    default_kind = "partly-swept"


class InterruptedRunError(LakesweepError):
    """The user stopped the run; `lakesweep runs resume` goes on."""

    exit_status = 130
    default_kind = "interrupted"


class OutputError(LakesweepError):
    """Nobody reads stdout any more, or there is no room for the result. What was done stays done."""

    exit_status = 141
    default_kind = "output-not-written"


class UnexpectedError(LakesweepError):
    """An exception that nobody foresaw, ours or a library's; its cause is the exception itself."""


@contextmanager
def foreign_errors_as_ours(not_done: str) -> Iterator[None]:
    """An exception that is not ours leaves the block as an `UnexpectedError`, so that it ends a run as ours do.

    A panic inside the store's client is such an exception, and no `Exception`. `not_done` says what was not done.
    """
    try:
        yield
    except (LakesweepError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        said = " ".join(str(error).split())
        raise UnexpectedError(
            f"Something unexpected happened: {type(error).__name__}: {said}. {not_done} This is a bug: please report it."
        ) from error
