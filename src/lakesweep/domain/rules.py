"""Retention rules: how many days an object stays after it left the head of a branch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakesweep.domain.commits import BranchId


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """Days for the repository and, where they differ, for single branches."""

    default_retention_days: int
    branch_retention_days: Mapping[BranchId, int] = field(default_factory=dict)

    def days_for(self, branch_id: BranchId) -> int:
        """The branch's own rule, else the default."""
        return self.branch_retention_days.get(branch_id, self.default_retention_days)

    def as_json(self) -> dict[str, Any]:
        """The rules as lakeFS's API and users write them."""
        return {
            "default_retention_days": self.default_retention_days,
            "branches": [
                {"branch_id": branch_id, "retention_days": days}
                for branch_id, days in sorted(self.branch_retention_days.items())
            ],
        }

    def __str__(self) -> str:
        own = sorted(self.branch_retention_days.items())
        branches = ", ".join(f"{branch} {days_text(days)}" for branch, days in own)
        default = f"default {days_text(self.default_retention_days)}"
        return default + (f"; {branches}" if branches else "")


def days_text(days: int) -> str:
    """`1 day`, `7 days`."""
    return f"{days} day{'' if days == 1 else 's'}"
