"""S3's XML answers, read with the standard parser."""

from __future__ import annotations

from xml.etree import ElementTree

from lakesweep.errors import StorageError


def parsed_xml(content: bytes, what: str) -> ElementTree.Element:
    """The answer's root element.

    Raises:
        StorageError: it is no whole XML document; `what` says what it was the answer to.
    """
    try:
        return ElementTree.fromstring(content)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        # A wrong encoding in the first line is a LookupError or a ValueError.
        raise StorageError(
            f"{what}: the answer is not XML ({error}); nothing was taken from it."
        ) from error


def local_name(element: ElementTree.Element) -> str:
    """The element's name without its namespace."""
    return element.tag.rpartition("}")[2]
