"""Records of runs on a live set, kept in the work location."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from lakesweep.collector.nessie.collected_places import CollectedPlaces
from lakesweep.collector.nessie.live_files import LiveFiles
from lakesweep.collector.nessie.mark import FilesFound
from lakesweep.collector.nessie.plan import WHAT
from lakesweep.collector.nessie.set_files import SetFolder
from lakesweep.collector.record import RunRecord, RunStatus, decode_record
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep.domain.live_sets import DroppedTable, LiveSet, LiveSetId, MarkFacts
from lakesweep.domain.verdicts import Tally, Verdict
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.storage import ObjectStore

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
    return replace(record.tallied(tallies), protected={**named, **odd})


def with_notices(record: RunRecord, live: LiveFiles) -> RunRecord:
    """The record with what is odd about live files, each thing once."""
    return record.noted(*(note for note in live.notes() if note not in record.notes))


def find_record(store: ObjectStore, live_set_id: LiveSetId) -> RunRecord | None:
    """The record that an earlier run on this set left; None where there is none that can be read."""
    key = SetFolder(live_set_id).record
    try:
        return decode_record(store.read(key), key)
    except (ObjectNotFoundError, FormatError):
        return None


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
