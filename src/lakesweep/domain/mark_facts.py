"""What a mark knows beyond nessie-gc's own tables: policies, heads, and what else the catalog holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from lakesweep.domain.durations import format_time
from lakesweep.domain.head_contents import HeadContents
from lakesweep.domain.nessie_contents import ContentKind, DroppedTable, OtherContent
from lakesweep.errors import FormatError
from lakesweep.json_text import parse_json

__all__ = ["MarkFacts"]

_SCHEMA = "lakesweep.nessie-mark/1"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MarkFacts:
    """Enough to repeat the mark later, and to protect what is not a table or view.

    `policies` are (pattern, policy text) in the order given. `heads` maps "BRANCH name" or "TAG name" to the
    hash that was walked from.
    """

    catalog_uri: str
    reference_time: datetime
    default_policy: str
    policies: tuple[tuple[str, str], ...]
    keep_state_at_cutoff: bool
    heads: Mapping[str, str]
    others: tuple[OtherContent, ...]
    dropped: tuple[DroppedTable, ...]
    head_contents: HeadContents | None = None  # None: nobody knows which contents are at heads
    dropped_grace: timedelta | None = None  # None: nothing of dropped tables is collected

    def to_json(self) -> str:
        """One line of JSON that `from_json` reads back to an equal value."""
        heads, grace = self.head_contents, self.dropped_grace
        return json.dumps(
            {
                "schema": _SCHEMA,
                "catalog_uri": self.catalog_uri,
                "reference_time": format_time(self.reference_time),
                "default_policy": self.default_policy,
                "policies": [list(pair) for pair in self.policies],
                "keep_state_at_cutoff": self.keep_state_at_cutoff,
                "heads": dict(self.heads),
                "others": [asdict(other) for other in self.others],
                "dropped": [_dropped_fields(table) for table in self.dropped],
                **({"dropped_grace": grace.total_seconds()} if grace is not None else {}),
                **({"head_contents": heads.to_text()} if heads is not None else {}),
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> MarkFacts:
        """Read what `to_json` wrote.

        Raises:
            FormatError: it is cut short, damaged, or of a newer kind.
        """
        try:
            value = parse_json(text)
        except ValueError as error:
            raise _damaged("are not whole JSON") from error
        fields = _fields(value)
        if fields.get("schema") != _SCHEMA:
            raise _damaged(f"say {fields.get('schema')!r} where this version knows {_SCHEMA!r}")
        return cls(
            catalog_uri=_text(fields, "catalog_uri"),
            reference_time=_time(fields, "reference_time"),
            default_policy=_text(fields, "default_policy"),
            policies=_list(fields, "policies", _pair),
            keep_state_at_cutoff=_flag(fields, "keep_state_at_cutoff"),
            heads=_texts_by_name(fields, "heads"),
            others=_list(fields, "others", _other),
            dropped=_list(fields, "dropped", _dropped),
            head_contents=_head_contents(fields),
            dropped_grace=_grace(fields),
        )


def _dropped_fields(table: DroppedTable) -> dict[str, object]:
    at = table.last_seen
    return {**asdict(table), "last_seen": format_time(at) if at is not None else None}


def _grace(fields: Mapping[str, object]) -> timedelta | None:
    seconds = fields.get("dropped_grace")
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or seconds < 0:
        raise _damaged("have no duration 'dropped_grace'")
    return timedelta(seconds=seconds)


def _head_contents(fields: Mapping[str, object]) -> HeadContents | None:
    if "head_contents" not in fields:
        return None
    try:
        return HeadContents.from_text(_text(fields, "head_contents"))
    except ValueError as error:
        raise _damaged("have a damaged list of contents at heads") from error


def _other(value: object) -> OtherContent:
    fields = _fields(value)
    return OtherContent(
        content_id=_text(fields, "content_id"),
        content_key=_list(fields, "content_key", _as_text),
        kind=_text(fields, "kind"),
        locations=_list(fields, "locations", _as_text),
    )


def _dropped(value: object) -> DroppedTable:
    fields = _fields(value)
    return DroppedTable(
        content_id=_text(fields, "content_id"),
        content_key=_list(fields, "content_key", _as_text),
        content_type=_kind(fields, "content_type"),
        metadata_location=_text(fields, "metadata_location"),
        snapshot_id=_field(fields, "snapshot_id", int, "number"),
        last_seen=_time(fields, "last_seen") if fields.get("last_seen") is not None else None,
        # A mark of an older version says nothing of it, and collects none.
        is_collected="is_collected" in fields and _flag(fields, "is_collected"),
    )


def _kind(fields: Mapping[str, object], name: str) -> ContentKind:
    try:
        return ContentKind(_text(fields, name))
    except ValueError as error:
        raise _damaged(f"have no known content type {name!r}") from error


def _fields(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _damaged("hold something else where an object belongs")
    return value


def _field(fields: Mapping[str, object], name: str, kind: type[T], what: str) -> T:
    """The value of a field that must be there and of this type."""
    value = fields.get(name)
    # True is an instance of int, and no number.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _damaged(f"have no {what} {name!r}")
    return value


def _text(fields: Mapping[str, object], name: str) -> str:
    return _field(fields, name, str, "text")


def _flag(fields: Mapping[str, object], name: str) -> bool:
    return _field(fields, name, bool, "true or false")


def _list(fields: Mapping[str, object], name: str, read: Callable[[object], T]) -> tuple[T, ...]:
    return tuple(read(item) for item in _field(fields, name, list, "list"))


def _pair(value: object) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise _damaged("hold a policy that is not a pattern and a text")
    return _as_text(value[0]), _as_text(value[1])


def _as_text(value: object) -> str:
    if not isinstance(value, str):
        raise _damaged("hold something else where a text belongs")
    return value


def _texts_by_name(fields: Mapping[str, object], name: str) -> Mapping[str, str]:
    return {key: _as_text(value) for key, value in _fields(fields.get(name)).items()}


def _time(fields: Mapping[str, object], name: str) -> datetime:
    try:
        time = datetime.fromisoformat(_text(fields, name))
    except ValueError as error:
        raise _damaged(f"have no time {name!r}") from error
    if time.tzinfo is None:
        raise _damaged(f"have a time {name!r} without a zone")
    return time.astimezone(UTC)


def _damaged(what: str) -> FormatError:
    return FormatError(
        f"The facts that lakesweep stored with this live set {what}. Nothing was deleted. "
        "Mark again; the set itself can be removed with `lakesweep nessie delete`.",
        kind="damaged-mark-facts",
    )
