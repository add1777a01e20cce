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
        branches = ", ".join(f"{b} {d} d" for b, d in sorted(self.branch_retention_days.items()))
        return f"default {self.default_retention_days} d" + (f"; {branches}" if branches else "")
