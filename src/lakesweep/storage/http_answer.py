"""Answers of HTTP/1.1, read as their bytes come in.

Whatever leaves the end of an answer in doubt is an error: a cut answer must not pass for a whole one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LONGEST_HEAD = 1 << 16
_FRAMING = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE
)
_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([2-5]\d\d)[ \r]")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[^\r\n]*\r\n")
_WITHOUT_BODY = (204, 304)
_IN_CHUNKS = -1  # the length of a body whose chunks say where it ends


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; `head` has its status line and its headers as they came."""

    status: int
    head: bytes
    content: bytes


class BrokenAnswerError(Exception):
    """Bytes that are no answer of HTTP/1.1, or not one whose end can be told."""


class AnswerReader:
    """Reads one answer. `is_last` says, once the head is there, that the server hangs up after it."""

    def __init__(self, *, is_head: bool) -> None:
        self._is_head = is_head  # the answer to HEAD has no body, whatever it says
        self.is_last = False
        self._buffer = bytearray()
        self._body_at = self._length = 0  # no body begins at 0: its head comes first
        self._pieces: list[bytes] = []

    def take(self, data: bytes) -> Answer | None:
        """Add bytes that came in; the answer once it is whole."""
        self._buffer += data
        if not self._body_at and not self._read_head():
            return None
        if self._length == _IN_CHUNKS:
            return self._answer(b"".join(self._pieces)) if self._read_chunks() else None
        end = self._body_at + self._length
        if len(self._buffer) < end:
            return None
        if len(self._buffer) > end:
            raise BrokenAnswerError("more bytes than the answer has")
        return self._answer(bytes(memoryview(self._buffer)[self._body_at :]))

    def _answer(self, content: bytes) -> Answer:
        head = bytes(self._buffer[: self._body_at])
        return Answer(int(head[9:12]), head, content)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _LONGEST_HEAD:
                raise BrokenAnswerError("a head without an end")
            return False
        status = _STATUS_LINE.match(self._buffer)
        if status is None:
            raise BrokenAnswerError("not an answer of HTTP/1.1")
        framing: dict[bytes, bytes] = {}
        for name, value in _FRAMING.findall(self._buffer, 0, end):
            if framing.setdefault(name.lower(), value.strip().lower()) != value.strip().lower():
                raise BrokenAnswerError("headers that contradict each other")
        self.is_last = b"close" in framing.get(b"connection", b"")
        length, coding = framing.get(b"content-length"), framing.get(b"transfer-encoding")
        self._body_at = end + 4
        if self._is_head or int(status[1]) in _WITHOUT_BODY:
            self._length = 0
        elif coding == b"chunked" and length is None:
            self._length = _IN_CHUNKS
        elif coding is None and length is not None and length.isdigit():
            self._length = int(length)
        else:
            raise BrokenAnswerError("a body whose end can't be told")
        return True

    def _read_chunks(self) -> bool:
        """Take whole chunks out of the buffer; True after the last one."""
        at = self._body_at
        while (size := _CHUNK_SIZE.match(self._buffer, at)) is not None:
            first = size.end()
            end = first + int(size[1], 16)
            if len(self._buffer) < end + 2:
                break
            if self._buffer[end : end + 2] != b"\r\n":
                raise BrokenAnswerError("a chunk that does not end where it says, or a trailer")
            if end == first:
                if len(self._buffer) > end + 2:
                    raise BrokenAnswerError("more bytes than the answer has")
                return True
            self._pieces.append(bytes(self._buffer[first:end]))
            at = end + 2
        else:
            if len(self._buffer) - at > _LONGEST_HEAD:
                raise BrokenAnswerError("a chunk without a size")
        del self._buffer[self._body_at : at]
        return False
