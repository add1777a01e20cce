"""What a Nessie commit points at: tables and views, other things, and the text form of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from lakesweep.errors import FormatError

__all__ = [
    "ContentKind",
    "ContentReference",
    "DroppedTable",
    "OtherContent",
    "decode_content_key",
    "encode_content_key",
]

# Stands for a dot inside an element, since a plain dot parts the elements.
_DOT_STAND_IN = "\x1d"
# What follows a `*` in a key that begins with a dot.
_UNESCAPED = {".": ".", "*": "*", "{": "/", "}": "\\", "[": "%"}


class ContentKind(StrEnum):
    """The kinds whose files are collected."""

    ICEBERG_TABLE = "ICEBERG_TABLE"
    ICEBERG_VIEW = "ICEBERG_VIEW"


@dataclass(frozen=True, slots=True)
class ContentReference:
    """A table's or view's state in one live commit. `snapshot_id` is a view's version id."""

    content_id: str
    commit_id: str
    content_key: tuple[str, ...]
    content_type: ContentKind
    metadata_location: str
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class OtherContent:
    """A live content whose files we can't tell (Delta, UDF, unknown): all below its locations is protected."""

    content_id: str
    content_key: tuple[str, ...]
    kind: str
    locations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table or view that no live commit has, as it was put last."""

    content_id: str
    content_key: tuple[str, ...]
    content_type: ContentKind
    metadata_location: str
    snapshot_id: int
    last_seen: datetime | None = None  # until when a reference had it; None: nobody knows
    is_collected: bool = False  # gone for so long that its files may go; else they stay


def encode_content_key(elements: Sequence[str]) -> str:
    """Elements joined by dots, as nessie-gc stores a key; a dot inside an element becomes U+001D."""
    return ".".join(
        element.replace(".", _DOT_STAND_IN).replace("\0", _DOT_STAND_IN) for element in elements
    )


def decode_content_key(text: str) -> tuple[str, ...]:
    """The elements of a stored key, written by us or by nessie-gc in either of its two forms.

    Raises:
        FormatError: a key of the escaped form holds an escape that does not exist.
    """
    if text.startswith("."):
        return _decode_escaped(text)
    return tuple(
        element.replace(_DOT_STAND_IN, ".").replace("\0", ".") for element in text.split(".")
    )


def _decode_escaped(text: str) -> tuple[str, ...]:
    elements = [""]
    characters = iter(text[1:])
    for character in characters:
        if character == ".":
            elements.append("")
        elif character == "*":
            escaped = next(characters, "")
            if escaped not in _UNESCAPED:
                raise FormatError(
                    f"The content key {text!r} holds '*{escaped}', which stands for nothing.",
                    kind="bad-content-key",
                )
            elements[-1] += _UNESCAPED[escaped]
        else:
            elements[-1] += character
    return tuple(elements)
