"""ListObjects, versions 1 and 2. Keys are `<ref>/<path>`; above the refs, branches look like folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakesweep.lake.api.gateway.arguments import (
    decode_token,
    encode_token,
    quote_etag,
    read_amount,
    url_encode,
)
from lakesweep.lake.api.gateway.call import GatewayResponse, S3Call, xml_response
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.xml import Node, format_time
from lakesweep.lake.values import MAX_PAGE, ObjectStats

__all__ = ["list_objects", "list_objects_v2"]

_SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True)
class _Question:
    """What both versions ask for, their differences in paging already read away."""

    prefix: str
    delimiter: str
    after: str  # a key, exclusive
    amount: int
    encode: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class _Answer:
    """One page. `next_key` is the last key of the page, and empty when there is no more."""

    contents: tuple[Node, ...] = ()
    prefixes: tuple[Node, ...] = ()
    next_key: str = ""


def list_objects(call: S3Call) -> GatewayResponse:
    """Version 1: pages by `marker`."""
    query = call.request.query
    question = _read_question(call, after=query.get("marker", ""))
    answer = _find_page(call, question)
    children = _common_nodes(call, question, answer)
    children.insert(2, ("Marker", question.encode(question.after)))
    if answer.next_key:
        children.insert(3, ("NextMarker", question.encode(answer.next_key)))
    return xml_response("ListBucketResult", children)


def list_objects_v2(call: S3Call) -> GatewayResponse:
    """Version 2: pages by opaque `continuation-token`, the first one after `start-after`."""
    query = call.request.query
    token, start_after = query.get("continuation-token"), query.get("start-after", "")
    question = _read_question(call, after=decode_token(token) if token else start_after)
    answer = _find_page(call, question)
    children = _common_nodes(call, question, answer)
    children.append(("KeyCount", str(len(answer.contents) + len(answer.prefixes))))
    if start_after:
        children.append(("StartAfter", question.encode(start_after)))
    if token:
        children.append(("ContinuationToken", token))
    if answer.next_key:
        children.append(("NextContinuationToken", encode_token(answer.next_key)))
    return xml_response("ListBucketResult", children)


def _read_question(call: S3Call, *, after: str) -> _Question:
    query = call.request.query
    encoding = query.get("encoding-type", "")
    if encoding not in ("", "url"):
        raise S3Error("InvalidArgument", "Invalid Encoding Method specified in Request")
    return _Question(
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        after=after,
        amount=read_amount(query, "max-keys", largest=MAX_PAGE, default=MAX_PAGE),
        encode=url_encode if encoding else str,
    )


def _common_nodes(call: S3Call, question: _Question, answer: _Answer) -> list[Node]:
    query = call.request.query
    children: list[Node] = [
        ("Name", call.repository_id),
        ("Prefix", question.encode(question.prefix)),
        ("MaxKeys", str(question.amount)),
        ("IsTruncated", "true" if answer.next_key else "false"),
    ]
    if question.delimiter:
        children.append(("Delimiter", question.encode(question.delimiter)))
    if "encoding-type" in query:
        children.append(("EncodingType", query["encoding-type"]))
    return [*children, *answer.contents, *answer.prefixes]


def _find_page(call: S3Call, question: _Question) -> _Answer:
    call.repository()
    if question.amount == 0:
        return _Answer()
    if _SEPARATOR in question.prefix:
        return _find_objects(call, question)
    return _find_branches(call, question)


def _find_branches(call: S3Call, question: _Question) -> _Answer:
    page = call.lake.branches.page(
        call.repository(),
        prefix=question.prefix,
        after=question.after.partition(_SEPARATOR)[0],
        amount=question.amount,
    )
    return _Answer(
        prefixes=tuple(
            _prefix_node(question.encode(f"{branch.id}{_SEPARATOR}")) for branch in page.results
        ),
        next_key=f"{page.next_offset}{_SEPARATOR}" if page.has_more else "",
    )


def _find_objects(call: S3Call, question: _Question) -> _Answer:
    ref, _, path_prefix = question.prefix.partition(_SEPARATOR)
    start = f"{ref}{_SEPARATOR}"
    if question.after.startswith(start):
        after = question.after.removeprefix(start)
    elif question.after < start:
        after = ""
    else:
        return _Answer()  # the caller begins behind everything that this ref can hold
    page = call.lake.objects.list_page(
        call.repository(),
        ref,
        prefix=path_prefix,
        after=after,
        amount=question.amount,
        delimiter=question.delimiter,
    )
    return _Answer(
        contents=tuple(
            _object_node(question.encode(start + entry.path), entry)
            for entry in page.results
            if entry.path_type == "object"
        ),
        prefixes=tuple(
            _prefix_node(question.encode(start + entry.path))
            for entry in page.results
            if entry.path_type == "common_prefix"
        ),
        next_key=start + page.next_offset if page.has_more else "",
    )


def _prefix_node(prefix: str) -> Node:
    return ("CommonPrefixes", [("Prefix", prefix)])


def _object_node(key: str, entry: ObjectStats) -> Node:
    children: list[Node] = [("Key", key)]
    if entry.mtime is not None:
        children.append(("LastModified", format_time(entry.mtime)))
    children += [
        ("ETag", quote_etag(entry.checksum)),
        ("Size", str(entry.size_bytes)),
        ("StorageClass", "STANDARD"),
    ]
    return ("Contents", children)
