"""What a user asks of a mark of a repository."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

DEFAULT_KEEP_RUNS = 30


class What(StrEnum):
    """What is collected."""

    ALL = "all"
    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"


class Flow(StrEnum):
    """How the unreferenced are found: by a full listing, or building on an earlier run."""

    AUTO = "auto"
    CLEAN = "clean"
    OPTIMIZED = "optimized"


@dataclass(frozen=True, slots=True)
class MarkRequest:
    """Options of a mark."""

    what: What = What.ALL
    flow: Flow = Flow.AUTO
    mark_id: str | None = None
    min_age: timedelta | None = None
    allow_lower_min_age: bool = False
    keep_refs: tuple[str, ...] = ()
    keep_tags: bool = False
    now: datetime | None = None
