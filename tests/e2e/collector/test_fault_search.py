"""A fault at any operation of a run: it ends right, or with a clear error, nothing live is lost, and a later run finishes.

A few by chance; `make safety` makes thousands, at every operation in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lakesweep.catalogs.nessie import identify as identify_module
from lakesweep.errors import StorageError
from lakesweep_testing.fault_search.search import Ending, Injected, inject, injections_of
from lakesweep_testing.fault_search.shares import open_stage, search
from lakesweep_testing.fault_search.stages import Stage
from lakesweep_testing.fault_search.troubles import Fault

SEED = 18
SHARE = [
    ("embedded lake", "gc, optimised", 4),
    ("embedded lake", "restore", 4),
    ("lakeFS server", "gc", 3),
    ("Nessie", "gc", 5),
    ("Nessie", "expire, gone on with", 5),
]


@pytest.mark.parametrize(("catalog", "run", "injections"), SHARE)
def test_a_fault_at_any_operation_does_no_harm(catalog: str, run: str, injections: int) -> None:
    """By chance, the same for one seed."""
    found = search(catalog, run, injections, SEED)
    assert found["injections"] == injections
    assert found["wrong"] == []


@pytest.fixture
def opened() -> Iterator[Callable[[str, str], Stage]]:
    with ExitStack() as stack:
        yield lambda catalog, run: open_stage(catalog, run, stack)


def injected(stage: Stage, fault: Fault, name: str) -> list[Injected]:
    """What becomes of a fault at each operation whose name ends so."""
    found = [i for i in injections_of(stage) if i.fault is fault and name in i.operation.name]
    assert found, "the run does no such thing"
    return [inject(stage, one) for one in found]


def test_a_loss_is_noticed(
    opened: Callable[[str, str], Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its guard, a mark believes a list of contents that is empty."""
    stage = opened("Nessie", "gc")
    # The contents of one branch's head are known by its own commit.
    guarded = {one.ending for one in injected(stage, Fault.EMPTY, "/entries")}
    assert guarded in ({Ending.ERROR}, {Ending.ERROR, Ending.RIGHT})
    monkeypatch.setattr(identify_module, "refuse_short_states", lambda *about: None)
    assert any(one.is_lost for one in injected(stage, Fault.EMPTY, "/entries"))


def test_work_that_was_not_done_in_silence_is_noticed(
    opened: Callable[[str, str], Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark that is content with what it could write."""
    stage = opened("Nessie", "expire")
    act = stage.act

    def content(troubles: object) -> object:
        try:
            return act(troubles)  # type: ignore[arg-type]
        except StorageError:
            return None

    monkeypatch.setattr(stage, "act", content)
    assert Ending.WRONG in {one.ending for one in injected(stage, Fault.DISK_FULL, "/listing/")}
