"""Live sets as text, in nessie-gc's own layout: scripts cut its columns. Lines are made one by one; there may be millions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from itertools import chain, groupby
from operator import attrgetter

from lakesweep.domain.durations import format_duration, format_time
from lakesweep.domain.live_sets import ContentReference, DeferredFile, LiveSet, MarkFacts

__all__ = [
    *("content_lines", "deferred_json", "deferred_lines", "live_set_json", "live_set_lines"),
    *("live_set_table", "local_time", "mark_facts_json", "mark_facts_lines", "reference_json"),
]

_SET = "{:<36}  {:<22}  {:<25} {:<25} {:<25} {:<25} {}"
_LABELLED = "{:<18} {}"
_REFERENCE = "    {:<15} {:<64} {:<50} {:<20} {}"
_FILE = "{:<35} {:<60} {}"
_END = "End of listing."
_TIMES = ("created", "identify_finished", "expire_started", "expire_finished")


def live_set_table(sets: Iterable[LiveSet], zone_name: str, zone: tzinfo) -> Iterator[str]:
    """The zone, the heading, and one line for each set, which begins with its id."""
    yield f"Timestamps shown in {zone_name}"
    yield _SET.format(
        *("ID", "Status", "Created", "Identify complete", "Expiry started", "Expiry finished"),
        "Error",
    ).rstrip()
    for live_set in sets:
        shown = (local_time(getattr(live_set, name), zone) for name in _TIMES)
        # One line for each set, however many the message has.
        error = " ".join((live_set.error_message or "").split())
        yield _SET.format(live_set.id, live_set.status.value, *shown, error).rstrip()


def live_set_lines(
    live_set: LiveSet, content_count: int, zone_name: str, zone: tzinfo
) -> Iterator[str]:
    """What is known of one set, a label and a value on each line."""
    yield "Live content set information:"
    yield f"Timestamps shown in {zone_name}"
    for label, value in (
        ("ID", live_set.id),
        ("Status", live_set.status.value),
        ("Created", format_time(live_set.created)),
        ("Identify complete", local_time(live_set.identify_finished, zone)),
        ("Expiry started", local_time(live_set.expire_started, zone)),
        ("Expiry finished", local_time(live_set.expire_finished, zone)),
        ("Error", live_set.error_message or ""),
        ("Content count", str(content_count)),
    ):
        yield _LABELLED.format(label, value).rstrip()


def mark_facts_lines(facts: MarkFacts | None) -> Iterator[str]:
    """What lakesweep knows of its own marks beyond nessie-gc's columns; nothing of those that nessie-gc made."""
    if facts is None:
        return
    rows = [
        ("Catalog", facts.catalog_uri),
        ("Reference time", format_time(facts.reference_time)),
        ("Default cut-off", facts.default_policy),
        *(("Cut-off", f"{pattern} = {policy}") for pattern, policy in facts.policies),
        ("References", str(len(facts.heads))),
        ("Of other kinds", str(len(facts.others))),
        ("Dropped", str(len(facts.dropped))),
    ]
    if facts.dropped_grace is not None:
        collected = sum(table.is_collected for table in facts.dropped)
        grace = format_duration(facts.dropped_grace)
        rows.append(("Collects dropped", f"{collected}, gone for {grace} or longer"))
    if facts.keep_state_at_cutoff:
        rows.append(("Also live", "the state at the cut-off"))
    yield from (_LABELLED.format(label, value) for label, value in rows)


def content_lines(
    references: Iterable[ContentReference] | None, locations: Iterable[tuple[str, str]] | None
) -> Iterator[str]:
    """Contents with their base locations, their references, or both; None leaves them out."""
    titles = {
        (True, False): "List of content references:",
        (False, True): "List of base locations:",
        (True, True): "List of base locations and content references:",
    }
    title = titles.get((references is not None, locations is not None))
    if title is None:
        return
    yield ""
    yield title
    places: dict[str, list[str]] = {}
    for content_id, place in locations or ():
        places.setdefault(content_id, []).append(place)
    listed = groupby(references or (), key=attrgetter("content_id"))
    for content_id, of_content in listed:
        yield f"  Content ID {content_id}"
        yield from (f"    Base location: {place}" for place in places.pop(content_id, ()))
        yield _REFERENCE.format(
            "Content Type", "Commit ID", "Content Key", "Snapshot ID", "Metadata Location"
        )
        for reference in of_content:
            yield _REFERENCE.format(
                reference.content_type.value,
                reference.commit_id,
                ".".join(reference.content_key),
                reference.snapshot_id,
                reference.metadata_location,
            )
    for content_id, rest in places.items():
        yield f"  Content ID {content_id}"
        yield from (f"    Base location: {place}" for place in rest)
    yield _END


def deferred_lines(files: Iterable[DeferredFile]) -> Iterator[str]:
    """Files that are recorded for deletion; their times are UTC in any zone."""
    heading = _FILE.format("Modified", "Base URI", "File path")
    rows = (
        _FILE.format(
            format_time(file.modified_at) if file.modified_at else "unknown",
            file.base_uri,
            file.path_uri,
        )
        for file in files
    )
    yield from chain([heading], rows, [_END])


def live_set_json(live_set: LiveSet) -> dict[str, object]:
    """A set as plain JSON values; times are UTC."""
    return {
        "live_set_id": live_set.id,
        "status": live_set.status.value,
        **{name: _utc(getattr(live_set, name)) for name in _TIMES},
        "error": live_set.error_message,
    }


def mark_facts_json(facts: MarkFacts | None) -> dict[str, object] | None:
    """The facts as plain JSON values, without the long lists."""
    if facts is None:
        return None
    return {
        "catalog_uri": facts.catalog_uri,
        "reference_time": format_time(facts.reference_time),
        "default_cutoff": facts.default_policy,
        "cutoffs": [list(pair) for pair in facts.policies],
        "keep_state_at_cutoff": facts.keep_state_at_cutoff,
        "references": len(facts.heads),
        "others": len(facts.others),
        "dropped": [".".join(table.content_key) for table in facts.dropped],
        "collects_dropped": [
            ".".join(table.content_key) for table in facts.dropped if table.is_collected
        ],
    }


def reference_json(reference: ContentReference) -> dict[str, object]:
    """A content reference as plain JSON values."""
    return {
        "content_id": reference.content_id,
        "content_type": reference.content_type.value,
        "content_key": list(reference.content_key),
        "commit_id": reference.commit_id,
        "snapshot_id": reference.snapshot_id,
        "metadata_location": reference.metadata_location,
    }


def deferred_json(file: DeferredFile) -> dict[str, object]:
    """A recorded file as plain JSON values."""
    return {
        "uri": file.uri,
        "base_uri": file.base_uri,
        "path": file.path_uri,
        "modified": _utc(file.modified_at),
    }


def local_time(time: datetime | None, zone: tzinfo) -> str:
    """A time as the clocks of a zone show it; empty where there is none."""
    if time is None:
        return ""
    return time.astimezone(zone).replace(microsecond=0, tzinfo=None).isoformat()


def _utc(time: datetime | None) -> str | None:
    return format_time(time.astimezone(UTC)) if time is not None else None
