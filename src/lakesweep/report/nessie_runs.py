"""The record of a run on a Nessie catalog as text: what was found, and what became of it."""

from __future__ import annotations

from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.report.accounts import accounts, whole_seconds
from lakesweep.report.text import STATUS_WORDS, details, head, min_age_text, tree

__all__ = ["NESSIE_STATUS_WORDS", "nessie_run_text"]

NESSIE_STATUS_WORDS = STATUS_WORDS | {
    RunStatus.MARKED: "recorded for a later delete; nothing was deleted"
}


def nessie_run_text(record: RunRecord) -> str:
    """The whole record for a person."""
    cutoff = record.cutoff
    top = head(
        ("catalog", record.repository),
        ("live set", record.mark_id),
        ("status", NESSIE_STATUS_WORDS[record.status]),
        ("reason", record.reason),
        ("plan", record.plan_id),
        *(("policy", f"{pattern} = {policy}") for pattern, policy in record.rules.items()),
        ("cut-off", cutoff and f"{whole_seconds(cutoff)}; files modified since are kept"),
        ("minimum age", min_age_text(record)),
        ("began", whole_seconds(record.started_at)),
        ("ended", record.finished_at and whole_seconds(record.finished_at)),
    )
    return "\n\n".join((top, *map(tree, accounts(record)), *details(record)))
