"""Every operation of every run in turn is spoiled in every way; what became of each, and what should not have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from lakesweep.errors import LakesweepError, UnexpectedError
from lakesweep_testing.fault_search.stages import Stage
from lakesweep_testing.fault_search.troubles import Fault, Operation, faults_of

__all__ = ["Ending", "Injected", "Injection", "inject", "injections_of"]


_LEAVING_OUT = (Fault.TRUNCATED, Fault.EMPTY, Fault.STALE)


class Ending(StrEnum):
    """How a run with a fault ended."""

    RIGHT = "right"
    ERROR = "clear error"
    UNSEEN = "unseen"  # a page told less than there is without a word; what it left out is kept for a later run
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Injection:
    """One fault at one operation of a stage's run."""

    stage: str
    at: int
    operation: Operation
    fault: Fault

    def __str__(self) -> str:
        return f"{self.stage}: {self.fault} at operation {self.at}, {self.operation.kind} of {self.operation.name}"


@dataclass(frozen=True, slots=True)
class Injected:
    """What became of it; `said` is the error's words, or what is wrong."""

    injection: Injection
    ending: Ending
    said: str = ""
    is_lost: bool = False


def injections_of(stage: Stage) -> list[Injection]:
    """Everything that can go wrong at every operation of the run, which is made once without a fault."""
    stage.rewind()
    quiet = stage.troubles()
    record = stage.act(quiet)
    complaint = stage.wrong(record) or stage.loss() or stage.ledger_lies()
    assert not complaint, f"{stage.name} without any fault: {complaint}"
    return [
        Injection(stage.name, at, operation, fault)
        for at, operation in enumerate(quiet.operations)
        for fault in faults_of(operation)
    ]


def inject(stage: Stage, injection: Injection) -> Injected:
    """Make the run with one fault, and judge how it ends."""
    stage.rewind()
    troubles = stage.troubles(injection.fault, injection.at)
    complaint, error = "", None
    try:
        record = stage.act(troubles)
        complaint = stage.wrong(record)
    except LakesweepError as raised:
        error = raised
    except BaseException as raised:  # noqa: BLE001 - whatever comes is what a user would see
        return Injected(injection, Ending.WRONG, f"{type(raised).__name__}: {raised}")
    # Threads may make operations come in another order than before.
    injection = replace(injection, operation=troubles.struck or injection.operation)
    if loss := stage.loss():
        return Injected(injection, Ending.WRONG, f"lost: {loss}", is_lost=True)
    complaint = complaint or stage.ledger_lies()
    if complaint and not (
        injection.fault in _LEAVING_OUT and stage.may_go_unseen(injection.operation)
    ):
        return Injected(injection, Ending.WRONG, f"silent: {complaint}")
    if error is not None and (unclear := _unclear(stage, error)):
        return Injected(injection, Ending.WRONG, unclear)
    if not complaint and error is None:
        return Injected(injection, Ending.RIGHT)
    said = complaint if error is None else f"{error.kind}: {error.message}"
    try:
        left = stage.recover()
    except LakesweepError as raised:
        left = f"{raised.kind}: {raised.message}"
    if loss := stage.loss():
        return Injected(injection, Ending.WRONG, f"lost later: {loss} (after {said})", is_lost=True)
    if left:
        return Injected(injection, Ending.WRONG, f"a later run: {left} (after {said})")
    return Injected(injection, Ending.UNSEEN if error is None else Ending.ERROR, said)


def _unclear(stage: Stage, error: LakesweepError) -> str:
    """Why an error does not tell what happened."""
    if isinstance(error, UnexpectedError) or not error.exit_status or not error.kind:
        return f"not a clear error: {error.kind}: {error.message}"
    if stage.deleted() and error.exit_status != 5:
        return f"deleted {sorted(stage.deleted())}, and says {error.kind}: {error.message}"
    return ""
