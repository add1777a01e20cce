"""Calls that the embedded lake alone answers: the fence of a sweep, and online hard delete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pydantic import BaseModel

from lakesweep.catalogs.lakefs.transport import Params, Transport, parse_answer
from lakesweep.catalogs.lakefs.wire import (
    HardDeleteSettingWire,
    HardDeletesWire,
    HardDeleteWire,
    ObjectStatsWire,
)

__all__ = ["EmbeddedLakeCalls"]

Wire = TypeVar("Wire", bound=BaseModel)
_ADDRESSES_AT_ONCE = 100  # in one URL
_FENCED_AT_ONCE = 10_000  # in one body
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EmbeddedLakeCalls:
    """A part of the client, for servers whose profile says that they have it."""

    _http: Transport

    # -- the fence of a sweep; the embedded lake alone has one

    def add_to_fence(self, repository: str, batch: str, addresses: Sequence[str]) -> None:
        """Tell the server addresses that a sweep is about to delete, for `put_up_fence`."""
        operation = f"fencing {len(addresses)} addresses of {repository}"
        path = ["repositories", repository, "gc", "fences", batch, "addresses"]
        for start in range(0, len(addresses), _FENCED_AT_ONCE):
            body = {"addresses": list(addresses[start : start + _FENCED_AT_ONCE])}
            self._http.change(operation, "PUT", path, body=body, expect=(204,))

    def put_up_fence(self, repository: str, batch: str, until: datetime) -> None:
        """Have the server refuse whatever would revive an address of the batch; at most until this time."""
        operation = f"putting up the fence of a sweep of {repository}"
        path = ["repositories", repository, "gc", "fences", batch]
        body = {"until_micros": (until - _EPOCH) // timedelta(microseconds=1)}
        self._http.change(operation, "PUT", path, body=body, expect=(204,))

    def lift_fence(self, repository: str, batch: str) -> None:
        """Have the server refuse it no longer."""
        operation = f"lifting the fence of a sweep of {repository}"
        path = ["repositories", repository, "gc", "fences", batch]
        self._http.change(operation, "DELETE", path, expect=(204,))

    # -- online hard delete; the embedded lake alone has it

    def hard_delete_setting(self, repository: str) -> HardDeleteSettingWire:
        """Whether the server deletes objects of the repository soon after their last reference."""
        operation = f"asking whether {repository} is hard-deleted from"
        path = ["repositories", repository, "settings", "hard_delete"]
        return self._ask(operation, HardDeleteSettingWire, path)

    def set_hard_delete(self, repository: str, enabled: bool | None) -> None:
        """Switch it for one repository; None leaves it to the server."""
        operation = f"switching hard delete of {repository}"
        path = ["repositories", repository, "settings", "hard_delete"]
        self._http.change(operation, "PUT", path, body={"enabled": enabled}, expect=(204,))

    def hard_deletes(
        self, repository: str, addresses: Sequence[str] | None = None
    ) -> list[HardDeleteWire]:
        """What the server deleted by itself of these addresses, oldest first; without any, what can be brought back."""
        operation = f"asking what was hard-deleted from {repository}"
        path = ["repositories", repository, "gc", "hard_deletes"]
        if addresses is None:
            return self._ask(operation, HardDeletesWire, path).hard_deletes
        found: list[HardDeleteWire] = []
        for start in range(0, len(addresses), _ADDRESSES_AT_ONCE):
            some = list(addresses[start : start + _ADDRESSES_AT_ONCE])
            found += self._ask(operation, HardDeletesWire, path, {"address": some}).hard_deletes
        return found

    def undo_hard_delete(
        self, repository: str, address: str, branch: str = "", path: str = ""
    ) -> ObjectStatsWire:
        """Have the server stage a deleted object again; where it was, unless said otherwise."""
        operation = f"bringing back {address} of {repository}"
        route = ["repositories", repository, "gc", "hard_deletes", "undo"]
        body = {"address": address, "branch": branch, "path": path}
        response = self._http.change(operation, "POST", route, body=body, expect=(201,))
        return parse_answer(operation, ObjectStatsWire, response.content)

    def _ask(
        self, operation: str, model: type[Wire], path: list[str], params: Params | None = None
    ) -> Wire:
        return parse_answer(operation, model, self._http.get(operation, path, params).content)
