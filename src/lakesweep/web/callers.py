"""Who uses the pages, what they may do, and what commands that they start run with."""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from lakesweep.errors import LakesweepError
from lakesweep.settings.values import Settings

__all__ = ["Accounts", "Caller", "LinkAccount", "Need", "NotAllowedError"]


class Need(Enum):
    """What a route asks of its caller."""

    READ = "read"
    """The repository is among those that the caller reaches."""
    WRITE = "write"
    """The caller may change the repository: set its rules, mark."""
    COPY = "copy"
    """The caller may have data copied to a place of their choice."""
    SWEEP = "sweep"
    """The caller may delete data for good."""


_WORDS = {
    Need.WRITE: "change anything",
    Need.COPY: "have data copied elsewhere",
    Need.SWEEP: "delete data for good",
}


class NotAllowedError(LakesweepError, PermissionError):
    """The caller may not do what was asked. Nothing was done."""

    exit_status = 2
    default_kind = "not-allowed"


@dataclass(frozen=True, slots=True)
class Caller:
    """A person who is logged in. `environment` is what the commands that they start run with; it holds secrets."""

    id: str
    name: str
    settings: Settings = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    repositories: frozenset[str] | None = None  # the only ones that are reached; None for all
    may_write: bool = True
    may_sweep: bool = True

    def reaches(self, repository: str) -> bool:
        """Whether the repository, which may not exist, is one of the caller's."""
        return self.repositories is None or repository in self.repositories

    def may(self, need: Need) -> bool:
        """Whether the caller's rights cover a need, in the repositories that are reached."""
        # Copies are written and read with the rights of whoever runs the command, as deletes are made.
        may_all = self.may_sweep
        return {
            Need.READ: True,
            Need.WRITE: self.may_write,
            Need.COPY: may_all,
            Need.SWEEP: may_all,
        }[need]

    def check(self, need: Need, repository: str | None) -> None:
        """Refuse what the caller may not do. The answer is the same whether or not the repository exists."""
        if repository is not None and not self.reaches(repository):
            raise NotAllowedError(
                f"{self.name} does not reach the repository {repository!r} here. Nothing was done."
            )
        if not self.may(need):
            raise NotAllowedError(f"{self.name} may not {_WORDS[need]}. Nothing was done.")


class Accounts(Protocol):
    """Where callers come from."""

    asks_for_keys: bool
    """Whether people log in with an access key, or with the link that the server printed."""
    signing_key: bytes
    """Sessions are signed with it."""

    def log_in(self, name: str, secret: str) -> Caller | None:
        """The caller whose secret this is."""
        ...

    def find(self, caller_id: str) -> Caller | None:
        """The caller of a session; None when they may not use the pages any more. Asked at every request."""
        ...


class LinkAccount:
    """The one user of `lakesweep web`, who proves it with a link that works once. Using one makes the next."""

    asks_for_keys = False

    def __init__(self, caller: Caller, show_link: Callable[[str], None]) -> None:
        self.signing_key = secrets.token_bytes(32)
        self._caller = caller
        self._show_link = show_link
        self._lock = threading.Lock()
        self._token = ""

    def new_link(self) -> None:
        """Make a token and show it to whoever started the server; an earlier one is worth nothing from now on."""
        self._token = secrets.token_urlsafe(32)
        self._show_link(self._token)

    def log_in(self, name: str, secret: str) -> Caller | None:
        """The user, when the secret is the token of the last link that was shown."""
        with self._lock:
            if not self._token or not hmac.compare_digest(self._token.encode(), secret.encode()):
                return None
            self.new_link()
        return self._caller

    def find(self, caller_id: str) -> Caller | None:
        """The user."""
        return self._caller if caller_id == self._caller.id else None
