"""What each key has at each commit, told by the commits alone: one walk over the tree of commits, roots to tips."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from lakesweep.catalogs.nessie.history import ROOT, CommitHistory
from lakesweep.catalogs.nessie.values import CatalogContent

__all__ = ["StateWalk"]

_NONE = -1

# What a key has, and how many of the commits asked about had been met when it became the key's.
_Current = tuple[str, int]


@dataclass(eq=False, repr=False)
class StateWalk:
    """Finds what keys have at some commits. It costs one step for each change of each commit, however many those are."""

    _history: CommitHistory
    _asked: Container[int]  # the commits
    _value_of: Callable[[CatalogContent], str | None]  # what to find
    _on_end: Callable[[str, int], None] | None = None  # hears a value that a commit takes off a key
    _current: dict[tuple[str, ...], _Current] = field(default_factory=dict, init=False)
    _met: int = field(default=0, init=False)
    _found: set[str] = field(default_factory=set, init=False)

    def found(self) -> set[str]:
        """Every value that a key has at one of the commits."""
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
            self._change(commit, key, None, before)
        for content in self._history.contents[commit]:
            self._change(commit, content.content_key, self._value_of(content), before)
        self._met += commit in self._asked
        before.reverse()
        return before

    def _change(
        self,
        commit: int,
        key: tuple[str, ...],
        value: str | None,
        before: list[tuple[tuple[str, ...], _Current | None]],
    ) -> None:
        known = self._current.get(key)
        before.append((key, known))
        if self._on_end is not None and known is not None and known[0] != value:
            self._on_end(known[0], commit)
        self._set(key, value)

    def _set(self, key: tuple[str, ...], value: str | None) -> None:
        known = self._current.pop(key, None)
        if known is not None and self._met > known[1]:
            self._found.add(known[0])
        if value is not None:
            self._current[key] = (value, self._met)


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
