"""What a handler gets and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lakesweep.lake.api.gateway.body import read_document, verified_body
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.request import GatewayRequest
from lakesweep.lake.api.gateway.sigv4 import Authenticated
from lakesweep.lake.api.gateway.xml import Document, Node, parse_document, render_document
from lakesweep.lake.lake import Lake
from lakesweep.lake.values import Credentials, Repository

__all__ = ["GatewayResponse", "Handler", "ObjectName", "S3Call", "split_key", "xml_response"]


@dataclass(frozen=True, slots=True)
class GatewayResponse:
    """A reply; `body` is either whole or a stream whose length `headers` tells."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Iterator[bytes] = b""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """An S3 key taken apart: the ref before the first slash, the path after it."""

    ref: str
    path: str


@dataclass(frozen=True, slots=True)
class S3Call:
    """One authenticated request and the lake it is about."""

    lake: Lake
    request: GatewayRequest
    authenticated: Authenticated
    caller: Credentials

    @property
    def repository_id(self) -> str:
        return self.request.bucket

    def repository(self) -> Repository:
        """The repository that the bucket names; `MissingError` without one."""
        return self.lake.repositories.get(self.repository_id)

    def writable(self) -> Repository:
        """The repository that the bucket names, where it may be changed."""
        return self.lake.writable(self.repository_id)

    @property
    def object_name(self) -> ObjectName:
        return split_key(self.request.key)

    def read_body(self) -> Iterator[bytes]:
        """The body's plain bytes; they count only once the iterator has ended without an error."""
        return verified_body(self.request, self.authenticated)

    def read_xml(self, root: str, *, is_object: bool = True) -> Document:
        document = read_document(self.request, self.authenticated, is_object=is_object)
        return parse_document(document, root)


Handler: TypeAlias = Callable[[S3Call], GatewayResponse]


def split_key(key: str) -> ObjectName:
    """Take a key apart; one without a ref and a path names no object."""
    ref, _, path = key.partition("/")
    if not ref or not path:
        raise S3Error(
            "NoSuchKey",
            "A key is <branch or ref>/<path>; this one names no object.",
            Key=key,
        )
    return ObjectName(ref, path)


def xml_response(name: str, children: list[Node], status: int = 200) -> GatewayResponse:
    """A reply with an XML document."""
    return GatewayResponse(
        status, {"Content-Type": "application/xml"}, render_document(name, children)
    )
