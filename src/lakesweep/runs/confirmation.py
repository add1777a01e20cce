"""Blast radius: a plan that deletes a large share of the lake waits until a person has confirmed it by its id."""

from __future__ import annotations

from dataclasses import replace

from lakesweep.domain.verdicts import Tally
from lakesweep.errors import ConfigError, UnsafeToSweepError
from lakesweep.runs.plan import Plan
from lakesweep.runs.request import SMALL_PLAN_OBJECTS, SweepRequest


def check_confirmation(plan: Plan, request: SweepRequest) -> None:
    """Refuse a large plan that nobody confirmed, and a confirmation of another plan."""
    if request.confirm is not None:
        if request.confirm != plan.id:
            raise ConfigError(
                f"--confirm {request.confirm} names another plan: mark {plan.mark_id} has plan {plan.id}. Nothing was deleted.",
                kind="other-plan",
            )
        return
    if plan.garbage.objects > SMALL_PLAN_OBJECTS and plan.share() > request.max_delete_share:
        raise UnsafeToSweepError(
            f"The plan {plan.id} would delete {plan.garbage}, {plan.share():.1f} % of {plan.base}, more than the "
            f"{request.max_delete_share:g} % that go without asking. Nothing was deleted. Look at the mark {plan.mark_id}; "
            f"if it is right: lakesweep sweep {plan.repository} --mark-id {plan.mark_id} --confirm {plan.id}",
            kind="blast-radius",
        )


def check_widening(plan: Plan, named: Tally, request: SweepRequest) -> None:
    """A mark edited by hand may name more than its plan, and only the plan was measured or confirmed."""
    if named.objects <= max(plan.garbage.objects, SMALL_PLAN_OBJECTS):
        return
    share = replace(plan, garbage=named).share()
    if share > request.max_delete_share:
        raise UnsafeToSweepError(
            f"The mark {plan.mark_id} names {named} that are garbage, its plan {plan.id} {plan.garbage}: somebody added to "
            f"it, and it would delete {share:.1f} % of {plan.base}, more than the {request.max_delete_share:g} % that go "
            "without asking. Nothing was deleted. Mark again.",
            kind="blast-radius",
        )
