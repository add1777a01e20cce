"""Which metadata files are those of contents at the head of a reference, told by the commits alone."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping

from lakesweep.catalogs.nessie.history import ROOT, CommitHistory
from lakesweep.catalogs.nessie.live_contents import States
from lakesweep.catalogs.nessie.values import TableState

__all__ = ["HeadLocations"]

_NONE = -1

# A key's metadata location, and how many heads had been met when it became the key's.
_Current = tuple[str, int]


class HeadLocations:
    """Metadata locations of all contents at heads, found anew each time it is gone through.

    One walk over the tree of commits, from the roots to the tips, keeps what each key has at the commit where the walk
    is. A location is a head's when a head was met while it was a key's. That costs one step for each change of each
    commit, however many references there are. What is in a state that was read and in no commit counts as a head's.
    """

    def __init__(
        self, history: CommitHistory, heads: Iterable[int], states: Mapping[int, States]
    ) -> None:
        self._history = history
        self._heads = frozenset(heads)
        self._states = states

    def __iter__(self) -> Iterator[str]:
        return iter(_Walk(self._history, self._heads).found() | set(self._of_states()))

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


class _Walk:
    def __init__(self, history: CommitHistory, heads: frozenset[int]) -> None:
        self._history = history
        self._heads = heads
        self._current: dict[tuple[str, ...], _Current] = {}
        self._heads_met = 0
        self._found: set[str] = set()

    def found(self) -> set[str]:
        children, next_sibling, roots = _tree(self._history.parents)
        # A commit is entered, then its children are, then it is left: a number below zero stands for leaving.
        waiting = roots
        undo: list[list[tuple[tuple[str, ...], _Current | None]]] = []
        while waiting:
            commit = waiting.pop()
            if commit < 0:
                for key, before in undo.pop():
                    self._set(key, before[0] if before is not None else None)
                continue
            undo.append(self._enter(commit))
            waiting.append(~commit)
            child = children[commit]
            while child != _NONE:
                waiting.append(child)
                child = next_sibling[child]
        return self._found

    def _enter(self, commit: int) -> list[tuple[tuple[str, ...], _Current | None]]:
        """Make a commit's changes; returns what each changed key had before."""
        before: list[tuple[tuple[str, ...], _Current | None]] = []
        for key in self._history.deleted[commit]:
            before.append((key, self._current.get(key)))
            self._set(key, None)
        for content in self._history.contents[commit]:
            before.append((content.content_key, self._current.get(content.content_key)))
            location = content.metadata_location if isinstance(content, TableState) else None
            self._set(content.content_key, location)
        self._heads_met += commit in self._heads
        before.reverse()
        return before

    def _set(self, key: tuple[str, ...], location: str | None) -> None:
        known = self._current.pop(key, None)
        if known is not None and self._heads_met > known[1]:
            self._found.add(known[0])
        if location is not None:
            self._current[key] = (location, self._heads_met)


def _tree(parents: array[int]) -> tuple[array[int], array[int], list[int]]:
    """The first child and the next sibling of each commit, and the commits without a parent."""
    children = array("q", [_NONE]) * len(parents)
    next_sibling = array("q", [_NONE]) * len(parents)
    roots = []
    for commit, parent in enumerate(parents):
        if parent == ROOT:
            roots.append(commit)
        else:
            next_sibling[commit] = children[parent]
            children[parent] = commit
    return children, next_sibling, roots
