"""DeleteObjects: up to 1000 keys in one request, an outcome for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from lakesweep.errors import LakesweepError
from lakesweep.lake.api.gateway.call import GatewayResponse, S3Call, split_key, xml_response
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.translation import to_s3_error
from lakesweep.lake.api.gateway.xml import Document, Node

__all__ = ["delete_objects"]

_MOST_KEYS: Final = 1000
# What says of a key which object is meant by it.
_CONDITIONS: Final = ("VersionId", "ETag", "LastModifiedTime", "Size")


def delete_objects(call: S3Call) -> GatewayResponse:
    """Delete each key, branch by branch, and report what was deleted and what was not."""
    document = call.read_xml("Delete")
    keys = _read_keys(document)
    call.repository()
    failures = _delete(call, keys)
    is_quiet = (document.text("Quiet") or "").strip().lower() == "true"
    children = list(_outcomes(keys, failures, is_quiet=is_quiet))
    return xml_response("DeleteResult", children)


def _read_keys(document: Document) -> list[str]:
    objects = list(document.children("Object"))
    if not 1 <= len(objects) <= _MOST_KEYS:
        raise S3Error(
            "MalformedXML", f"A request deletes 1 to {_MOST_KEYS} keys; none was deleted."
        )
    keys = []
    for item in objects:
        for condition in _CONDITIONS:
            if item.text(condition):
                raise S3Error(
                    "NotImplemented",
                    f"DeleteObjects by {condition} is not implemented; none was deleted.",
                )
        key = item.text("Key")
        if key is None:
            raise S3Error("MalformedXML", "An object to delete has no key; none was deleted.")
        keys.append(key)
    return keys


def _delete(call: S3Call, keys: list[str]) -> dict[str, S3Error]:
    """Delete, and give the keys that failed."""
    failures: dict[str, S3Error] = {}
    paths_by_branch: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        try:
            name = split_key(key)
        except S3Error as error:
            failures[key] = error
        else:
            paths_by_branch[name.ref].append(name.path)
    for branch, paths in paths_by_branch.items():
        for path, failure in _delete_on_branch(call, branch, paths):
            failures[f"{branch}/{path}"] = failure
    return failures


def _delete_on_branch(call: S3Call, branch: str, paths: list[str]) -> Iterator[tuple[str, S3Error]]:
    try:
        failed = call.lake.objects.delete_many(call.writable(), branch, paths)
    except LakesweepError as error:
        told = to_s3_error(error)
        yield from ((path, told) for path in paths)
        return
    for failure in failed:
        if not isinstance(failure.error, LakesweepError):
            raise failure.error
        yield failure.path, to_s3_error(failure.error)


def _outcomes(keys: list[str], failures: dict[str, S3Error], *, is_quiet: bool) -> Iterator[Node]:
    for key in keys:
        error = failures.get(key)
        if error is not None:
            yield "Error", [("Key", key), ("Code", error.code), ("Message", error.message)]
        elif not is_quiet:
            yield "Deleted", [("Key", key)]
