"""Whether a delete frees anything: a store may keep deleted objects, by versioning or by soft delete.

`lakesweep doctor` and the report of a sweep ask; deleting itself is the same either way.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass
from enum import Enum
from http.client import HTTPException

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.errors import LakesweepError
from lakesweep.storage.azure_sign import authorised_get
from lakesweep.storage.s3.xml import local_name, parsed_xml
from lakesweep.storage.store import ObjectStore

__all__ = ["Finality", "Kept", "how_final_are_deletes"]

_SERVICE_PROPERTIES = "restype=service&comp=properties"


class Kept(Enum):
    """What becomes of deleted objects."""

    NOT_KEPT = "not kept"
    KEPT = "kept"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finality:
    """The answer, and the words that explain it."""

    kept: Kept
    said: str
    days: int | None = None  # how long a deleted object is kept, where the store tells


def how_final_are_deletes(store: ObjectStore) -> Finality:
    """Ask the store how it is set up; a store that does not tell is answered as unknown."""
    root = store.root
    try:
        if root.kind == "s3":
            return _s3_versioning(root.container, root.key, store.options)
        if root.kind == "azure":
            own = store.options.azure_endpoint or root.endpoint
            endpoint = own or f"https://{root.account}.blob.core.windows.net"
            return _azure_soft_delete(endpoint, root.account, store.options)
    except (LakesweepError, OSError, ValueError, HTTPException) as error:
        return Finality(Kept.UNKNOWN, f"the store does not tell: {error}")
    if root.kind == "gs":
        return Finality(
            Kept.UNKNOWN,
            "buckets keep deleted objects for seven days unless they are set up otherwise",
        )
    return Finality(Kept.NOT_KEPT, "the store keeps nothing that is deleted")


def _s3_versioning(bucket: str, namespace: str, options: StorageOptions) -> Finality:
    from lakesweep.storage.s3.client import s3_client

    what = f"reading the versioning of s3://{bucket}"
    reply = s3_client(bucket, options).request("GET", what, query={"versioning": ""})
    status = _text_of(reply.content, "Status", what)
    if status == "Enabled":
        return Finality(
            Kept.KEPT,
            f"s3://{bucket} is versioned: a deleted object stays as an old version",
            _days_of_old_versions(bucket, namespace, options),
        )
    if status == "Suspended":
        return Finality(
            Kept.KEPT, f"versioning of s3://{bucket} is suspended: earlier versions stay"
        )
    return Finality(Kept.NOT_KEPT, f"s3://{bucket} is not versioned")


def _days_of_old_versions(bucket: str, namespace: str, options: StorageOptions) -> int | None:
    """After how many days a lifecycle rule for all of the namespace removes old versions; None where none is known."""
    from lakesweep.storage.s3.client import s3_client

    what = f"reading the lifecycle of s3://{bucket}"
    try:
        reply = s3_client(bucket, options).request("GET", what, query={"lifecycle": ""})
        rules = [e for e in parsed_xml(reply.content, what).iter() if local_name(e) == "Rule"]
    except LakesweepError:
        return None  # none is set, or we may not ask
    days = []
    for rule in rules:
        texts = {local_name(e): (e.text or "").strip() for e in rule.iter()}
        # Rules for tagged objects, or for all but the newest versions, say nothing of every object.
        is_for_all = not texts.keys() & {"Tag", "NewerNoncurrentVersions", "ObjectSizeGreaterThan"}
        is_for_all &= "ObjectSizeLessThan" not in texts
        covers = f"{namespace}/".startswith(texts.get("Prefix", ""))
        if texts.get("Status") == "Enabled" and is_for_all and covers:
            # A transition to another storage class has such days, too, and removes nothing.
            ends = [e for e in rule if local_name(e) == "NoncurrentVersionExpiration"]
            days += [
                int(e.text or "") for end in ends for e in end if local_name(e) == "NoncurrentDays"
            ]
    return min(days, default=None)


def _azure_soft_delete(endpoint: str, account: str, options: StorageOptions) -> Finality:
    authorised = authorised_get(f"{endpoint}/?{_SERVICE_PROPERTIES}", account, options)
    if authorised is None:
        return Finality(
            Kept.UNKNOWN, "soft delete can be asked for with an account key or a SAS token only"
        )
    url, headers = authorised
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=options.request_timeout_seconds) as reply:
            content = reply.read()
    except urllib.error.HTTPError as error:
        return Finality(Kept.UNKNOWN, f"the account does not tell (HTTP {error.code})")
    policy = next(
        (
            e
            for e in parsed_xml(content, "the account's properties").iter()
            if local_name(e) == "DeleteRetentionPolicy"
        ),
        None,
    )
    values = {local_name(e): e.text or "" for e in policy} if policy is not None else {}
    if values.get("Enabled") == "true":
        days = values.get("Days", "some")
        return Finality(
            Kept.KEPT,
            f"soft delete keeps deleted blobs of {account} for {days} days",
            int(days) if days.isdigit() else None,
        )
    return Finality(Kept.NOT_KEPT, f"soft delete is off in {account}")


def _text_of(content: bytes, name: str, what: str) -> str:
    return next(
        (e.text or "" for e in parsed_xml(content, what).iter() if local_name(e) == name), ""
    )
