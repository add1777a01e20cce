"""What a user asks of a mark of a repository."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lakesweep.domain.rules import RetentionRules

DEFAULT_KEEP_RUNS = 30
DEFAULT_MAX_INVENTORY_AGE = timedelta(days=14)


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
    inventory: str | None = None  # the URI of what takes the place of a listing
    max_inventory_age: timedelta = DEFAULT_MAX_INVENTORY_AGE


@dataclass(frozen=True, slots=True)
class WhatIfRequest:
    """Options of a what-if. `rules` are other rules by name, `branches` those whose own days are varied too."""

    what: What = What.ALL
    min_age: timedelta | None = None
    allow_lower_min_age: bool = False
    keep_refs: tuple[str, ...] = ()
    keep_tags: bool = False
    now: datetime | None = None
    rules: tuple[tuple[str, RetentionRules], ...] = ()
    branches: tuple[str, ...] = ()  # none: all where they are few
    depth: int = 1  # folders of a path by which it is grouped
    price: float | None = None  # of a GB and month
    save: bool = True
