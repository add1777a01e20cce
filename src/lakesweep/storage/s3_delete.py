"""DeleteObjects: every key acknowledged by name, or its error kept."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from itertools import repeat
from xml.sax.saxutils import escape

from lakesweep.errors import StorageDeniedError, ThrottledError
from lakesweep.storage.s3_client import Reply, S3Client, error_of
from lakesweep.storage.s3_xml import local_name, parsed_xml
from lakesweep.storage.translate import error_from_reply
from lakesweep.storage.values import DeleteOutcome, DeleteStatus

_HEAD = b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
_ACKNOWLEDGED = re.compile(rb"<Deleted><Key>([^<]*)</Key></Deleted>")


def delete_objects(client: S3Client, base: str, keys: Sequence[str]) -> list[DeleteOutcome]:
    """Deletes up to 1,000 keys in one call. A key that the answer does not name counts as failed, never as gone."""
    what = f"deleting {len(keys)} objects in s3://{client.bucket}"
    # Keys hold no line breaks (that would be odd), so all are escaped in one go.
    named = escape(base + f"\n{base}".join(keys)).encode().split(b"\n")
    body = b"".join(
        (
            _HEAD,
            b"<Object><Key>",
            b"</Key></Object><Object><Key>".join(named),
            b"</Key></Object></Delete>",
        )
    )
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    reply = client.request(
        "POST",
        what,
        query={"delete": ""},
        headers={"Content-MD5": digest, "Content-Type": "application/xml"},
        body=body,
    )
    # The usual answer names every key as we wrote it; anything else is read word by word.
    if set(_ACKNOWLEDGED.findall(reply.content)) == set(named) and b"<Error>" not in reply.content:
        return list(map(DeleteOutcome._make, zip(keys, repeat(DeleteStatus.GONE), repeat(""))))
    return _outcomes(reply, what, base, keys)


def _outcomes(reply: Reply, what: str, base: str, keys: Sequence[str]) -> list[DeleteOutcome]:
    root = parsed_xml(reply.content, what)
    if local_name(root) == "Error":
        raise error_of(Reply(0, reply.headers, reply.content), what)
    told: dict[str, DeleteOutcome] = {}
    for child in root:
        fields = {local_name(part): part.text or "" for part in child}
        key = fields.get("Key", "")
        if not key.startswith(base):
            continue
        relative = key[len(base) :]
        if local_name(child) == "Deleted":
            told.setdefault(relative, DeleteOutcome(relative, DeleteStatus.GONE))
        elif local_name(child) == "Error":
            told[relative] = _refused(relative, fields.get("Code", ""), fields.get("Message", ""))
    unknown = "the store's answer does not name this key, so its fate is unknown"
    return [told.get(key) or DeleteOutcome(key, DeleteStatus.FAILED, unknown) for key in keys]


def _refused(key: str, code: str, message: str) -> DeleteOutcome:
    error = error_from_reply(0, code, message, f"deleting {key!r}")
    if isinstance(error, StorageDeniedError):
        return DeleteOutcome(key, DeleteStatus.DENIED, error.message)
    if isinstance(error, ThrottledError):
        return DeleteOutcome(key, DeleteStatus.THROTTLED, error.message)
    return DeleteOutcome(key, DeleteStatus.FAILED, error.message)
