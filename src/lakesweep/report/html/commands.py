"""The commands that go on with a run, or that undo it, as they would be typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from lakesweep.collector.record import BACKUP, RESTORE, RunRecord, RunStatus
from lakesweep.report.accounts import DEFERRED_DELETES, NESSIE

__all__ = ["Command", "commands", "what_if_command"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and what it is for."""

    what: str
    command: str


def commands(record: RunRecord) -> list[Command]:
    """What can be done now, the likeliest first."""
    if record.what == NESSIE:
        return list(_nessie(record))
    if record.flow in (BACKUP, RESTORE):
        return [Command("Look at the record again.", _line("runs show", record, record.run_id))]
    return list(_lakefs(record))


def what_if_command(record: RunRecord) -> str:
    """The command that answers what other rules would free."""
    if record.what != NESSIE:
        return _line("what-if", record)
    # A set that nessie-gc marked does not tell where its catalog is.
    is_known = record.repository.startswith(("http://", "https://"))
    uri = shlex.quote(record.repository) if is_known else "URI"
    return f"lakesweep nessie what-if --uri {uri}"


def _lakefs(record: RunRecord) -> Iterator[Command]:
    mark = ("--mark-id", record.mark_id)
    unsafe = ("--unsafe-min-age", record.repository) if record.min_age_lowered else ()
    sweep = _line("sweep", record, *mark, *unsafe)
    status = record.status
    if status is RunStatus.PARTLY_SWEPT:
        backup = ("--backup-to", record.backup_to) if record.backup_to else ()
        resume = _line("runs resume", record, record.run_id, *backup, *unsafe)
        yield Command("Continue the sweep. What is live is read again first.", resume)
    elif status is RunStatus.MARKED:
        yield Command("See once more what a sweep would delete now.", f"{sweep} --dry-run")
        yield Command("Delete it. What is live is read again first.", sweep)
    elif status in (RunStatus.REFUSED, RunStatus.FAILED) and record.plan_id:
        if status is RunStatus.REFUSED:
            yield Command(
                "If the share is what stopped it: delete exactly this plan, whatever its share.",
                f"{sweep} --confirm {shlex.quote(record.plan_id)}",
            )
        else:
            yield Command("Try the sweep again.", sweep)
    elif status in (RunStatus.REFUSED, RunStatus.FAILED):
        yield Command("Mark again, when the reason is gone.", _line("mark", record))
    if record.plan_id and record.objects["garbage"] and status is not RunStatus.SWEPT:
        to = "BACKUP_URI"
        yield Command("Copy first what would go.", _line("backup", record, *mark, "--to", to))
    if record.objects["garbage"]:
        yield Command("Ask why one of them goes.", _line("explain", record, "ADDRESS"))
    if record.objects["deleted"]:
        yield Command(
            "Bring back what was deleted, from a backup that was made of this mark.",
            _line("restore", record, *mark, "--from", record.backup_to or "BACKUP_URI"),
        )
    if record.run_id:
        if status is RunStatus.MARKED:
            forget = _line("runs forget", record, record.run_id)
            yield Command("Or drop this mark; nothing of the data is touched.", forget)
        yield Command("Look at the record again.", _line("runs show", record, record.run_id))
    else:
        yield Command("See earlier runs.", _line("runs list", record))


def _nessie(record: RunRecord) -> Iterator[Command]:
    live_set = f"--live-set-id {shlex.quote(record.mark_id)}"
    command = DEFERRED_DELETES if record.flow == DEFERRED_DELETES else "expire"
    again = f"lakesweep nessie {command} {live_set}"
    status = record.status
    if status is RunStatus.MARKED:
        yield Command("See the recorded files.", f"lakesweep nessie list-deferred {live_set}")
        yield Command("Delete them.", f"lakesweep nessie deferred-deletes {live_set}")
    elif status is RunStatus.PARTLY_SWEPT:
        yield Command("Continue. What is live is read again first.", again)
    elif status is RunStatus.REFUSED and record.plan_id:
        yield Command(
            "If the share is what stopped it: delete exactly this plan, whatever its share.",
            f"{again} --confirm {shlex.quote(record.plan_id)}",
        )
    elif status in (RunStatus.REFUSED, RunStatus.FAILED):
        yield Command("Try again, when the reason is gone.", again)
    yield Command("Look at the live set.", f"lakesweep nessie show {live_set}")


def _line(command: str, record: RunRecord, *words: str) -> str:
    return " ".join(
        ["lakesweep", command, shlex.quote(record.repository), *map(shlex.quote, words)]
    )
