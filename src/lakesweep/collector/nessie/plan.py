"""The plan of an expiry that deletes: durable before the first delete, found again by whoever goes on with it."""

from __future__ import annotations

from datetime import datetime

from lakesweep.collector.nessie.set_files import SetFolder
from lakesweep.collector.plan import Plan, PlannedFile, decode_plan
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.domain.live_sets import LiveSetId
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.storage import ObjectStore

WHAT = "nessie"


def save_plan(
    store: ObjectStore,
    live_set_id: LiveSetId,
    catalog: str,
    cutoff: datetime,
    live: Tally,
    files: tuple[PlannedFile, ...],
    what: str = WHAT,
) -> Plan:
    """Write down what may be deleted, with the fingerprint of every part."""
    plan = Plan(
        repository=catalog,
        namespace=store.root.uri,
        run_id=RunId(live_set_id),
        mark_id=MarkId(live_set_id),
        what=what,
        cutoff=cutoff,
        live=live,
        garbage=Tally(sum(f.rows for f in files), sum(f.bytes for f in files)),
        files=files,
    )
    store.write(SetFolder(live_set_id).plan, plan.encode())
    return plan


def find_plan(store: ObjectStore, live_set_id: LiveSetId) -> Plan | None:
    """The plan that an earlier expiry of this set left in the work location."""
    key = SetFolder(live_set_id).plan
    try:
        plan = decode_plan(store.read(key), f"of live set {live_set_id}")
    except ObjectNotFoundError:
        return None
    if str(plan.mark_id) != str(live_set_id):
        raise UnsafeToSweepError(
            f"The plan in {store.root.uri}/{key} belongs to live set {plan.mark_id}. Nothing was deleted.",
            kind="other-plan",
        )
    return plan
