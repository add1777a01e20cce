"""Every operation of the gateway × every role, and that no operation is without a need."""

from __future__ import annotations

import inspect
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from lakesweep.lake.api.gateway import buckets, copying, deleting, listing, multipart, objects
from lakesweep.lake.api.gateway.access import NEED_OF_OPERATION, check_operation_access
from lakesweep.lake.api.gateway.call import GatewayResponse, Handler, S3Call
from lakesweep.lake.api.gateway.copying import read_copy_source
from lakesweep.lake.api.gateway.request import GatewayRequest
from lakesweep.lake.errors import ForbiddenError
from lakesweep.lake.users.access import Need
from lakesweep.lake.values import Credentials

ADMIN = Credentials("AKIA", "secret", "admin", datetime(2026, 1, 1, tzinfo=UTC))
SALES, OTHER = frozenset({"sales"}), frozenset({"other"})
ROLES = {
    "admin": (ADMIN, {Need.KEY, Need.READ, Need.WRITE, Need.MANAGE}),
    "reader": (replace(ADMIN, is_read_only=True), {Need.KEY, Need.READ}),
    "writer of sales": (replace(ADMIN, repositories=SALES), {Need.KEY, Need.READ, Need.WRITE}),
    "reader of sales": (
        replace(ADMIN, is_read_only=True, repositories=SALES),
        {Need.KEY, Need.READ},
    ),
    "writer elsewhere": (replace(ADMIN, repositories=OTHER), {Need.KEY}),
}


def call(caller: Credentials, **headers: str) -> S3Call:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = GatewayRequest("GET", "", "", named, "sales", "main/a")
    return S3Call(cast(Any, None), request, cast(Any, None), caller)


def test_every_operation_has_a_need() -> None:
    """All functions that have the shape of a handler are in the table."""
    handlers = {
        function
        for module in (buckets, copying, deleting, listing, multipart, objects)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_")
        and function.__module__ == module.__name__
        and function.__annotations__
        == {"call": S3Call.__name__, "return": GatewayResponse.__name__}
    }
    assert handlers == set(NEED_OF_OPERATION)
    assert len(handlers) == 21


def test_operations_that_change_something_need_the_right_to_write() -> None:
    """By their names; CreateBucket only says that it creates nothing."""
    reading = {
        handler.__name__
        for handler, need in NEED_OF_OPERATION.items()
        if need in (Need.READ, Need.KEY)
    }
    by_name = {h.__name__ for h in NEED_OF_OPERATION if h.__name__[:4] in ("get_", "head", "list")}
    assert reading == by_name | {"create_bucket"}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("handler", NEED_OF_OPERATION, ids=lambda handler: handler.__name__)
def test_roles_and_operations(handler: Handler, role: str) -> None:
    """Refused exactly where the role may not."""
    caller, may = ROLES[role]
    if NEED_OF_OPERATION[handler] in may:
        check_operation_access(handler, call(caller))
    else:
        with pytest.raises(ForbiddenError, match="nothing was done"):
            check_operation_access(handler, call(caller))


def test_operation_without_a_need_asks_for_every_right() -> None:
    """An operation that someone adds and forgets here is nobody's but the admin's."""

    def new(_call: S3Call) -> GatewayResponse:
        return GatewayResponse()

    check_operation_access(new, call(ADMIN))
    for role in ROLES.keys() - {"admin"}:
        with pytest.raises(ForbiddenError):
            check_operation_access(new, call(ROLES[role][0]))


def test_source_of_a_copy_must_be_reached_too() -> None:
    """Else a key for one repository could copy all others into it."""
    writer, _ = ROLES["writer of sales"]
    with pytest.raises(ForbiddenError, match="'hr'"):
        read_copy_source(call(writer, x_amz_copy_source="/hr/main/salaries"))
    assert read_copy_source(call(writer, x_amz_copy_source="sales/main/a")).repository_id == "sales"
