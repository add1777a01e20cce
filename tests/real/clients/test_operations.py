"""No operation of lakeFS's API is overlooked: each is supported, or refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import lakefs_sdk
import pytest
from fastapi.routing import APIRoute

from lakesweep.lake.api.app import _ROUTERS

pytestmark = pytest.mark.real

# The generated client names path and method of each operation in one call.
_CALL = re.compile(r"call_api\(\s*'(?P<path>/[^']*)', '(?P<method>[A-Z]+)'")


def _nameless(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


def test_every_operation_of_the_sdk_has_a_route() -> None:
    """An operation that is neither supported nor in the table of refused ones would be a bare 404."""
    folder = Path(lakefs_sdk.__file__).parent / "api"
    asked = {
        (call["method"], _nameless(call["path"]))
        for module in folder.glob("*_api.py")
        for call in _CALL.finditer(module.read_text())
    }
    answered = {
        (method, _nameless(route.path))
        for router in _ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    assert len(asked) > 100
    assert asked - answered == set()
