"""Which faults of all possible ones a search injects."""

from __future__ import annotations

import random
from collections import Counter

from lakesweep_testing.fault_search.search import Injection
from lakesweep_testing.fault_search.shares import in_turn
from lakesweep_testing.fault_search.troubles import Fault, Operation

POSSIBLE = [
    Injection("a run", at, Operation("read", str(at)), fault)
    for at in range(40)
    for fault in (Fault.ERROR, Fault.SLOW, Fault.EMPTY)
]


def test_every_operation_has_its_turn() -> None:
    """However few faults are injected, no operation gets two before every other got one."""
    for count in (10, 40, 50, 120):
        by_operation = Counter(one.at for one in in_turn(POSSIBLE, count, random.Random(1)))
        assert by_operation.total() == count
        assert max(by_operation.values()) - min(by_operation[at] for at in range(40)) <= 1


def test_the_seed_chooses() -> None:
    """One seed, one choice; all is injected once where as much is asked for as there is."""
    first = in_turn(POSSIBLE, 40, random.Random(1))
    assert first == in_turn(POSSIBLE, 40, random.Random(1))
    assert first != in_turn(POSSIBLE, 40, random.Random(2))
    assert Counter(in_turn(POSSIBLE, 1000, random.Random(1))) == Counter(POSSIBLE)
