"""`kill -9` of a lake server, of an expiry or of a task of one after a write: what comes after it ends as it would have.

A share by chance; `python -m lakesweep_testing.kill_search` kills after every write. See test_killed_driver.py, too.
"""

from __future__ import annotations

import pytest

from lakesweep_testing.kill_search.series import kill

SEED = 18


@pytest.mark.parametrize(
    ("who", "run", "share"),
    [
        ("lake server", "a day", 0.02),
        ("driver", "identify", 0.1),
        ("driver", "expire", 0.06),
        ("driver", "deferred deletes", 0.05),
        ("executor", "expire", 0.05),
    ],
)
def test_a_kill_does_no_harm(who: str, run: str, share: float) -> None:
    """After some of its writes, the same for one seed."""
    kills = kill(who, run, share, SEED)
    assert kills.kills
    assert kills.wrong == []
