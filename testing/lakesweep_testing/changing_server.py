"""A real server whose answers change between two rounds of a sweep, as a test sets them."""

from __future__ import annotations

import httpx
import pyarrow as pa

from lakesweep.formats.tables import read_uncommitted, write_uncommitted
from lakesweep_testing.cut_lists import without_addresses
from lakesweep_testing.scene import Scene
from lakesweep_testing.trouble import (
    POLL,
    MeddlingTransport,
    Send,
    as_a_real_server,
    edited_answer,
    route_of,
)

__all__ = ["ChangingServer"]


class ChangingServer:
    """A real server's answers that change after the first round."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.staged: set[str] = set()
        self.left_out: set[str] = set()
        self.read_at: dict[str, str] = {}  # addresses that main reads at some paths
        self.diffs: set[str] = set()  # paths that are staged on main besides
        self.stale: tuple[str, ...] = ()  # what of its refs and commits is as it was first
        self._first: dict[str, dict[str, str]] = {}

    @property
    def transport(self) -> MeddlingTransport:
        return as_a_real_server(self._answer)

    def _answer(self, request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) == "POST gc/prepare_uncommited":
            without_addresses(self._scene, response, self.left_out)
            self._add_rows(response)
        if route_of(request) in ("PUT refs/dump", POLL) and response.json().get("completed", True):
            first = self._first.setdefault(route_of(request), response.json())
            return edited_answer(response, **{n: first[n] for n in self.stale if n in first})
        if route_of(request) == "GET branches/main/diff" and self.diffs:
            page = response.json()
            added = [
                {"type": "changed", "path": path, "path_type": "object"} for path in self.diffs
            ]
            results = [*page["results"], *added]
            pagination = {**page["pagination"], "results": len(results)}
            return edited_answer(response, results=results, pagination=pagination)
        read = self.read_at.get(dict(request.url.params).get("path", ""))
        if read is not None and route_of(request) == "GET refs/main/objects/stat":
            address = f"mem://{self._scene.name}/ns/{read}"
            return edited_answer(response, physical_address=address)
        return response

    def _add_rows(self, prepared: httpx.Response) -> None:
        store = self._scene.store
        folder = f"_lakefs/retention/gc/uncommitted/{prepared.json()['run_id']}/uncommitted/"
        key = next(store.keys(folder), None)
        if key is not None:
            rows = read_uncommitted(store.read(key))
            staged = [{"physical_address": a, "creation_date": 0} for a in sorted(self.staged)]
            more = pa.Table.from_pylist(staged, schema=rows.schema)
            store.write(key, write_uncommitted(pa.concat_tables([rows, more])))
