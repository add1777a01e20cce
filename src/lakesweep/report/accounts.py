"""The sums of a run record, with words: what was listed, why some of it is garbage, and what became of that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakesweep.collector.record import BACKUP, RESTORE, RunRecord, RunStatus
from lakesweep.domain.durations import format_duration, format_time

__all__ = [
    *("DEFERRED_DELETES", "GARBAGE_WORDS", "NESSIE", "Account", "Line", "accounts"),
    *("collectable_from", "collected_text", "inventory_text", "whole_seconds", "young_words"),
]

NESSIE = "nessie"  # what a run on a live set collects, in its record
# The flow of a run that deletes what an earlier one recorded.
DEFERRED_DELETES = "deferred-deletes"


@dataclass(frozen=True, slots=True)
class Line:
    """A number of objects with their bytes, and what is said of them. Nobody may know the bytes."""

    name: str
    objects: int
    bytes: int
    said: str = ""
    is_sized: bool = True


@dataclass(frozen=True, slots=True)
class Account:
    """A sum and its parts, of which the empty ones are left out. `kind`: listed, garbage, swept or copied."""

    kind: str
    whole: Line
    parts: tuple[Line, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the parts make up the sum, in objects and in bytes."""
        return self.whole.objects == sum(part.objects for part in self.parts) and (
            not self.whole.is_sized or self.whole.bytes == sum(part.bytes for part in self.parts)
        )


_Words = Sequence[tuple[str, str]]

_LISTED: _Words = (
    ("live", "reached by a branch, a retained commit, an upload or a copy"),
    ("young", ""),
    ("protected", "not a name that lakeFS gives to data"),
    ("undecided", "could not be looked up, and were kept"),
    ("rewritten", "other objects today than the inventory names, and were kept"),
    ("vanished", "named by the inventory, and no longer in the store"),
    ("garbage", ""),
)
GARBAGE_WORDS: _Words = (
    ("expired", "only in commits past their retention"),
    ("unreferenced", "in no commit and on no branch"),
)
_SWEPT: _Words = (
    ("deleted", ""),
    ("already_gone", "gone before this sweep came to them"),
    ("revived", "came back to life, and were kept"),
    ("kept_undecided", "could not be looked up, and were kept"),
    ("failed", "could not be deleted"),
)
_KEPT_BY_SWEEP = "restored since, or their names or ages are not those of garbage"
_COPIED: _Words = (
    ("copied", "and verified"),
    ("already_there", "the same, from an earlier try"),
    ("already_gone", "no longer in the namespace: nothing to save"),
    ("failed", ""),
)
_NESSIE_LISTED: _Words = (
    ("live", "needed by a live table or view"),
    ("young", ""),
    ("protected", "may belong to something that this live set does not know"),
    ("garbage", ""),
)
_NESSIE_SWEPT: _Words = (
    ("deleted", ""),
    ("already_gone", "were gone already"),
    ("revived", "came back to life, and were kept"),
    ("failed", "could not be deleted"),
)


_COLLECTED = {
    "all": "committed and uncommitted data",
    "committed": "committed data",
    "uncommitted": "uncommitted data",
}
_LOOKED_AT = {
    "clean": "everything was listed (a clean run)",
    "optimized": "only what may have changed was listed (an optimized run)",
    "adopted": "by a mark that an older client made",
}


_INVENTORY_ROWS = {
    "rows_listed": "listed",
    "rows_outside": "outside the namespace",
    "rows_in_other_folders": "in folders that are not collected",
    "rows_not_current": "no current objects",
}


def collected_text(record: RunRecord) -> str:
    """Which data a run on a repository was about, and how it looked for garbage; empty for copies."""
    if record.flow in (BACKUP, RESTORE):
        return ""
    # The commits alone say what has expired, and nothing is listed.
    how = "" if record.what == "committed" else _LOOKED_AT.get(record.flow, "")
    if record.inventory:
        how = "an inventory took the place of a listing"
    return "; ".join(filter(None, (_COLLECTED.get(record.what, record.what), how)))


def inventory_text(record: RunRecord) -> str:
    """Which inventory took the place of a listing, and what became of its rows; empty where none did."""
    told = record.inventory
    if not told:
        return ""
    rows = {name: int(told.get(name, 0)) for name in _INVENTORY_ROWS}
    counted = ", ".join(
        f"{rows[name]:,} {words}" for name, words in _INVENTORY_ROWS.items() if rows[name]
    )
    filters = f"; it leaves objects out: {told['filters']}" if told.get("filters") else ""
    return (
        f"{told.get('kind')} {told.get('uri')}, taken at {told.get('taken_at')}; {int(told.get('rows', 0)):,} rows: "
        f"{counted}; {int(told.get('looked_up', 0)):,} looked up in the store{filters}"
    )


def accounts(record: RunRecord) -> Iterator[Account]:
    """All sums that a record has numbers for."""
    if record.what == NESSIE:
        yield from _nessie_accounts(record)
        return
    if record.flow in (BACKUP, RESTORE):
        yield _account(record, "copied", "garbage", "named by the mark", _COPIED)
        return
    if record.objects["listed"]:
        yield _account(record, "listed", "listed", "in the storage namespace", _LISTED)
    if record.objects["garbage"]:
        yield _account(record, "garbage", "garbage", "why", GARBAGE_WORDS)
        if _was_swept(record):
            is_over = record.status is RunStatus.SWEPT
            left = _KEPT_BY_SWEEP if is_over else "not reached yet"
            yield _account(record, "swept", "garbage", "what became of it", _SWEPT, left)


def _nessie_accounts(record: RunRecord) -> Iterator[Account]:
    # Recorded files were listed when they were recorded.
    if record.objects["listed"] and record.flow != DEFERRED_DELETES:
        yield _account(record, "listed", "listed", "in the base locations", _NESSIE_LISTED)
    if record.objects["garbage"] and record.status in (RunStatus.SWEPT, RunStatus.PARTLY_SWEPT):
        kept = "young, protected or written anew, or not tried yet"
        yield _account(record, "swept", "garbage", "what became of it", _NESSIE_SWEPT, kept)


def _account(
    record: RunRecord, kind: str, whole: str, what: str, words: _Words, rest: str = ""
) -> Account:
    """A sum of the record; with words for the rest, what is none of the parts is one of its own."""
    # Nobody knows the size of a recorded file that is gone.
    is_sized = kind != "swept" or record.what != NESSIE or record.bytes["garbage"] > 0
    said = {"young": young_words(record), "deleted": _what_deleting_did(record)}
    parts = [
        Line(
            name,
            record.objects[name],
            record.bytes.get(name, 0),
            why or said.get(name, ""),
            is_sized,
        )
        for name, why in words
        if record.objects.get(name, 0)
    ]
    total = Line(whole, record.objects[whole], record.bytes.get(whole, 0), what, is_sized)
    left = total.objects - sum(part.objects for part in parts)
    if rest and left > 0:
        size = max(0, total.bytes - sum(part.bytes for part in parts))
        # What could not be deleted stands last.
        place = len(parts) - (1 if parts and parts[-1].name == "failed" else 0)
        parts.insert(place, Line("kept", left, size, rest, is_sized))
    return Account(kind, total, tuple(parts))


def _was_swept(record: RunRecord) -> bool:
    if record.status in (RunStatus.SWEPT, RunStatus.PARTLY_SWEPT):
        return True
    return any(record.objects[name] for name, _ in _SWEPT)


def _what_deleting_did(record: RunRecord) -> str:
    kept, said, until = (record.finality.get(name, "") for name in ("kept", "said", "until"))
    if kept == "kept":
        return f"not freed, kept by the store{f' until {until[:10]}' if until else ''}: {said}"
    return {"not kept": "and freed", "unknown": f"not known whether freed: {said}"}.get(kept, "")


def young_words(record: RunRecord) -> str:
    """What is said of what is young: how old it must be, and from when on all of it is."""
    at = collectable_from(record)
    if at is None or record.min_age_seconds is None:
        return "too young to be judged"
    age = format_duration(timedelta(seconds=record.min_age_seconds))
    by = "by a new mark " if record.what == NESSIE else ""
    return f"younger than {age}; collectable {by}from {whole_seconds(at)} if nothing refers to them"


def collectable_from(record: RunRecord) -> datetime | None:
    """From when on all that this run found too young is old enough; None where its minimum age is not known."""
    if record.min_age_seconds is None:
        return None
    # Nothing that was listed is younger than the end of the run.
    return (record.finished_at or record.started_at) + timedelta(seconds=record.min_age_seconds)


def whole_seconds(time: datetime) -> str:
    """A time as people read it."""
    return format_time(time.replace(microsecond=0))
