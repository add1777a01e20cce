"""What a connection sends in one moment leaves together, all of it and in order."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from lakesweep.lake.connections import GatheredWrites


class _Wire:
    """A transport that remembers what it was given."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


async def _sent(*pieces: bytes, then: Any = None) -> list[bytes]:
    wire = _Wire()
    gathered = GatheredWrites(cast(asyncio.Transport, wire), asyncio.get_running_loop())
    for piece in pieces:
        gathered.write(piece)
    if then is not None:
        then(gathered, wire)
    await asyncio.sleep(0)
    return wire.sent


def test_headers_and_body_leave_together() -> None:
    """And what comes a moment later leaves after them."""
    assert asyncio.run(_sent(b"head", b"body")) == [b"headbody"]

    async def twice() -> list[bytes]:
        wire = _Wire()
        gathered = GatheredWrites(cast(asyncio.Transport, wire), asyncio.get_running_loop())
        for piece in (b"1", b"2"):
            gathered.write(piece)
            await asyncio.sleep(0)
        return wire.sent

    assert asyncio.run(twice()) == [b"1", b"2"]


def test_large_piece_waits_for_nobody() -> None:
    """So that a client that does not read is noticed before the next piece is made; the order stays."""

    def check(gathered: GatheredWrites, wire: _Wire) -> None:
        assert wire.sent == [b"head" + bytes(100_000)]

    sent = asyncio.run(_sent(b"head", bytes(100_000), then=check))
    assert b"".join(sent) == b"head" + bytes(100_000)


def test_nothing_is_lost_when_the_connection_is_closed_behind_it() -> None:
    """An answer that ends its connection still leaves; nothing follows it."""

    def close(gathered: GatheredWrites, wire: _Wire) -> None:
        gathered.close()
        assert wire.is_closed
        gathered.write(b"late")

    assert asyncio.run(_sent(b"bye", then=close)) == [b"bye"]
