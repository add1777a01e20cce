"""Names and moments that are the same whenever the same schedule runs.

Ids that code makes at random (`uuid4`, xids) are counted instead, for each actor on its own: the order in which actors
take their steps must not show in the names that they give.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace
from unittest.mock import patch

from lakesweep.collector.ledger import deadline, deleting
from lakesweep.collector.ledger.deadline import Moment

_EACH = 1 << 16


class CountedNames:
    """Counts for each actor. `actor` is the number of the one that runs; 0 is nobody in particular."""

    def __init__(self) -> None:
        self.actor = 0
        self._counts: dict[int, int] = {}

    def restart(self, counts: dict[int, int] | None = None) -> None:
        """Count from the beginning, or from where a scene was left."""
        self.actor = 0
        self._counts = dict(counts or {})

    @property
    def counts(self) -> dict[int, int]:
        """How far each actor's counts have come."""
        return dict(self._counts)

    def __next__(self) -> int:
        count = self._counts.get(self.actor, 0) + 1
        self._counts[self.actor] = count
        return self.actor * _EACH + count

    def uuid4(self) -> uuid.UUID:
        """The next id of the running actor."""
        return uuid.UUID(int=next(self))


@contextmanager
def counted_names(names: CountedNames, clock: Callable[[], datetime]) -> Iterator[None]:
    """Within, ids are counted, and the scene's clock tells the moments of deletes and of their outcomes."""
    with (
        patch("uuid.uuid4", names.uuid4),
        patch("lakesweep.formats.xid._counter", names),
        patch.object(deadline, "this_moment", lambda: Moment(clock(), clock().timestamp())),
        patch.object(deleting, "datetime", SimpleNamespace(now=lambda _: clock())),
    ):
        yield
