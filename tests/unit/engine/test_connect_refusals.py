"""Spark Connect servers that can't be used are told before anything waits for them."""

from __future__ import annotations

import socket

import pytest

from lakesweep.engine.session import refuse_unreachable
from lakesweep.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_nobody_at_the_address() -> None:
    """The message names the address and the flag."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound, and not listening: nobody else can take it meanwhile
        port = bound.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port}.*--remote"):
            refuse_unreachable(f"sc://127.0.0.1:{port}/;user_id=me")


def test_somebody_at_the_address() -> None:
    """Whether it speaks Connect is seen when it is spoken to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        refuse_unreachable(f"sc://127.0.0.1:{server.getsockname()[1]}")


def test_what_is_no_address_is_left_to_spark() -> None:
    """`local` starts a server of its own."""
    refuse_unreachable("local[2]")


def test_way_through_a_proxy_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here the server may well be out of reach."""
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    refuse_unreachable("sc://spark.invalid:443/;use_ssl=true")
