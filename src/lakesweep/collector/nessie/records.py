"""Plans and records of runs on a live set, kept in the work location."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from lakesweep.collector.nessie.collected_places import first_few
from lakesweep.collector.nessie.live_catalog import LiveCatalog
from lakesweep.collector.nessie.mark import FilesFound
from lakesweep.collector.nessie.set_files import SetFolder
from lakesweep.collector.plan import Plan, PlannedFile, decode_plan
from lakesweep.collector.record import RunRecord, RunStatus, decode_record
from lakesweep.collector.run_files import MarkId, RunId
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep.domain.live_sets import LiveSet, LiveSetId, MarkFacts
from lakesweep.domain.verdicts import Tally, Verdict
from lakesweep.errors import FormatError, ObjectNotFoundError, UnsafeToSweepError
from lakesweep.storage import ObjectStore

WHAT = "nessie"
DEFERRED = "deferred"  # the flow of an expiry that records files for a later delete


def new_record(
    live_set: LiveSet, facts: MarkFacts | None, flow: str, cutoff: datetime, started_at: datetime
) -> RunRecord:
    """The record of a run that has just begun."""
    record = RunRecord(
        repository=facts.catalog_uri if facts is not None else "a catalog that nessie-gc marked",
        run_id=live_set.id,
        mark_id=live_set.id,
        what=WHAT,
        flow=flow,
        status=RunStatus.FAILED,
        started_at=started_at,
        cutoff=cutoff,
    )
    if facts is None:
        return record
    rules = {**dict(facts.policies), "default": facts.default_policy}
    tables = [".".join(t.content_key) for t in facts.dropped if not t.is_collected]
    kept = f"{len(tables)} tables were dropped on every reference, and their files stay: "
    notes = [*_read_twice(facts), *([kept + first_few(tables, 20)] if tables else [])]
    return replace(record, rules=rules).noted(*notes)


def with_verdicts(record: RunRecord, found: FilesFound) -> RunRecord:
    """The record with what the listing and the judgement found."""
    judged = found.judged
    tallies = {
        "listed": found.listed or Tally(),
        "live": judged.tallies[Verdict.LIVE],
        "young": judged.tallies[Verdict.YOUNG],
        "protected": judged.tallies[Verdict.PROTECTED] + found.never_candidates,
        "garbage": judged.garbage_tally,
        "unreferenced": judged.garbage_tally,
    }
    named = {why: [protection.examples[0]] for why, protection in judged.protections.items()}
    odd = {"odd names": list(found.untouchable)} if found.untouchable else {}
    return replace(
        record.tallied(tallies),
        protected={**named, **odd},
        oldest_garbage=judged.oldest_garbage,
    )


def with_notices(record: RunRecord, found: LiveCatalog) -> RunRecord:
    """The record with what is odd about live files, and what is collected beside them or stays, each thing once."""
    notes = found.folders.live.notes() + (found.collected.notes() if found.collected else [])
    return record.noted(*(note for note in notes if note not in record.notes))


def find_record(store: ObjectStore, live_set_id: LiveSetId) -> RunRecord | None:
    """The record that an earlier run on this set left; None where there is none that can be read."""
    key = SetFolder(live_set_id).record
    try:
        return decode_record(store.read(key), key)
    except (ObjectNotFoundError, FormatError):
        return None


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


def _read_twice(facts: MarkFacts) -> list[str]:
    """References of which nessie-gc would read the patterns differently."""
    policies = parse_policies(facts.default_policy, facts.policies, facts.reference_time)
    names = [reference.partition(" ")[2] for reference in facts.heads]
    twice = {name: held for name in names if len(held := policies.policies_for(name)) > 1}
    return [
        f"{name}: the --cutoff patterns give it {held[0]}, as nessie-gc reads them {held[1]}; what either keeps is kept"
        for name, held in sorted(twice.items())
    ]
