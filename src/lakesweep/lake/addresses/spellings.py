"""The ways in which one address might be read by one client or another."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

_MOST_DECODINGS = 4


def readings(address: str) -> Iterator[str]:
    """The address as it is, percent-decoded, and with its segments resolved."""
    reading = address
    for _ in range(_MOST_DECODINGS):
        yield reading
        yield _resolved(reading)
        decoded = unquote(reading)
        if decoded == reading:
            return
        reading = decoded


def _resolved(address: str) -> str:
    """The address without empty, `.` and `..` segments, backslashes read as slashes."""
    scheme, _, rest = address.partition(":")
    segments: list[str] = []
    for segment in rest.replace("\\", "/").split("/"):
        if segment == ".." and len(segments) > 1:
            segments.pop()
        elif segment not in ("", ".", ".."):
            segments.append(segment)
    slashes = "///" if rest.startswith("///") or scheme.lower() == "file" else "//"
    return f"{scheme}:{slashes}{'/'.join(segments)}"
