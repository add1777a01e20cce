"""The pages as a server of their own."""

from __future__ import annotations

import ipaddress
import socket

import uvicorn

from lakesweep.errors import ConfigError
from lakesweep.web.app import build_pages
from lakesweep.web.site import Site

__all__ = ["bind", "is_loopback", "serve_pages"]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address to listen on."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, so that the port is known before the link is printed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(
            f"Can't listen on {host} port {port}: {error.strerror}. Nothing was started; "
            "choose another with --host and --port.",
            kind="port-taken",
        ) from error


def serve_pages(site: Site, listener: socket.socket) -> None:
    """Serve until the process is told to stop. Commands that were started go on."""
    config = uvicorn.Config(
        build_pages(site), lifespan="off", log_config=None, access_log=False, server_header=False
    )
    uvicorn.Server(config).run(sockets=[listener])
