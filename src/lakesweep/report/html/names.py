"""Names from a lake, made safe to look at. Escaping for HTML is the templates' work; this is about what the eye sees."""

from __future__ import annotations

from datetime import timedelta

from lakesweep.progress import human_bytes

__all__ = ["counted", "shortened", "size_text", "took", "visible", "visible_lines"]


def visible(text: str) -> str:
    """The text with every character that can't be seen, or that turns the order of others, written as its code."""
    if text.isprintable():
        return text
    return text.translate(_CODES)


def visible_lines(text: str) -> str:
    """A text of several lines, of which each is made visible."""
    return "\n".join(visible(line) for line in text.splitlines())


def shortened(text: str, most: int) -> str:
    """The text in at most so many characters: its middle gives way, since names differ at their ends."""
    shown = visible(text)
    if len(shown) <= most:
        return shown
    head = (most - 1) // 2
    return f"{shown[:head]}…{shown[len(shown) - (most - 1 - head) :]}"


def size_text(size: int | None) -> str:
    """Bytes as people read them; a dash where nobody knows."""
    return "–" if size is None else human_bytes(size)


def counted(number: int, noun: str) -> str:
    """`1 day`, `2 days`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def took(seconds: float) -> str:
    """A time span as people read it: `0.4 s`, `75 s`, `12 min`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    span = timedelta(seconds=seconds)
    minutes = span / timedelta(minutes=1)
    if minutes >= 120:
        return f"{minutes / 60:.1f} h"
    return f"{minutes:.1f} min" if minutes < 10 else f"{minutes:.0f} min"


class _Codes(dict[int, str]):
    """Each character by its number, as it is shown."""

    def __missing__(self, number: int) -> str:
        code = f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
        shown = self[number] = chr(number) if chr(number).isprintable() else code
        return shown


_CODES = _Codes()
