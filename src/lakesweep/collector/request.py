"""What a user asks of a sweep, whatever the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from lakesweep.domain.location import Location
from lakesweep.storage import StorageOptions

DEFAULT_MAX_DELETE_SHARE = 50.0


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Options of a sweep."""

    max_delete_share: float = DEFAULT_MAX_DELETE_SHARE
    confirm: str | None = None
    allow_lower_min_age: bool = False
    dry_run: bool = False
    backup_to: Location | None = None
    backup_storage: StorageOptions | None = None  # where the backup's store is opened otherwise
    # Of a lakeFS repository: what keeps more than the mark was told to keep.
    keep_refs: tuple[str, ...] = ()
    keep_tags: bool = False
    min_age: timedelta | None = None
