"""The `content` part of a form upload, as a stream.

A form is read piece by piece and never held whole: what is in memory is one piece of the request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.exceptions import HTTPException

_CONTENT_PART = b"content"
# Part headers are a name, a file name and a type. More than this is an attack or a mistake.
_MAX_HEADER_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class FormContent:
    """The part named `content`: the type its sender gave it, and its bytes as they arrive."""

    content_type: str
    chunks: AsyncIterator[bytes]


def form_boundary(content_type: str) -> bytes | None:
    """The boundary when this is a form, None when the body is the object itself."""
    media_type, options = parse_options_header(content_type)
    if media_type != b"multipart/form-data":
        return None
    boundary = options.get(b"boundary")
    if not boundary:
        raise HTTPException(
            400, "The form has no boundary in its Content-Type; nothing was stored."
        )
    return boundary


async def open_form_content(body: AsyncIterator[bytes], boundary: bytes) -> FormContent:
    """Read the form up to the first byte of its `content` part."""
    parts = _PartReader(boundary)
    async for piece in body:
        parts.feed(piece)
        if parts.is_found:
            return FormContent(parts.content_type, _rest_of_content(parts, body))
    raise HTTPException(400, "The form has no part named 'content', so there is nothing to store.")


async def _rest_of_content(parts: _PartReader, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while True:
        while parts.pieces:
            yield parts.pieces.popleft()
        if parts.is_finished:
            break
        try:
            parts.feed(await anext(body))
        except StopAsyncIteration:
            raise HTTPException(
                400, "The form ended inside its 'content' part; the object was not stored."
            ) from None
    # The rest of the form is read and dropped, so that the connection can carry the next request.
    async for piece in body:
        parts.feed(piece)


class _PartReader:
    """Push parser that keeps the bytes of the first `content` part and drops all others."""

    def __init__(self, boundary: bytes) -> None:
        self.pieces: deque[bytes] = deque()
        self.content_type = ""
        self.is_found = False
        self.is_finished = False
        self._is_inside = False
        self._header_bytes = 0
        self._name = bytearray()
        self._value = bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin_part,
                "on_header_field": self._add_to_name,
                "on_header_value": self._add_to_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._end_headers,
                "on_part_data": self._add_data,
                "on_part_end": self._end_part,
            },
        )

    def feed(self, piece: bytes) -> None:
        try:
            self._parser.write(piece)
        except FormParserError as error:
            raise HTTPException(
                400, f"The form can't be read ({error}); nothing was stored."
            ) from None

    def _begin_part(self) -> None:
        self._headers = {}
        self._header_bytes = 0

    def _add_to_name(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self._name += data[start:end]

    def _add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self._value += data[start:end]

    def _count_header(self, count: int) -> None:
        self._header_bytes += count
        if self._header_bytes > _MAX_HEADER_BYTES:
            raise HTTPException(400, "A part of the form has too long headers; nothing was stored.")

    def _end_header(self) -> None:
        self._headers[bytes(self._name).lower()] = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _end_headers(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if self.is_found or options.get(b"name") != _CONTENT_PART:
            return
        self.is_found = self._is_inside = True
        self.content_type = self._headers.get(b"content-type", b"").decode("latin-1")

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_inside:
            self.pieces.append(data[start:end])

    def _end_part(self) -> None:
        if self._is_inside:
            self._is_inside = False
            self.is_finished = True
