"""Nessie leaves out of a commit's contents what a user may not view, without a word: what tells that something is missing."""

from __future__ import annotations

from collections.abc import Mapping

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.history import CommitHistory
from lakesweep.catalogs.nessie.live_contents import States
from lakesweep.catalogs.nessie.liveness import LiveCommits
from lakesweep.catalogs.nessie.state_walk import StateWalk
from lakesweep.catalogs.nessie.transport import nonsense
from lakesweep.catalogs.nessie.values import CatalogContent, TableState

__all__ = ["read_agreed_state", "refuse_short_states", "table_location"]

_CHECK_RIGHTS = (
    "Check that the user may view every content: the data of hidden ones would look like garbage"
)


def table_location(content: CatalogContent) -> str | None:
    """The metadata file of a table or view; other contents have none."""
    return content.metadata_location if isinstance(content, TableState) else None


def refuse_short_states(
    history: CommitHistory, live: LiveCommits, states: Mapping[int, States]
) -> None:
    """Refuse states without a table that, by the commits alone, is there: its files would look like garbage."""
    told = {table_location(content) for state in states.values() for content in state}
    told |= {
        table_location(content)
        for number, is_live in enumerate(live.flags)
        if is_live
        for content in history.contents[number]
    }
    missing = StateWalk(history, states.keys(), table_location).found() - told
    if missing:
        raise nonsense(
            "reading the contents at the last live commits",
            f"{len(missing)} tables or views that were put and not deleted are left out, for example "
            f"{min(missing)}. {_CHECK_RIGHTS}",
        )


def read_agreed_state(client: NessieClient, hash: str) -> States:
    """All contents at a commit whose earlier ones are not known: asked for twice, as one answer may be cut short."""
    first, second = tuple(client.entries(hash)), tuple(client.entries(hash))
    if first != second:
        raise nonsense(
            f"reading the contents at {hash[:12]}",
            f"the same question had two answers, of {len(first)} and of {len(second)} contents",
        )
    return first
