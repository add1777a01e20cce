"""A metadata file's JSON, perhaps gzipped, and its fields by shape. A shape that is not right is doubt."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from lakesweep.errors import FormatError
from lakesweep.json_text import parse_json

__all__ = ["Document", "metadata_error", "read_document"]

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31
_MOST_BYTES = 1 << 30
_SMALLEST_LONG, _LARGEST_LONG = -(1 << 63), (1 << 63) - 1


def metadata_error(why: str) -> FormatError:
    """Metadata that can't be understood; who reads a file adds its name."""
    return FormatError(why, kind="damaged-metadata")


class Document:
    """A JSON object whose fields are asked for with their shape. A field that is null counts as missing, as in Java."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def text(self, name: str) -> str:
        """A string that must be there and not be empty."""
        found = self._fields.get(name)
        if type(found) is not str or not found:
            raise metadata_error(f"its field {name!r} is not a text")
        return found

    def text_or_none(self, name: str) -> str | None:
        return None if self._fields.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        """A 64-bit number that must be there."""
        found = self._fields.get(name)
        if type(found) is not int:  # True would be an instance of one
            raise metadata_error(f"its field {name!r} is not a whole number")
        if not _SMALLEST_LONG <= found <= _LARGEST_LONG:
            raise metadata_error(f"its field {name!r} does not fit into 64 bits")
        return found

    def number_or_none(self, name: str) -> int | None:
        return self.number(name) if name in self else None

    def documents(self, name: str) -> list[Document]:
        """A list of objects; one that is missing is empty."""
        return [Document(one) for one in self._list(name, dict)]

    def documents_by_name(self, name: str) -> dict[str, Document]:
        """An object of objects; one that is missing is empty."""
        found = self._fields.get(name)
        inside = {} if found is None else found
        if not isinstance(inside, dict) or not all(isinstance(o, dict) for o in inside.values()):
            raise metadata_error(f"its field {name!r} is not an object of objects")
        return {key: Document(one) for key, one in inside.items()}

    def texts(self, name: str) -> list[str]:
        """A list of strings; one that is missing is empty."""
        return self._list(name, str)

    def texts_by_name(self, name: str, wanted: Sequence[str]) -> dict[str, str]:
        """Some texts in an object of texts; what is missing or of another shape is left out."""
        found = self._fields.get(name)
        inside = found if isinstance(found, dict) else {}
        return {key: text for key in wanted if isinstance(text := inside.get(key), str)}

    def _list(self, name: str, kind: type) -> list[Any]:
        found = self._fields.get(name)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(one, kind) for one in found):
            raise metadata_error(f"its field {name!r} is not a list of {kind.__name__} values")
        return found


def read_document(data: bytes) -> Document:
    """The JSON object in a metadata file; gzip is known by its magic number, whatever the file is called."""
    if data.startswith(_GZIP_MAGIC):
        data = _gunzipped(data)
    try:
        found = _parsed(data)
    except ValueError as error:
        raise metadata_error(f"it is not JSON ({error.__class__.__name__})") from error
    if not isinstance(found, dict):
        raise metadata_error("its JSON is not an object")
    return Document(found)


def _parsed(data: bytes) -> Any:
    """The value of JSON text. The quick parser knows UTF-8 without a mark only, and no deep nesting."""
    try:
        return from_json(data)
    except ValueError:
        return parse_json(data)


def _gunzipped(data: bytes) -> bytes:
    parts: list[bytes] = []
    room = _MOST_BYTES
    while data:
        member = zlib.decompressobj(wbits=_GZIP_WINDOW)
        try:
            parts.append(member.decompress(data, room))
        except zlib.error as error:
            raise metadata_error("its gzip stream is damaged") from error
        if not member.eof:
            raise metadata_error("its gzip stream is cut short or too large")
        room -= len(parts[-1])
        data = member.unused_data
        if data and room <= 0:
            raise metadata_error("its gzip stream is too large")
    return b"".join(parts)
