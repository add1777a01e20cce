"""Blast radius: a plan that deletes a large share of the lake waits until a person has confirmed it by its id.

Nothing here knows of a catalog: every road of every catalog measures its plans alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ConfigError, UnsafeToSweepError

__all__ = ["SMALL_PLAN_BYTES", "SMALL_PLAN_OBJECTS", "BlastRadius"]

# A plan of at most so many objects and bytes needs no confirmation: the share of a small lake says little.
SMALL_PLAN_OBJECTS = 1000
SMALL_PLAN_BYTES = 10 * 2**30


@dataclass(frozen=True, slots=True)
class BlastRadius:
    """What a plan would delete, beside what is live. Young and foreign objects count on neither side."""

    plan_id: str
    mark: str  # as messages name it
    garbage: Tally
    live: Tally
    confirming_command: str

    @property
    def share(self) -> float:
        """The larger of the shares of objects and of bytes of live + garbage, in percent."""
        whole = self.live + self.garbage
        of_objects = self.garbage.objects / whole.objects if whole.objects else 0.0
        of_bytes = self.garbage.bytes / whole.bytes if whole.bytes else 0.0
        return 100.0 * max(of_objects, of_bytes)

    def check_confirmed(self, confirm: str | None, max_delete_share: float) -> None:
        """Refuse a large plan that nobody confirmed, and a confirmation of another plan."""
        if confirm is None:
            if self._is_too_large(max_delete_share):
                raise UnsafeToSweepError(
                    f"The plan {self.plan_id} would delete {self._said(max_delete_share)} Nothing was deleted. Look at "
                    f"the mark {self.mark}; if it is right: {self.confirming_command}",
                    kind="blast-radius",
                )
        elif confirm != self.plan_id:
            raise ConfigError(
                f"--confirm {confirm} names another plan: mark {self.mark} has plan {self.plan_id}. Nothing was deleted.",
                kind="other-plan",
            )

    def check_widening(self, named: Tally, max_delete_share: float) -> None:
        """Refuse a mark that names a large share now and more than its plan, which alone was measured or confirmed."""
        if named.objects <= self.garbage.objects and named.bytes <= self.garbage.bytes:
            return
        now = replace(self, garbage=named)
        if now._is_too_large(max_delete_share):
            raise UnsafeToSweepError(
                f"The mark {self.mark} names {named} that are garbage, its plan {self.plan_id} {self.garbage}: somebody "
                f"added to it, and it would delete {now._said(max_delete_share)} Nothing was deleted. Mark again.",
                kind="blast-radius",
            )

    def _is_too_large(self, max_delete_share: float) -> bool:
        is_small = (
            self.garbage.objects <= SMALL_PLAN_OBJECTS and self.garbage.bytes <= SMALL_PLAN_BYTES
        )
        return not is_small and self.share > max_delete_share

    def _said(self, max_delete_share: float) -> str:
        return (
            f"{self.garbage}, {self.share:.1f} % of what is live or garbage ({self.live + self.garbage}), more than the "
            f"{max_delete_share:g} % that go without asking."
        )
