"""Which contents a reference has at its head, in a form that is small enough to be kept with a mark."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["HeadContents"]

_SIZE = 8  # bytes of a hash


@dataclass(frozen=True, slots=True)
class HeadContents:
    """Hashes of metadata locations. Two locations of one hash can only make an old content look like a head's."""

    hashes: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, locations: Iterable[str]) -> HeadContents:
        """From the metadata locations of all contents at heads."""
        return cls(frozenset(_hash(location) for location in locations))

    def __contains__(self, location: str) -> bool:
        return _hash(location) in self.hashes

    def to_text(self) -> str:
        """A text that `from_text` reads back to an equal value."""
        return base64.b64encode(b"".join(sorted(self.hashes))).decode()

    @classmethod
    def from_text(cls, text: str) -> HeadContents:
        """Read what `to_text` wrote.

        Raises:
            ValueError: it is damaged.
        """
        try:
            data = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError("it is not base64") from error
        if len(data) % _SIZE:
            raise ValueError("it is cut short")
        return cls(frozenset(data[at : at + _SIZE] for at in range(0, len(data), _SIZE)))


def _hash(location: str) -> bytes:
    return hashlib.blake2b(location.encode("utf-8", "surrogatepass"), digest_size=_SIZE).digest()
