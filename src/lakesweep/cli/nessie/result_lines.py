"""nessie-gc's own result lines, word for word: scripts look for them. Durations are those of the phase they name."""

from __future__ import annotations

from datetime import timedelta

__all__ = ["deferred_line", "identify_line", "java_duration", "sweep_line"]


def identify_line(status: str, took: timedelta, live_set_id: str) -> str:
    """The last line of what `mark-live` prints."""
    return (
        f"Finished Nessie-GC identify phase finished with status {status} after {java_duration(took)}, "
        f"live-content-set ID is {live_set_id}."
    )


def sweep_line(status: str, took: timedelta, live_set_id: str, deleted: int, failed: int) -> str:
    """The last line of a sweep; `deleted` are the recorded files where deletes are deferred, as in nessie-gc."""
    return (
        f"Nessie-GC sweep phase for live-content-set {live_set_id} finished with status {status} after "
        f"{java_duration(took)}, deleted {deleted} files, {failed} files could not be deleted."
    )


def deferred_line(deleted: int, failed: int) -> str:
    """The last line of what `deferred-deletes` prints."""
    return f"Deferred deletion finished: {deleted} files deleted, {failed} delete failures."


def java_duration(duration: timedelta) -> str:
    """A duration as java.time.Duration writes it: `PT0S`, `PT2.36S`, `PT1H2M3S`."""
    microseconds = max(0, duration // timedelta(microseconds=1))
    minutes, microseconds = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{microseconds / 1_000_000:.6f}".rstrip("0").rstrip(".")
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    parts.append(f"{seconds}S" if microseconds or not (hours or minutes) else "")
    return "PT" + "".join(parts)
