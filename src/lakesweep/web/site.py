"""What all pages share: where they are, who may use them, and the commands that they started."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakesweep.web.callers import Accounts
from lakesweep.web.commands import Commands
from lakesweep.web.sessions import Sessions

if TYPE_CHECKING:
    from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore

__all__ = ["Site"]


@dataclass(frozen=True, slots=True)
class Site:
    """One set of pages."""

    accounts: Accounts
    commands: Commands
    hosts: frozenset[str]
    """Names, with their ports, by which browsers may call this server."""
    base: str = ""
    """The path that all pages lie below, such as `/ui`."""
    cookie: str = "lakesweep"
    """Cookies are not kept apart by port, so two servers on one machine need two names."""
    live_sets: Callable[[], AbstractContextManager[LiveSetStore]] | None = None
    """Opens the database of Nessie's live sets, where there is one."""
    hide: Callable[[bytes], bytes] = bytes
    """Takes out of a page what its readers need not know."""
    sessions: Sessions = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sessions", Sessions(self.accounts.signing_key))
