"""A run record as text: what was found, what became of it, and what to do next. Plain, so that it can be pasted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from lakesweep.domain.durations import format_time
from lakesweep.progress import human_bytes
from lakesweep.runs.record import BACKUP, RESTORE, RunRecord, RunStatus

__all__ = ["run_text", "runs_table"]

_MOST_EXAMPLES = 5

_LIVE = "reached by a branch, a retained commit, an upload or a copy"
_EXPIRED = "only in commits past their retention"
_UNREFERENCED = "in no commit and on no branch"


def run_text(record: RunRecord) -> str:
    """The whole record for a person."""
    parts = [_head(record), *_numbers(record), *_details(record), *_next(record)]
    return "\n\n".join(part for part in parts if part)


def runs_table(records: Sequence[RunRecord]) -> list[tuple[str, ...]]:
    """One line for each run, under its heading."""
    head = ("run", "mark", "started", "what", "flow", "status", "garbage", "deleted", "freed")
    return [
        head,
        *(
            (
                record.run_id,
                record.mark_id,
                _time(record.started_at),
                record.what,
                record.flow,
                record.status.value,
                f"{record.objects['garbage']:,}",
                f"{record.objects['deleted']:,}",
                human_bytes(record.bytes["deleted"]),
            )
            for record in records
        ),
    ]


def _head(record: RunRecord) -> str:
    rows = [("repository", record.repository), ("status", _status(record))]
    if record.reason:
        rows.append(("reason", record.reason))
    rows.append(("run", record.run_id or "(none began)"))
    if record.mark_id:
        rows.append(("mark", record.mark_id))
    if record.what:
        rows.append(("collected", f"{record.what}, {record.flow}"))
    if record.rules:
        rows.append(("retention", _rules(record)))
    if record.retained_commits or record.expired_commits:
        commits = f"{record.retained_commits:,} retained, {record.expired_commits:,} expired"
        rows.append(("commits", commits))
    if record.cutoff is not None:
        rows.append(("cut-off", f"{_time(record.cutoff)}; what was written since is not touched"))
    if record.finished_at is not None:
        seconds = (record.finished_at - record.started_at).total_seconds()
        rows.append(("took", f"{seconds:.1f} s, from {_time(record.started_at)}"))
    return "\n".join(f"{name:<11} {value}" for name, value in rows)


_STATUS_WORDS = {
    RunStatus.MARKED: "marked; nothing was deleted",
    RunStatus.SWEPT: "swept to the end",
    RunStatus.PARTLY_SWEPT: "partly swept",
    RunStatus.NOTHING_TO_DO: "nothing to do",
    RunStatus.REFUSED: "refused; nothing was deleted",
    RunStatus.FAILED: "failed; nothing was deleted",
    RunStatus.BACKED_UP: "backed up, every copy verified",
    RunStatus.RESTORED: "restored, every copy verified",
}


def _status(record: RunRecord) -> str:
    return _STATUS_WORDS[record.status]


def _rules(record: RunRecord) -> str:
    days = [f"{record.rules.get('default_retention_days')} days"]
    days += [f"{b['branch_id']} {b['retention_days']}" for b in record.rules.get("branches", [])]
    return ", ".join(days)


def _numbers(record: RunRecord) -> Iterator[str]:
    if record.flow in (BACKUP, RESTORE):
        yield _tree(record, "garbage", "named by the mark", _COPY_LINES)
        return
    if record.objects["listed"]:
        yield _tree(record, "listed", "in the storage namespace", _LISTED_LINES)
    if record.objects["garbage"]:
        yield _tree(record, "garbage", "", _GARBAGE_LINES)
        if _was_swept(record):
            yield _tree(record, "garbage", "became", _SWEPT_LINES)


_LISTED_LINES = (
    ("live", _LIVE),
    ("young", "too young to be judged"),
    ("protected", "not a name that lakeFS gives to data"),
    ("garbage", ""),
)
_GARBAGE_LINES = (("expired", _EXPIRED), ("unreferenced", _UNREFERENCED))
_SWEPT_LINES = (
    ("deleted", ""),
    ("already_gone", "somebody else had deleted them"),
    ("revived", "came back to life, and were kept"),
    ("failed", "could not be deleted"),
)
_COPY_LINES = (
    ("copied", "and verified"),
    ("already_there", "the same, from an earlier try"),
    ("already_gone", "no longer in the namespace: nothing to save"),
    ("failed", ""),
)


def _was_swept(record: RunRecord) -> bool:
    if record.status in (RunStatus.SWEPT, RunStatus.PARTLY_SWEPT):
        return True
    return any(record.objects[name] for name, _ in _SWEPT_LINES)


def _tree(record: RunRecord, whole: str, what: str, lines: Sequence[tuple[str, str]]) -> str:
    """A sum and its parts. Parts of nothing are left out; a rest that no part explains is shown as such."""
    shown = [(name, said) for name, said in lines if record.objects.get(name, 0)]
    rows = [_row(whole, record.objects[whole], record.bytes.get(whole, 0), what)]
    for number, (name, said) in enumerate(shown):
        branch = "└ " if number == len(shown) - 1 else "├ "
        rows.append(
            _row(branch + _words(name), record.objects[name], record.bytes.get(name, 0), said)
        )
    return "\n".join(rows)


def _row(name: str, objects: int, size: int, said: str) -> str:
    return f"{name:<16}{objects:>12,}  {human_bytes(size):>11}  {said}".rstrip()


def _words(name: str) -> str:
    return name.replace("_", " ")


def _details(record: RunRecord) -> Iterator[str]:
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
    if record.status is RunStatus.MARKED:
        yield f"mark folder {record.mark}\nnext        lakesweep sweep {name} --mark-id {mark}"
    elif record.status is RunStatus.PARTLY_SWEPT:
        yield f"next        lakesweep runs resume {name} {record.run_id}"


def _time(time: datetime) -> str:
    return format_time(time.replace(microsecond=0))
