"""What branches and commits have at paths, as it is asked of a server and as it answers."""

from __future__ import annotations

from dataclasses import dataclass

from lakesweep.catalogs.lakefs.transport import Question
from lakesweep.catalogs.lakefs.wire import ObjectStatsWire


@dataclass(frozen=True, slots=True)
class EntryAsked:
    """The entry at a path, as a branch or commit reads it."""

    ref: str
    path: str


@dataclass(frozen=True, slots=True)
class PageAsked:
    """The first entries of a branch or commit after a path, at most `amount` of them."""

    ref: str
    after: str
    amount: int


@dataclass(frozen=True, slots=True)
class EntriesPage:
    """Entries in path order; others follow after `next_offset`, if it is not empty."""

    entries: list[ObjectStatsWire]
    next_offset: str


def entry_question(repository: str, asked: EntryAsked) -> Question:
    """The question for one entry."""
    return Question(
        f"looking up {asked.path!r} at {asked.ref} of {repository}",
        ["repositories", repository, "refs", asked.ref, "objects", "stat"],
        {"path": asked.path, "user_metadata": False},
    )


def page_question(repository: str, asked: PageAsked, prefix: str = "") -> Question:
    """The question for a page of entries whose paths begin with a prefix."""
    return Question(
        f"listing {asked.ref} of {repository}",
        ["repositories", repository, "refs", asked.ref, "objects", "ls"],
        {
            "prefix": prefix,
            "user_metadata": False,
            "amount": asked.amount,
            "after": asked.after,
        },
    )
