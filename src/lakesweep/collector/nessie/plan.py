"""The plan of an expiry that deletes: durable before the first delete, found again by whoever goes on with it."""

from __future__ import annotations

from datetime import datetime

from lakesweep.collector.lakefs.paths import MarkId, RunId
from lakesweep.collector.nessie.context import NessieContext, SetFolder
from lakesweep.collector.parts import Part
from lakesweep.collector.plan import Plan, PlannedFile, decode_plan
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError

WHAT = "nessie"


def save_plan(
    context: NessieContext,
    live_set_id: LiveSetId,
    catalog: str,
    cutoff: datetime,
    live: Tally,
    parts: list[Part],
) -> Plan:
    """Write down what may be deleted, with the fingerprint of every part."""
    store = context.store
    plan = Plan(
        repository=catalog,
        namespace=context.work.uri,
        run_id=RunId(live_set_id),
        mark_id=MarkId(live_set_id),
        what=WHAT,
        cutoff=cutoff,
        live=live,
        garbage=Tally(sum(p.rows for p in parts), sum(p.bytes for p in parts)),
        files=tuple(
            PlannedFile(p.key, p.rows, p.bytes, store.stat(p.key).etag or "") for p in parts
        ),
    )
    store.write(SetFolder(live_set_id).plan, plan.encode())
    return plan


def find_plan(context: NessieContext, live_set_id: LiveSetId) -> Plan | None:
    """The plan that an earlier expiry of this set left in the work location."""
    key = SetFolder(live_set_id).plan
    try:
        plan = decode_plan(context.store.read(key), f"of live set {live_set_id}")
    except ObjectNotFoundError:
        return None
    if str(plan.mark_id) != str(live_set_id):
        raise UnsafeToSweepError(
            f"The plan in {context.work.uri}/{key} belongs to live set {plan.mark_id}. Nothing was deleted.",
            kind="other-plan",
        )
    return plan


def planned_parts(context: NessieContext, plan: Plan) -> list[Part]:
    """The plan's parts, refused when one of them was changed since it was written."""
    found = dict(context.store.stat_many([file.key for file in plan.files]))
    for file in plan.files:
        info = found[file.key]
        if info is None or (info.etag or "") != file.etag:
            raise UnsafeToSweepError(
                f"{file.key} of plan {plan.id} is missing or was changed. Nothing more was deleted. Mark again.",
                kind="bad-plan",
            )
    return [Part(file.key, file.rows, file.bytes) for file in plan.files]
