"""What a promise of a server is, and how a trial of it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from inspect import cleandoc
from typing import Generic, TypeVar

__all__ = [
    *("BrokenError", "Finding", "NotDecidedError", "NotOfferedError", "Promise", "PromiseVerdict"),
    "promise",
]

Lake = TypeVar("Lake")


class PromiseVerdict(StrEnum):
    """What a trial of a promise came to."""

    KEPT = "kept"
    BROKEN = "broken"
    NOT_OFFERED = "not offered"
    NOT_DECIDED = "not decided"


class BrokenError(Exception):
    """The server did something else than it promises; the message is what was seen."""


class NotOfferedError(Exception):
    """The server has no such call or feature; the message is what it answered."""


class NotDecidedError(Exception):
    """The trial could not be made; the message is why."""


@dataclass(frozen=True, slots=True)
class Promise(Generic[Lake]):
    """One promise: its subject and name, whether a collector can't do without it, what it means when it is not kept.

    A trial returns what it saw when the promise is kept, and raises one of the errors above otherwise.
    """

    subject: str
    name: str
    is_needed: bool
    without: str
    trial: Callable[[Lake], str]

    @property
    def done(self) -> str:
        """What the trial does, from its docstring."""
        return " ".join(cleandoc(self.trial.__doc__ or "").split())


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one promise."""

    subject: str
    name: str
    is_needed: bool
    done: str
    seen: str
    verdict: PromiseVerdict
    meaning: str

    @property
    def makes_unfit(self) -> bool:
        """Whether a collector can't work safely with this server, as far as this promise goes."""
        unkept = (PromiseVerdict.BROKEN, PromiseVerdict.NOT_OFFERED)
        return self.is_needed and self.verdict in unkept


def promise(
    subject: str, name: str, *, without: str, needed: bool = False
) -> Callable[[Callable[[Lake], str]], Promise[Lake]]:
    """Make a promise of a trial."""

    def made(trial: Callable[[Lake], str]) -> Promise[Lake]:
        return Promise(subject, name, needed, without, trial)

    return made
