"""What a user asks of a run on a Nessie catalog."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from lakesweep.collector.request import DEFAULT_MAX_DELETE_SHARE
from lakesweep.domain.cutoff_policies import CutoffPolicies
from lakesweep.domain.live_sets import LiveSetId

GRACE = timedelta(hours=24)
DROPPED_GRACE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class MarkRequest:
    """Which commits of which references are live. The texts are kept with the set, so that a sweep can ask again."""

    policies: CutoffPolicies
    reference_time: datetime
    default_policy: str
    policy_texts: tuple[tuple[str, str], ...]
    keep_state_at_cutoff: bool = False
    dropped_grace: timedelta | None = None  # None: nothing of dropped tables is collected
    parallelism: int = 4


@dataclass(frozen=True, slots=True)
class ExpireRequest:
    """What to do about files that no content of a live set refers to."""

    live_set_id: LiveSetId
    defer: bool = False
    # Inclusive; takes the place of a grace period that is not asked for.
    max_file_modification: datetime | None = None
    grace: timedelta | None = None  # None: nobody asks for one
    keep_all_snapshots: bool = False
    give_up: frozenset[str] = frozenset()
    max_delete_share: float = DEFAULT_MAX_DELETE_SHARE
    confirm: str | None = None
    is_in_memory: bool = False  # the live set ends with this process, and no later command finds it
    is_catalog_moved: bool = False  # the marked catalog is at another address now
    parallelism: int = 4  # keeps more files in flight in each task; Spark says how many tasks run

    @property
    def least_age(self) -> timedelta:
        """How long before the mark a file must have been written."""
        if self.grace is not None:
            return self.grace
        return GRACE if self.max_file_modification is None else timedelta(0)

    @property
    def files_in_flight(self) -> int:
        """Metadata files or manifests that one task reads at the same time."""
        return 8 * self.parallelism
