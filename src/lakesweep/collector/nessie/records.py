"""Run records of Nessie runs: the same as everywhere, kept in the work location."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from lakesweep.collector.judge.meeting import Judged
from lakesweep.collector.ledger import deleting
from lakesweep.collector.nessie.collected_places import CollectedPlaces
from lakesweep.collector.nessie.context import NessieContext, SetFolder
from lakesweep.collector.nessie.live_files import LiveFiles
from lakesweep.collector.nessie.plan import WHAT
from lakesweep.collector.nessie.sweep import Swept
from lakesweep.collector.record import RunRecord, RunStatus, decode_record, encode_record
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep.domain.live_sets import DroppedTable, LiveSet, MarkFacts
from lakesweep.domain.verdicts import Tally, Verdict
from lakesweep.errors import FormatError, ObjectNotFoundError

DEFERRED = "deferred"  # the flow of an expiry that records files for a later delete
NOT_REVERIFIED = "not re-verified (--no-reverify): Nessie was not asked again, so what became live since the mark is not known"


def new_record(
    context: NessieContext, live_set: LiveSet, facts: MarkFacts | None, flow: str, cutoff: datetime
) -> RunRecord:
    """The record of a run that has just begun."""
    record = RunRecord(
        repository=facts.catalog_uri if facts is not None else "a catalog that nessie-gc marked",
        run_id=live_set.id,
        mark_id=live_set.id,
        what=WHAT,
        flow=flow,
        status=RunStatus.FAILED,
        started_at=context.clock(),
        cutoff=cutoff,
        rules=_policies(facts),
    )
    record = record.noted(*_read_twice(facts))
    tables = [".".join(t.content_key) for t in _kept_for_good(facts)]
    if tables:
        shown = ", ".join(tables[:20]) + (", …" if len(tables) > 20 else "")
        record = record.noted(
            f"{len(tables)} tables were dropped on every reference, and their files stay: {shown}"
        )
    return record


def _kept_for_good(facts: MarkFacts | None) -> list[DroppedTable]:
    return [t for t in facts.dropped if not t.is_collected] if facts is not None else []


def with_places(record: RunRecord, collected: CollectedPlaces | None) -> RunRecord:
    """The record with what is collected beside live base locations, and what of it stays."""
    return record.noted(*collected.notes()) if collected is not None else record


def with_verdicts(
    record: RunRecord,
    listed: Tally,
    judged: Judged,
    protected_before: Tally,
    examples: Mapping[str, list[str]],
) -> RunRecord:
    """The record with what the listing and the judgement found."""
    tallies = {
        "listed": listed,
        "live": judged.tallies[Verdict.LIVE],
        "young": judged.tallies[Verdict.YOUNG],
        "protected": judged.tallies[Verdict.PROTECTED] + protected_before,
        "garbage": judged.garbage_tally,
        "unreferenced": judged.garbage_tally,
    }
    named = {why: [found.examples[0]] for why, found in judged.protections.items()}
    return replace(_counted(record, tallies), protected={**named, **examples})


def with_notices(record: RunRecord, live: LiveFiles) -> RunRecord:
    """The record with what is odd about live files, each thing once."""
    return record.noted(*(note for note in live.notes() if note not in record.notes))


def with_sweep(record: RunRecord, swept: Swept) -> RunRecord:
    """The record with what the rounds of a sweep did."""
    tallies = {
        "deleted": swept.tally(deleting.DELETED) + swept.done_before,
        "already_gone": swept.tally(deleting.ALREADY_GONE),
        "revived": swept.revived,
        "failed": swept.failed,
    }
    notes = []
    kept = swept.kept + swept.tally(deleting.PROTECTED, deleting.CHANGED)
    if kept.objects:
        found = (swept.examples.get(o, "") for o in (deleting.CHANGED, deleting.PROTECTED))
        example = next(filter(None, found), "")
        notes.append(
            f"{kept} of the plan were kept: young, protected, or written anew"
            + (f" (for example {example})" if example else "")
        )
    return replace(
        _counted(record, tallies),
        revived=tuple(swept.revived_names),
        failures=swept.failures,
    ).noted(*notes)


def finished(
    context: NessieContext, record: RunRecord, status: RunStatus, reason: str = ""
) -> RunRecord:
    """The record of a run that has ended."""
    return replace(
        record,
        status=status,
        reason=reason,
        finished_at=context.clock(),
        phases=tuple(context.phases.done),
    )


def save_record(context: NessieContext, record: RunRecord) -> None:
    """Keep the record beside the plan."""
    context.phases.saved_record = record
    context.store.write(f"{record.run_id}/record.json", encode_record(record))


def find_record(context: NessieContext, live_set: LiveSet) -> RunRecord | None:
    """The record that an earlier run on this set left; None where there is none that can be read."""
    key = SetFolder(live_set.id).record
    try:
        return decode_record(context.store.read(key), key)
    except (ObjectNotFoundError, FormatError):
        return None


def _counted(record: RunRecord, tallies: Mapping[str, Tally]) -> RunRecord:
    return record.counted(
        {name: tally.objects for name, tally in tallies.items()},
        {name: tally.bytes for name, tally in tallies.items()},
    )


def _policies(facts: MarkFacts | None) -> dict[str, str]:
    if facts is None:
        return {}
    return {**dict(facts.policies), "default": facts.default_policy}


def _read_twice(facts: MarkFacts | None) -> list[str]:
    """References of which nessie-gc would read the patterns differently."""
    if facts is None:
        return []
    policies = parse_policies(facts.default_policy, facts.policies, facts.reference_time)
    names = [reference.partition(" ")[2] for reference in facts.heads]
    twice = {name: held for name in names if len(held := policies.policies_for(name)) > 1}
    return [
        f"{name}: the --cutoff patterns give it {held[0]}, as nessie-gc reads them {held[1]}; what either keeps is kept"
        for name, held in sorted(twice.items())
    ]
