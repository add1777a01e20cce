"""Which right of an object store each of our requests needs, and the policy statement that gives it."""

from __future__ import annotations

import json
import re

_REQUEST = re.compile(
    r"(?P<verb>listing|reading the versioning of|reading|looking up|writing|copying|deleting)\b.*?"
    r"(?P<scheme>[a-z0-9]+)://(?P<container>[^/\s]+)"
)
_S3 = {
    "listing": ("s3:ListBucket",),
    "reading the versioning of": ("s3:GetBucketVersioning",),
    "reading": ("s3:GetObject",),
    "looking up": ("s3:GetObject",),
    "writing": ("s3:PutObject",),
    "copying": ("s3:GetObject", "s3:PutObject"),
    "deleting": ("s3:DeleteObject",),
}
_OF_THE_BUCKET = ("listing", "reading the versioning of")
_GOOGLE = {
    "listing": "storage.objects.list",
    "reading": "storage.objects.get",
    "looking up": "storage.objects.get",
    "writing": "storage.objects.create and storage.objects.delete (to replace)",
    "copying": "storage.objects.get and storage.objects.create",
    "deleting": "storage.objects.delete",
}
_AZURE = {
    "listing": ("read", "l"),
    "reading": ("read", "r"),
    "looking up": ("read", "r"),
    "writing": ("write", "w"),
    "copying": ("read and …/write", "rw"),
    "deleting": ("delete", "d"),
}


def how_to_allow(what: str) -> str:
    """What gives the right to do `what`, as requests are named in errors; empty where that is not known."""
    request = _REQUEST.match(what)
    if request is None:
        return ""
    verb, scheme, container = request.group("verb", "scheme", "container")
    if scheme == "s3":
        resource = f"arn:aws:s3:::{container}" + ("" if verb in _OF_THE_BUCKET else "/*")
        statement = {"Effect": "Allow", "Action": list(_S3[verb]), "Resource": resource}
        return f"The right it needs is {' and '.join(_S3[verb])}: {json.dumps(statement)}"
    if scheme == "gs" and verb in _GOOGLE:
        return (
            f"The right it needs is {_GOOGLE[verb]} on the bucket {container}: a role that has it, such as "
            "roles/storage.objectAdmin, must be granted to the account."
        )
    if scheme in ("http", "https", "abfs", "abfss") and verb in _AZURE:
        action, letters = _AZURE[verb]
        return (
            f"The right it needs is Microsoft.Storage/storageAccounts/blobServices/containers/blobs/{action}: the role "
            f"Storage Blob Data Contributor has it, and a SAS token with {letters!r} among its permissions."
        )
    return ""
