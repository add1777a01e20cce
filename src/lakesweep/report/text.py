"""A run record as text: what was found, what became of it, and what to do next. Plain, so that it can be pasted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.domain.durations import format_duration
from lakesweep.domain.rules import days_text
from lakesweep.progress import human_bytes
from lakesweep.report.accounts import (
    Account,
    Line,
    accounts,
    collected_text,
    inventory_text,
    whole_seconds,
)

__all__ = [
    "STATUS_WORDS",
    "details",
    "freed_text",
    "head",
    "min_age_text",
    "rules_text",
    "run_text",
    "runs_table",
    "tree",
]

_MOST_EXAMPLES = 5


def run_text(record: RunRecord) -> str:
    """The whole record for a person."""
    parts = [_head(record), *map(tree, accounts(record)), *details(record), *_next(record)]
    return "\n\n".join(part for part in parts if part)


def runs_table(records: Sequence[RunRecord]) -> list[tuple[str, ...]]:
    """One line for each run, under its heading."""
    return [
        ("run", "mark", "started", "what", "kind", "status", "garbage", "deleted", "freed"),
        *(
            (
                record.run_id,
                record.mark_id,
                whole_seconds(record.started_at),
                record.what,
                record.flow,
                record.status.value,
                f"{record.objects['garbage']:,}",
                f"{record.objects['deleted']:,}",
                freed_text(record),
            )
            for record in records
        ),
    ]


def freed_text(record: RunRecord) -> str:
    """Bytes that a sweep freed; "?" where it deleted some and does not know what the store does with them."""
    is_unknown = record.finality.get("kept") == "unknown" or "freed" not in record.bytes
    if record.bytes["deleted"] and is_unknown:
        return "?"
    return human_bytes(record.bytes.get("freed", 0))


def _head(record: RunRecord) -> str:
    retained, expired, cutoff = record.retained_commits, record.expired_commits, record.cutoff
    return head(
        ("repository", record.repository),
        ("status", _status(record)),
        ("reason", record.reason),
        ("run", record.run_id or "(none began)"),
        ("mark", record.mark_id),
        ("collected", collected_text(record)),
        ("inventory", inventory_text(record)),
        ("retention", record.rules and rules_text(record)),
        ("commits", (retained or expired) and f"{retained:,} retained, {expired:,} expired"),
        ("cut-off", cutoff and f"{whole_seconds(cutoff)}; what was written since is not touched"),
        ("minimum age", min_age_text(record)),
        ("began", whole_seconds(record.started_at)),
        ("ended", record.finished_at and whole_seconds(record.finished_at)),
    )


def head(*rows: tuple[str, object]) -> str:
    """Names and values, one on each line; those without a value are left out."""
    return "\n".join(f"{name:<11} {value}" for name, value in rows if value)


STATUS_WORDS = {
    RunStatus.MARKED: "marked; nothing was deleted",
    RunStatus.SWEPT: "swept to the end",
    RunStatus.PARTLY_SWEPT: "partly swept",
    RunStatus.NOTHING_TO_DO: "nothing to do",
    RunStatus.UNDECIDED: "nothing was deleted",
    RunStatus.REFUSED: "refused; nothing was deleted",
    RunStatus.FAILED: "failed; nothing was deleted",
    RunStatus.BACKED_UP: "backed up, every copy verified",
    RunStatus.RESTORED: "restored, every copy verified",
}


def _status(record: RunRecord) -> str:
    undecided = record.objects.get("undecided", 0) + record.objects.get("kept_undecided", 0)
    kept = f"; kept: {undecided:,} undecided" if undecided else ""
    return STATUS_WORDS[record.status] + kept


def min_age_text(record: RunRecord) -> str:
    """How old an object must be, and whether somebody lowered that; empty where it is not known."""
    if record.min_age_seconds is None:
        return ""
    lowered = ", LOWERED by --unsafe-min-age below what is safe" if record.min_age_lowered else ""
    return f"{format_duration(timedelta(seconds=record.min_age_seconds))}{lowered}"


def rules_text(record: RunRecord) -> str:
    """Days kept by default, and those of branches."""
    found = [days_text(record.rules.get("default_retention_days", 0))]
    found += [
        f"{rule['branch_id']} {days_text(rule['retention_days'])}"
        for rule in record.rules.get("branches", [])
    ]
    return ", ".join(found)


def tree(account: Account) -> str:
    """A sum and its parts, one on each line."""
    rows = [_row(account.whole.name, account.whole)]
    for number, part in enumerate(account.parts):
        branch = "└ " if number == len(account.parts) - 1 else "├ "
        rows.append(_row(branch + part.name.replace("_", " "), part))
    return "\n".join(rows)


def _row(label: str, line: Line) -> str:
    size = human_bytes(line.bytes) if line.is_sized else ""
    return f"{label:<16}{line.objects:>12,}  {size:>11}  {line.said}".rstrip()


def details(record: RunRecord) -> Iterator[str]:
    """Names of what was protected, kept or failed, and the notes."""
    for reason, keys in record.protected.items():
        yield _examples(f"protected ({reason})", keys)
    if record.revived:
        yield _examples("came back to life", record.revived)
    if record.failures:
        lines = (f"  {outcome}: {example}" for outcome, example in record.failures.items())
        yield "\n".join(["failed", *lines])
    if record.notes:
        yield "\n".join(f"note: {note}" for note in record.notes)


def _examples(title: str, keys: Sequence[str]) -> str:
    shown = [f"  {key}" for key in keys[:_MOST_EXAMPLES]]
    more = [f"  … and {len(keys) - _MOST_EXAMPLES} more"] if len(keys) > _MOST_EXAMPLES else []
    return "\n".join([title, *shown, *more])


def _next(record: RunRecord) -> Iterator[str]:
    name, mark = record.repository, record.mark_id
    flag = f" --unsafe-min-age {name}" if record.min_age_lowered else ""
    if record.status is RunStatus.MARKED:
        yield f"mark folder {record.mark}\nnext        lakesweep sweep {name} --mark-id {mark}{flag}"
    elif record.status is RunStatus.PARTLY_SWEPT:
        yield f"next        lakesweep runs resume {name} {record.run_id}{flag}"
