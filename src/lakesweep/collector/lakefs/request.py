"""What a user asks of a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lakesweep.domain.location import Location
from lakesweep.storage import StorageOptions

DEFAULT_MAX_DELETE_SHARE = 50.0
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


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Options of a sweep."""

    max_delete_share: float = DEFAULT_MAX_DELETE_SHARE
    confirm: str | None = None
    allow_lower_min_age: bool = False
    dry_run: bool = False
    backup_to: Location | None = None
    backup_storage: StorageOptions | None = None  # where the backup's store is opened otherwise
