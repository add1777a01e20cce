"""From live commits to what they hold: references to tables and views, and contents of other kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from lakesweep.catalogs.nessie.history import CommitHistory
from lakesweep.catalogs.nessie.liveness import LiveCommits
from lakesweep.catalogs.nessie.values import CatalogContent, TableState
from lakesweep.domain.live_sets import ContentReference, OtherContent

__all__ = ["LiveReferences", "States", "keep_newest", "live_contents", "other_contents"]

States = tuple[CatalogContent, ...]
Content = TypeVar("Content", TableState, OtherContent)


@dataclass(eq=False, repr=False)
class LiveReferences:
    """One reference for each content of each live commit or state, made while it is gone through."""

    _history: CommitHistory
    _live: LiveCommits
    _states: Mapping[int, States]

    def __iter__(self) -> Iterator[ContentReference]:
        for number, contents in live_contents(self._history, self._live, self._states):
            yield from _references(self._history.hashes[number], contents)


def _references(commit_id: str, contents: Iterable[CatalogContent]) -> Iterator[ContentReference]:
    """One reference for each distinct state of a table: a commit's own puts are part of its full state too.

    One id can stand under two keys with different metadata (a rename, merged without its delete), while a live set
    holds one row for an id and a commit. The second gets a commit id with a number, so that it is not lost.
    """
    found: dict[str, list[tuple[object, ...]]] = {}
    for content in contents:
        if isinstance(content, TableState):
            states = found.setdefault(content.content_id, [])
            state = content[2:]
            if state not in states:
                states.append(state)
                name = commit_id if len(states) == 1 else f"{commit_id}#{len(states)}"
                yield ContentReference(content.content_id, name, *content[1:])


def other_contents(
    history: CommitHistory, live: LiveCommits, states: Mapping[int, States]
) -> tuple[OtherContent, ...]:
    """Live contents that are neither tables nor views, each once, with all locations it has had."""
    newest: dict[str, tuple[int, OtherContent]] = {}
    locations: dict[str, set[str]] = {}
    for number, contents in live_contents(history, live, states):
        for content in contents:
            if isinstance(content, OtherContent):
                keep_newest(newest, history, number, content)
                locations.setdefault(content.content_id, set()).update(content.locations)
    return tuple(
        replace(newest[content_id][1], locations=tuple(sorted(locations[content_id])))
        for content_id in sorted(newest)
    )


def keep_newest(
    newest: dict[str, tuple[int, Content]], history: CommitHistory, number: int, content: Content
) -> None:
    """Keep a content with its commit, unless a later put of the same content is known."""
    known = newest.get(content.content_id)
    # Of two of the same time the one with the smaller number is nearer to a head.
    if known is None or history.times[number] > history.times[known[0]]:
        newest[content.content_id] = (number, content)


def live_contents(
    history: CommitHistory, live: LiveCommits, states: Mapping[int, States]
) -> Iterator[tuple[int, Iterator[CatalogContent]]]:
    """What each live commit put and, where it was read, the state at it."""
    for number, is_live in enumerate(live.flags):
        state = states.get(number, ())
        if is_live or state:
            own = history.contents[number] if is_live else ()
            yield number, iter((*own, *state))
