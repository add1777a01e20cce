"""Online hard delete: the switch of a repository, what was deleted, bringing it back; and the fence of sweeps."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from lakesweep.lake.api.replies import json_reply, no_content
from lakesweep.lake.api.rest.dependencies import LakeDep
from lakesweep.lake.api.rest.models import (
    FenceAddressesBody,
    FenceBody,
    HardDeleteBody,
    UndoBody,
)
from lakesweep.lake.api.rest.wire import object_document
from lakesweep.lake.records import from_micros, to_micros
from lakesweep.lake.values import MAX_PAGE

router = APIRouter(prefix="/repositories/{repository}")


@router.get("/settings/hard_delete")
def get_hard_delete(lake: LakeDep, repository: str) -> Response:
    """Whether objects go soon after their last reference: what holds, and the repository's own word."""
    found = lake.repositories.get(repository)
    own, server = found.hard_delete, lake.settings.hard_delete
    return json_reply({"enabled": server if own is None else own, "own_setting": own})


@router.put("/settings/hard_delete")
def set_hard_delete(lake: LakeDep, repository: str, body: HardDeleteBody) -> Response:
    """Switch it for one repository; null leaves it to the server."""
    lake.repositories.set_hard_delete(repository, body.enabled)
    return no_content()


@router.get("/gc/hard_deletes")
def list_hard_deletes(
    lake: LakeDep,
    repository: str,
    address: Annotated[list[str] | None, Query(max_length=MAX_PAGE)] = None,
) -> Response:
    """What was deleted for good: of these addresses, or else what can be brought back."""
    found = lake.repositories.get(repository)
    until = {tomb.dropped.address: to_micros(tomb.until) for tomb in lake.tombs.all(found)}
    rows = [
        {
            "address": row.dropped.address,
            "branch_id": row.dropped.branch_id,
            "path": row.dropped.path,
            "dropped_micros": to_micros(row.dropped.since),
            "deleted_micros": to_micros(row.at),
            "outcome": row.outcome,
            "undo_until_micros": until.get(row.dropped.address),
        }
        for row in lake.delete_ledger.rows(found, until if address is None else address)
    ]
    return json_reply({"hard_deletes": rows})


@router.post("/gc/hard_deletes/undo")
def undo_hard_delete(lake: LakeDep, repository: str, body: UndoBody) -> Response:
    """Stage a deleted object again, with the same bytes at a new address."""
    stats = lake.tombs.bring_back(lake.writable(repository), body.address, body.branch, body.path)
    return json_reply(object_document(stats), 201)


@router.put("/gc/fences/{batch}/addresses")
def add_to_fence(lake: LakeDep, repository: str, batch: str, body: FenceAddressesBody) -> Response:
    """Add addresses that a sweep is about to delete to one of its batches."""
    lake.fence_batches.add(lake.writable(repository), batch, body.addresses)
    return no_content()


@router.put("/gc/fences/{batch}")
def put_up_fence(lake: LakeDep, repository: str, batch: str, body: FenceBody) -> Response:
    """Refuse, from the answer on, whatever would revive an address of the batch."""
    until = from_micros(body.until_micros)
    lake.fence_batches.put_up(lake.writable(repository), batch, until)
    return no_content()


@router.delete("/gc/fences/{batch}")
def lift_fence(lake: LakeDep, repository: str, batch: str) -> Response:
    """Refuse it no longer."""
    lake.fence_batches.lift(lake.writable(repository), batch)
    return no_content()
