"""DeleteObjects, called by ourselves: its answer names every key that was not deleted, and why."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from lakesweep.errors import StorageError
from lakesweep.storage.http_wire import Reply
from lakesweep.storage.s3.client import S3Client, error_of
from lakesweep.storage.s3.xml import local_name, parsed_xml
from lakesweep.storage.translate import error_from_reply
from lakesweep.storage.values import (
    DeleteOutcome,
    DeleteOutcomes,
    DeleteStatus,
    refused_delete,
)

_FIRST = b"<Object><Key>"
_HEAD = b'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>' + _FIRST
_TAIL = b"</Key></Object></Delete>"
# A condition on an object that is gone by now can't hold.
_GONE_CODES = frozenset({"NoSuchKey", "NoSuchVersion"})


def delete_objects(
    client: S3Client, base: str, keys: Sequence[str], etags: Mapping[str, str]
) -> DeleteOutcomes:
    """Deletes up to 1,000 keys in one call, asked to name those that it could not delete, and only those.

    A key in `etags` is deleted only in that version; servers that do not know such conditions pass over them.
    """
    what = f"deleting {len(keys)} objects in s3://{client.bucket}"
    # Keys hold no line breaks (that would be odd), so all are escaped and wrapped in one go.
    named = escape(base + f"\n{base}".join(keys)).encode()
    body = _HEAD + named.replace(b"\n", b"</Key></Object><Object><Key>") + _TAIL
    if etags:
        body = _conditional_body(base, keys, etags)
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    reply = client.request(
        "POST",
        what,
        query={"delete": ""},
        headers={"Content-MD5": digest, "Content-Type": "application/xml"},
        body=body,
    )
    refused = _refused_keys(reply, what, base)
    if not refused.keys() <= set(keys):
        strangers = sorted(refused.keys() - set(keys))
        raise StorageError(
            f"{what}: the answer names {strangers[0]!r}, which was not asked for; the keys' fate is unknown."
        )
    return DeleteOutcomes(keys, refused)


def _conditional_body(base: str, keys: Sequence[str], etags: Mapping[str, str]) -> bytes:
    objects = (
        f"<Object><Key>{escape(base + key)}</Key>"
        + (f"<ETag>{escape(etags[key])}</ETag>" if key in etags else "")
        + "</Object>"
        for key in keys
    )
    return _HEAD.removesuffix(_FIRST) + "".join(objects).encode() + b"</Delete>"


def _refused_keys(reply: Reply, what: str, base: str) -> dict[str, DeleteOutcome]:
    """The keys that the answer names as not deleted."""
    root = parsed_xml(reply.content, what)
    if local_name(root) == "Error":
        raise error_of(Reply(0, reply.headers, reply.content), what)
    if local_name(root) != "DeleteResult":
        raise StorageError(
            f"{what}: the answer is a {local_name(root)!r}; the keys' fate is unknown."
        )
    refused: dict[str, DeleteOutcome] = {}
    for child in root:
        if local_name(child) != "Error":
            continue
        fields = {local_name(part): part.text or "" for part in child}
        key = fields.get("Key", "").removeprefix(base)
        refused[key] = _refused(key, fields.get("Code", ""), fields.get("Message", ""))
    return refused


def _refused(key: str, code: str, message: str) -> DeleteOutcome:
    if code in _GONE_CODES:
        return DeleteOutcome(key, DeleteStatus.GONE)
    return refused_delete(key, error_from_reply(0, code, message, f"deleting {key!r}"))
