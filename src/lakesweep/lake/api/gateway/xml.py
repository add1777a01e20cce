"""S3's XML, out and in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias
from xml.etree import ElementTree

from lakesweep.lake.api.gateway.errors import S3Error

__all__ = ["Document", "Node", "error_document", "format_time", "parse_document", "render_document"]

# An element's name with its text, or with its children.
Node: TypeAlias = "tuple[str, str | Sequence[Node]]"

_NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
# Control characters are no XML 1.0, but keys have them and S3 sends them as references.
_ESCAPED: Final = re.compile(r"[&<>\"\x00-\x1f\x7f]")
_NAMED: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def render_document(name: str, children: Sequence[Node]) -> bytes:
    """A whole document with S3's namespace on its root."""
    inner = "".join(map(_render, children))
    return f'{_DECLARATION}<{name} xmlns="{_NAMESPACE}">{inner}</{name}>'.encode(
        "utf-8", "surrogateescape"
    )


def error_document(error: S3Error, resource: str, request_id: str) -> bytes:
    """The body of an error reply; unlike other documents it has no namespace."""
    children: list[Node] = [("Code", error.code), ("Message", error.message)]
    children += [(name, value) for name, value in error.details.items()]
    children += [("Resource", resource), ("RequestId", request_id)]
    return f"{_DECLARATION}{_render(('Error', children))}".encode("utf-8", "surrogateescape")


def format_time(at: datetime) -> str:
    """A time as S3 writes it in XML, in UTC with milliseconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def parse_document(document: bytes, root: str) -> Document:
    """Read a request's XML whose root element is `root`."""
    try:
        parser = ElementTree.XMLParser(target=_PlainTree())
        element = ElementTree.fromstring(document, parser)
    except (ElementTree.ParseError, LookupError, ValueError):  # the last two: of odd encodings
        raise S3Error("MalformedXML", "The XML you provided was not well-formed.") from None
    if _local_name(element) != root:
        raise S3Error("MalformedXML", f"The XML you provided is not a {root} document.")
    return Document(element)


class _PlainTree(ElementTree.TreeBuilder):
    """Builds elements, and refuses a document type, which the parser sees whatever the encoding is."""

    def doctype(self, _name: str, _public_id: str | None, _system: str | None) -> None:
        """Stop: it could declare entities that expand without end, and no S3 request needs one."""
        raise S3Error("MalformedXML", "The XML you provided declares a document type.")


class Document:
    """A parsed element, its children found by name whatever their namespace."""

    def __init__(self, element: ElementTree.Element) -> None:
        self._element = element

    def children(self, name: str) -> Iterator[Document]:
        for child in self._element:
            if _local_name(child) == name:
                yield Document(child)

    def text(self, name: str) -> str | None:
        """The text of the first child of this name, verbatim, or None when there is none."""
        for child in self._element:
            if _local_name(child) == name:
                return child.text or ""
        return None


def _local_name(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _render(node: Node) -> str:
    name, content = node
    if isinstance(content, str):
        inner = _ESCAPED.sub(_escape, content)
    else:
        inner = "".join(map(_render, content))
    return f"<{name}>{inner}</{name}>"


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _NAMED.get(character) or f"&#x{ord(character):X};"
