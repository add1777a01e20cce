"""The record of a run on a Nessie catalog as text: what was found, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator

from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.report.text import STATUS_WORDS, details, head, tree, whole_seconds

__all__ = ["DEFERRED_DELETES", "nessie_run_text"]

# The flow of a run that deletes what an earlier one recorded.
DEFERRED_DELETES = "deferred-deletes"

_STATUS_WORDS = STATUS_WORDS | {
    RunStatus.MARKED: "recorded for a later delete; nothing was deleted"
}
_LISTED = (
    ("live", "needed by a live content"),
    ("young", "too young to be judged"),
    ("protected", "not to be judged by this live set"),
    ("garbage", ""),
)
_SWEPT = (
    ("deleted", ""),
    ("already_gone", "were gone already"),
    ("revived", "came back to life, and were kept"),
    ("kept", "young, protected or written anew, or not tried yet"),
    ("failed", "could not be deleted"),
)


def nessie_run_text(record: RunRecord) -> str:
    """The whole record for a person."""
    cutoff = record.cutoff
    top = head(
        ("catalog", record.repository),
        ("live set", record.mark_id),
        ("status", _STATUS_WORDS[record.status]),
        ("reason", record.reason),
        ("plan", record.plan_id),
        *(("policy", f"{pattern} = {policy}") for pattern, policy in record.rules.items()),
        ("cut-off", cutoff and f"{whole_seconds(cutoff)}; files modified since are kept"),
        ("began", whole_seconds(record.started_at)),
        ("ended", record.finished_at and whole_seconds(record.finished_at)),
    )
    return "\n\n".join((top, *_numbers(record), *details(record)))


def _numbers(record: RunRecord) -> Iterator[str]:
    # Recorded files were listed when they were recorded.
    if record.objects["listed"] and record.flow != DEFERRED_DELETES:
        yield "\n".join(tree(record, "listed", "in the base locations", _LISTED))
    if record.objects["garbage"] and record.status in (RunStatus.SWEPT, RunStatus.PARTLY_SWEPT):
        # Nor does anybody know the size of a recorded file that is gone.
        is_sized = record.bytes["garbage"] > 0
        parts = tree(
            *(_with_rest(record), "garbage", "what became of it", _SWEPT), are_sizes_known=is_sized
        )
        yield "\n".join(parts)


def _with_rest(record: RunRecord) -> RunRecord:
    """The record with a counter for planned files that are none of the others, so that the parts make up the whole."""
    objects, sizes = (
        max(0, counts["garbage"] - sum(counts[name] for name, _ in _SWEPT if name != "kept"))
        for counts in (record.objects, record.bytes)
    )
    return record.counted({"kept": objects}, {"kept": sizes})
