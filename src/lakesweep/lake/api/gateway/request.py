"""What a client asked: one HTTP request, its path and query kept raw beside their decoded forms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

__all__ = ["GatewayRequest", "parse_query"]


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """A request as the gateway sees it. `body` can be read once and yields the bytes as they arrive."""

    method: str
    raw_path: str  # percent-encoded, as sent: the signature is over these bytes
    raw_query: str
    headers: Mapping[str, str]  # names in lower case, repeated values joined with ","
    bucket: str = ""
    key: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Iterable[bytes] = ()

    @property
    def resource(self) -> str:
        """The path for an error's `Resource` element."""
        return "/" + "/".join(part for part in (self.bucket, self.key) if part)

    def user_headers(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Headers whose name starts with `prefix`, with the rest of the name."""
        for name, value in self.headers.items():
            if name.startswith(prefix):
                yield name[len(prefix) :], value


def parse_query(raw_query: str) -> Sequence[tuple[str, str]]:
    """Decode a query string into pairs, in order; a name without `=` has the value ""."""
    pairs = []
    for part in raw_query.split("&"):
        if part:
            name, _, value = part.partition("=")
            pairs.append((_decode(name), _decode(value)))
    return pairs


def _decode(text: str) -> str:
    # S3 reads "+" in a query as a space; a plus sign travels as %2B.
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "surrogateescape")
