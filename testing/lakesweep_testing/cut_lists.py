"""A server whose list of uncommitted objects leaves some out without a word."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pyarrow as pa

from lakesweep.formats.tables import read_uncommitted, write_uncommitted
from lakesweep_testing.scene import Scene
from lakesweep_testing.trouble import Send, route_of

__all__ = ["cut_out", "without_addresses"]


def cut_out(scene: Scene, addresses: set[str]) -> Callable[[httpx.Request, Send], httpx.Response]:
    """What a transport does for a server whose list never has these addresses."""

    def cut(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) == "POST gc/prepare_uncommited":
            without_addresses(scene, response, addresses)
        return response

    return cut


def without_addresses(scene: Scene, prepared: httpx.Response, addresses: set[str]) -> int:
    """Take rows out of a list that the server has just written; how many there were."""
    folder = f"_lakefs/retention/gc/uncommitted/{prepared.json()['run_id']}/uncommitted/"
    left_out = 0
    for key in [key for key in scene.present_keys() if key.startswith(folder)]:
        rows = read_uncommitted(scene.store.read(key))
        stay = [a not in addresses for a in rows.column("physical_address").to_pylist()]
        scene.store.write(key, write_uncommitted(rows.filter(pa.array(stay))))
        left_out += stay.count(False)
    return left_out
