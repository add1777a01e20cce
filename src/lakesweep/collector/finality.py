"""What the store does with what was deleted, as a run's record says it."""

from __future__ import annotations

from datetime import datetime, timedelta

from lakesweep.domain.durations import format_time
from lakesweep.storage import ObjectStore
from lakesweep.storage.finality import how_final_are_deletes

__all__ = ["finality_of_deletes"]


def finality_of_deletes(store: ObjectStore, now: datetime) -> dict[str, str]:
    """Whether the store keeps what is deleted now, in its words, and until when where it tells."""
    found = how_final_are_deletes(store)
    until = now + timedelta(days=found.days) if found.days is not None else None
    return {
        "kept": found.kept.value,
        "said": found.said,
        "until": format_time(until) if until is not None else "",
    }
