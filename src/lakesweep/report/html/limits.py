"""How much of names and lists a page shows. A page that grows too large is made again with less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakesweep.report.html.names import shortened, visible_lines

__all__ = ["LIMITS", "MOST_BYTES", "Limits", "Names"]

MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Names:
    """A few names, and how many more there are."""

    shown: list[str]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """Letters of a name and of a text, items of a list, the largest objects, and commits of a graph."""

    letters: int
    text: int
    items: int
    largest: int
    commits: int

    def name(self, text: str) -> str:
        """A name of the lake."""
        return shortened(text, self.letters)

    def said(self, text: str) -> str:
        """A message."""
        shown = visible_lines(text)
        return shown if len(shown) <= self.text else f"{shown[: self.text]} …"

    def few(self, names: Sequence[str]) -> Names:
        """Names of the lake."""
        shown = [self.name(name) for name in names[: self.items]]
        return Names(shown, len(names) - len(shown))

    def each(self, texts: Sequence[str]) -> Iterator[str]:
        """Messages, and a word on those that are left out."""
        yield from (self.said(text) for text in texts[: self.items])
        if len(texts) > self.items:
            yield f"… and {len(texts) - self.items:,} more."


# An object of S3 has a name of 1,024 bytes at most.
LIMITS = (
    Limits(letters=1_200, text=4_000, items=50, largest=100, commits=120),
    Limits(letters=300, text=1_000, items=20, largest=100, commits=60),
    Limits(letters=100, text=300, items=5, largest=30, commits=20),
)
