"""Which metadata files are those of contents at the head of a reference, told by the commits alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lakesweep.catalogs.nessie.history import CommitHistory
from lakesweep.catalogs.nessie.live_contents import States
from lakesweep.catalogs.nessie.state_walk import StateWalk
from lakesweep.catalogs.nessie.values import TableState
from lakesweep.catalogs.nessie.whole_states import table_location

__all__ = ["HeadLocations"]


class HeadLocations:
    """Metadata locations of all contents at heads, found anew each time it is gone through.

    What is in a state that was read and in no commit counts as a head's.
    """

    def __init__(
        self, history: CommitHistory, heads: Iterable[int], states: Mapping[int, States]
    ) -> None:
        self._history = history
        self._heads = frozenset(heads)
        self._states = states

    def __iter__(self) -> Iterator[str]:
        walk = StateWalk(self._history, self._heads, table_location)
        return iter(walk.found() | set(self._of_states()))

    def _of_states(self) -> Iterator[str]:
        put = {
            content.metadata_location
            for contents in self._history.contents
            for content in contents
            if isinstance(content, TableState)
        }
        for number, state in self._states.items():
            for content in state:
                if isinstance(content, TableState) and (
                    number in self._heads or content.metadata_location not in put
                ):
                    yield content.metadata_location
