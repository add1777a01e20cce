"""The lake's errors in S3's terms: one table."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from lakesweep import errors as base
from lakesweep.lake import errors as lake
from lakesweep.lake.api.gateway.errors import S3Error

__all__ = ["to_s3_error"]

# First match wins, so kin stand before their parents.
_CODE_OF_ERROR: Final[tuple[tuple[type[base.LakesweepError], str], ...]] = (
    (lake.GoneError, "Gone"),
    (lake.PreconditionFailedError, "PreconditionFailed"),
    (lake.ForbiddenError, "AccessDenied"),
    (lake.TooManyTriesError, "SlowDown"),
    (lake.UnsupportedOperationError, "NotImplemented"),
    (lake.ConflictError, "OperationAborted"),
    (base.ConfigError, "InvalidArgument"),
    (base.UnsupportedStoreError, "NotImplemented"),
    (base.StorageDeniedError, "AccessDenied"),
    (base.ThrottledError, "SlowDown"),
)
# S3 knows buckets, keys and uploads. A missing branch is told as a missing bucket, as lakeFS does: clients then
# stop instead of going on with the next key.
_CODE_OF_MISSING: Final = MappingProxyType(
    {
        "entry-not-found": "NoSuchKey",
        "upload-not-found": "NoSuchUpload",
        "repository-not-found": "NoSuchBucket",
        "branch-not-found": "NoSuchBucket",
    }
)
_CODE_OF_INVALID: Final = MappingProxyType(
    {
        "invalid-part": "InvalidPart",
        "part-order": "InvalidPartOrder",
        "no-parts": "MalformedXML",
        "metadata-too-large": "MetadataTooLarge",
        "wrong-size": "InvalidRequest",
        "wrong-sum": "BadDigest",
    }
)


def to_s3_error(error: base.LakesweepError) -> S3Error:
    """The S3 error that says the same; InternalError when it is nobody's fault but ours."""
    if isinstance(error, lake.MissingError):
        return S3Error(_CODE_OF_MISSING.get(error.kind, "NoSuchKey"), error.message)
    if isinstance(error, lake.InvalidRequestError):
        return S3Error(_CODE_OF_INVALID.get(error.kind, "InvalidArgument"), error.message)
    if isinstance(error, lake.RangeNotSatisfiableError):
        return S3Error("InvalidRange", error.message, ActualObjectSize=str(error.size_bytes or 0))
    for kind, code in _CODE_OF_ERROR:
        if isinstance(error, kind):
            return S3Error(code, error.message)
    return S3Error("InternalError", error.message)
