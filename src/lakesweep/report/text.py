"""A run record as text: what was found, what became of it, and what to do next. Plain, so that it can be pasted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from lakesweep.collector.record import BACKUP, RESTORE, RunRecord, RunStatus
from lakesweep.domain.durations import format_duration, format_time
from lakesweep.progress import human_bytes

__all__ = ["STATUS_WORDS", "details", "head", "run_text", "runs_table", "tree", "whole_seconds"]

_MOST_EXAMPLES = 5


def run_text(record: RunRecord) -> str:
    """The whole record for a person."""
    parts = [_head(record), *_numbers(record), *details(record), *_next(record)]
    return "\n\n".join(part for part in parts if part)


def runs_table(records: Sequence[RunRecord]) -> list[tuple[str, ...]]:
    """One line for each run, under its heading."""
    return [
        ("run", "mark", "started", "what", "flow", "status", "garbage", "deleted", "freed"),
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
                _freed(record),
            )
            for record in records
        ),
    ]


def _freed(record: RunRecord) -> str:
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
        ("collected", record.what and f"{record.what}, {record.flow}"),
        ("retention", record.rules and _rules(record)),
        ("commits", (retained or expired) and f"{retained:,} retained, {expired:,} expired"),
        ("cut-off", cutoff and f"{whole_seconds(cutoff)}; what was written since is not touched"),
        ("minimum age", _min_age(record)),
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


def _min_age(record: RunRecord) -> str:
    if record.min_age_seconds is None:
        return ""
    lowered = ", LOWERED by --unsafe-min-age below what is safe" if record.min_age_lowered else ""
    return f"{format_duration(timedelta(seconds=record.min_age_seconds))}{lowered}"


def _rules(record: RunRecord) -> str:
    days = [f"{record.rules.get('default_retention_days')} days"]
    days += [f"{b['branch_id']} {b['retention_days']}" for b in record.rules.get("branches", [])]
    return ", ".join(days)


def _numbers(record: RunRecord) -> Iterator[str]:
    """One tree: what was listed, what of it is garbage and why, and what became of that."""
    if record.flow in (BACKUP, RESTORE):
        yield "\n".join(tree(record, "garbage", "named by the mark", _COPIED))
        return
    if record.objects["listed"]:
        yield "\n".join(tree(record, "listed", "in the storage namespace", _LISTED))
    if record.objects["garbage"]:
        yield "\n".join(tree(record, "garbage", "why", _GARBAGE))
        if _was_swept(record):
            swept = (("deleted", _what_deleting_did(record)), *_SWEPT)
            yield "\n".join(tree(record, "garbage", "what became of it", swept))


_LISTED = (
    ("live", "reached by a branch, a retained commit, an upload or a copy"),
    ("young", "too young to be judged"),
    ("protected", "not a name that lakeFS gives to data"),
    ("undecided", "could not be looked up, and were kept"),
    ("garbage", ""),
)
_GARBAGE = (
    ("expired", "only in commits past their retention"),
    ("unreferenced", "in no commit and on no branch"),
)
_SWEPT = (
    ("already_gone", "gone before this sweep came to them"),
    ("revived", "came back to life, and were kept"),
    ("kept_undecided", "could not be looked up, and were kept"),
    ("failed", "could not be deleted"),
)
_COPIED = (
    ("copied", "and verified"),
    ("already_there", "the same, from an earlier try"),
    ("already_gone", "no longer in the namespace: nothing to save"),
    ("failed", ""),
)


def _was_swept(record: RunRecord) -> bool:
    if record.status in (RunStatus.SWEPT, RunStatus.PARTLY_SWEPT):
        return True
    return any(record.objects[name] for name in ("deleted", *(name for name, _ in _SWEPT)))


def _what_deleting_did(record: RunRecord) -> str:
    kept, said, until = (record.finality.get(name, "") for name in ("kept", "said", "until"))
    if kept == "kept":
        return f"not freed, kept by the store{f' until {until[:10]}' if until else ''}: {said}"
    return {"not kept": "and freed", "unknown": f"not known whether freed: {said}"}.get(kept, "")


def tree(
    record: RunRecord,
    whole: str,
    what: str,
    lines: Sequence[tuple[str, str]],
    *,
    are_sizes_known: bool = True,
) -> Iterator[str]:
    """A sum and its parts; parts of nothing are left out."""
    yield _row(whole, record, whole, what, are_sizes_known)
    shown = [(name, said) for name, said in lines if record.objects.get(name, 0)]
    for number, (name, said) in enumerate(shown):
        branch = "└ " if number == len(shown) - 1 else "├ "
        yield _row(branch + name.replace("_", " "), record, name, said, are_sizes_known)


def _row(label: str, record: RunRecord, name: str, said: str, is_size_known: bool) -> str:
    size = human_bytes(record.bytes.get(name, 0)) if is_size_known else ""
    return f"{label:<16}{record.objects[name]:>12,}  {size:>11}  {said}".rstrip()


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


def whole_seconds(time: datetime) -> str:
    """A time as people read it."""
    return format_time(time.replace(microsecond=0))
