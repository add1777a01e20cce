"""The table of what this lake does not do."""

from __future__ import annotations

from fastapi.routing import APIRoute

from lakesweep.lake.api.app import _ROUTERS
from lakesweep.lake.api.rest.unsupported import UNSUPPORTED_OPERATIONS, router


def test_no_operation_is_both_supported_and_not() -> None:
    """A route of ours must not be hidden by, or hide, a line of the table."""
    supported = {
        (method, _nameless(route.path))
        for one in _ROUTERS
        if one is not router
        for route in one.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    refused = {(each.method, _nameless(each.path)) for each in UNSUPPORTED_OPERATIONS}
    assert len(refused) == len(UNSUPPORTED_OPERATIONS)
    assert not supported & refused


def _nameless(path: str) -> str:
    return "/".join("{}" if step.startswith("{") else step for step in path.split("/"))
