"""CopyObject, by the lake's own rules: shallow and tracked within a branch's staging area, else the bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from lakesweep.lake.api.gateway.arguments import (
    quote_etag,
    read_user_metadata,
    refuse_unsupported_headers,
    url_decode,
)
from lakesweep.lake.api.gateway.call import GatewayResponse, S3Call, split_key, xml_response
from lakesweep.lake.api.gateway.conditions import check_conditions, check_put_conditions
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.xml import Node, format_time
from lakesweep.lake.errors import MissingError
from lakesweep.lake.users.access import Need, check_access
from lakesweep.lake.values import ObjectStats

__all__ = ["CopySource", "check_entry", "check_source", "copy_object", "read_copy_source"]

_CONDITIONS: Final = "x-amz-copy-source-"


@dataclass(frozen=True, slots=True)
class CopySource:
    """The object that `x-amz-copy-source` names."""

    repository_id: str
    ref: str
    path: str


def read_copy_source(call: S3Call) -> CopySource:
    """Take `[/]<repository>/<ref>/<path>`, percent-encoded, apart; the caller's key must reach it."""
    text = call.request.headers.get("x-amz-copy-source", "")
    location, has_version, _ = text.partition("?versionId=")
    if has_version:
        raise S3Error("NotImplemented", "Copying by version id is not implemented; name a ref.")
    bucket, _, key = url_decode(location).removeprefix("/").partition("/")
    if not bucket or not key:
        raise S3Error("InvalidArgument", "Copy Source must mention the source bucket and key.")
    check_access(call.caller, Need.READ, bucket)
    name = split_key(key)
    return CopySource(bucket, name.ref, name.path)


def check_source(call: S3Call, source: CopySource) -> None:
    """Refuse a source that does not exist or is not the one that the client's conditions describe."""
    try:
        entry = call.lake.objects.stat(
            call.lake.repositories.get(source.repository_id), source.ref, source.path
        )
    except MissingError as error:
        # Without this, a missing source repository would read as if the target bucket were missing.
        raise S3Error("NoSuchKey", f"The copy source does not exist: {error.message}") from None
    check_entry(call, entry)


def check_entry(call: S3Call, entry: ObjectStats) -> None:
    """Refuse an entry that is not the one that the client's conditions describe."""
    check_conditions(call.request.headers, entry, prefix=_CONDITIONS)


def copy_object(call: S3Call) -> GatewayResponse:
    """Copy within a repository or from another one, keeping or replacing metadata."""
    request, name = call.request, call.object_name
    refuse_unsupported_headers(request)
    source = read_copy_source(call)
    check_source(call, source)
    replaces = _replaces_metadata(call)
    copied = call.lake.copying.copy(
        call.writable(),
        name.ref,
        name.path,
        source.path,
        src_ref=source.ref,
        source_repository=call.lake.repositories.get(source.repository_id),
        replace_metadata=read_user_metadata(request) if replaces else None,
        replace_content_type=request.headers.get("content-type") if replaces else None,
        if_absent=check_put_conditions(request.headers),
        check_source=partial(check_entry, call),
    )
    children: list[Node] = [("ETag", quote_etag(copied.checksum))]
    if copied.mtime is not None:
        children.insert(0, ("LastModified", format_time(copied.mtime)))
    return xml_response("CopyObjectResult", children)


def _replaces_metadata(call: S3Call) -> bool:
    directive = call.request.headers.get("x-amz-metadata-directive", "COPY")
    if directive not in ("COPY", "REPLACE"):
        raise S3Error("InvalidArgument", f"Unknown metadata directive {directive[:100]}.")
    return directive == "REPLACE"
