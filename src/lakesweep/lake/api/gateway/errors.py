"""S3 errors: a code, a status and a sentence. Every refusal of the gateway is one of these."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

__all__ = ["STATUS_OF", "S3Error"]

# The one table of the codes this gateway answers and the HTTP status of each.
STATUS_OF: Final = MappingProxyType(
    {
        "AccessDenied": 403,
        "AuthorizationHeaderMalformed": 400,
        "AuthorizationQueryParametersError": 400,
        "BadDigest": 400,
        "BucketAlreadyExists": 409,
        "EntityTooLarge": 400,
        "Gone": 410,
        "IncompleteBody": 400,
        "InternalError": 500,
        "InvalidAccessKeyId": 403,
        "InvalidArgument": 400,
        "InvalidPart": 400,
        "InvalidPartOrder": 400,
        "InvalidRange": 416,
        "InvalidRequest": 400,
        "InvalidURI": 400,
        "MalformedXML": 400,
        "MetadataTooLarge": 400,
        "MissingContentLength": 411,
        "NoSuchBucket": 404,
        "NoSuchKey": 404,
        "NoSuchUpload": 404,
        "NotImplemented": 501,
        "NotModified": 304,
        "OperationAborted": 409,
        "PreconditionFailed": 412,
        "RequestTimeTooSkewed": 403,
        "RequestTimeout": 400,
        "SignatureDoesNotMatch": 403,
        "SlowDown": 503,
        "XAmzContentSHA256Mismatch": 400,
    }
)


class S3Error(Exception):
    """A refusal in S3's terms. `details` become further elements of the XML body."""

    def __init__(self, code: str, message: str, **details: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = STATUS_OF[code]
        self.details = details
