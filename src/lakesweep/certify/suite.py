"""All promises, tried one after the other on one server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakesweep.catalogs.lakefs.values import ServerProfile
from lakesweep.certify import (
    addresses,
    clocks,
    commits,
    copies,
    hard_deletes,
    listings,
    races,
    retention,
    uncommitted,
    uploads,
)
from lakesweep.certify.promise import (
    BrokenError,
    Finding,
    NotDecidedError,
    NotOfferedError,
    Promise,
    PromiseVerdict,
)
from lakesweep.certify.throwaway import Server, ThrowAway, throw_away_repository
from lakesweep.errors import (
    CatalogDeniedError,
    CatalogError,
    CatalogNotFoundError,
    ConfigError,
    LakesweepError,
    StorageError,
    UnsafeToSweepError,
)

__all__ = ["PROMISES", "Certificate", "Fitness", "certify_server"]

logger = logging.getLogger(__name__)

PROMISES: tuple[Promise[ThrowAway], ...] = (
    *clocks.PROMISES,
    *listings.PROMISES,
    *addresses.PROMISES,
    *uploads.PROMISES,
    *copies.PROMISES,
    *commits.PROMISES,
    *retention.PROMISES,
    *hard_deletes.PROMISES,
    *uncommitted.PROMISES,
    *races.PROMISES,
)
_AS_IT_IS_NEEDED = "Nothing: it is as a collector needs it."
_NOT_KNOWN = "Not known. If it were not kept: "
_MAY_PASS = ("http-429", "http-503", "catalog-unreachable", "catalog-timeout")


class Fitness(StrEnum):
    """Whether a collector can work safely with a server."""

    FIT = "fit"
    UNFIT = "unfit"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was found of one server."""

    url: str
    profile: ServerProfile
    rounds: int
    seed: int
    findings: tuple[Finding, ...]
    left_behind: tuple[str, ...]

    @property
    def fitness(self) -> Fitness:
        """Fit only when every needed promise was seen to be kept."""
        if any(finding.makes_unfit for finding in self.findings):
            return Fitness.UNFIT
        needed = [finding for finding in self.findings if finding.is_needed]
        decided = all(finding.verdict is PromiseVerdict.KEPT for finding in needed)
        return Fitness.FIT if decided else Fitness.NOT_KNOWN

    def named(self, *verdicts: PromiseVerdict) -> list[str]:
        """Needed promises with one of these verdicts."""
        return [
            f"{finding.subject}: {finding.name}"
            for finding in self.findings
            if finding.is_needed and finding.verdict in verdicts
        ]


def certify_server(
    server: Server,
    *,
    rounds: int,
    seed: int,
    keep: bool = False,
    promises: Sequence[Promise[ThrowAway]] = PROMISES,
    told: Callable[[Finding], None] = lambda finding: None,
) -> Certificate:
    """Try promises on a new repository, which is deleted afterwards; `told` hears of each finding at once.

    Raises:
        CatalogError: the server can't be reached, or makes no repository.
    """
    left_behind: list[str] = []
    findings: list[Finding] = []
    with throw_away_repository(
        server, rounds=rounds, seed=seed, keep=keep, left_behind=left_behind
    ) as lake:
        profile = lake.client.profile(lake.client.repository(lake.name).storage_id)
        for promise in promises:
            findings.append(_try(promise, lake))
            told(findings[-1])
    return Certificate(lake.raw.url, profile, rounds, seed, tuple(findings), tuple(left_behind))


def _try(promise: Promise[ThrowAway], lake: ThrowAway) -> Finding:
    verdict, seen = _tried(promise, lake)
    meaning = {
        PromiseVerdict.KEPT: _AS_IT_IS_NEEDED,
        PromiseVerdict.NOT_DECIDED: f"{_NOT_KNOWN}{promise.without}",
    }.get(verdict, promise.without)
    return Finding(
        promise.subject, promise.name, promise.is_needed, promise.done, seen, verdict, meaning
    )


def _tried(promise: Promise[ThrowAway], lake: ThrowAway) -> tuple[PromiseVerdict, str]:
    try:
        return PromiseVerdict.KEPT, promise.trial(lake)
    except BrokenError as error:
        return PromiseVerdict.BROKEN, str(error)
    except NotOfferedError as error:
        return PromiseVerdict.NOT_OFFERED, str(error)
    except NotDecidedError as error:
        return PromiseVerdict.NOT_DECIDED, str(error)
    except LakesweepError as error:
        logger.info("repo#%s %s: %s: %s", lake.name, promise.subject, promise.name, error.message)
        return _verdict_of(error), error.message.replace(lake.name, "the repository")


def _verdict_of(error: LakesweepError) -> PromiseVerdict:
    """A collector that reads would stop with this error: is it the server's promise, or something else?"""
    if isinstance(error, CatalogNotFoundError):
        return PromiseVerdict.NOT_OFFERED
    if isinstance(error, StorageError | CatalogDeniedError | ConfigError):
        return PromiseVerdict.NOT_DECIDED
    if isinstance(error, CatalogError | UnsafeToSweepError):
        return PromiseVerdict.NOT_DECIDED if error.kind in _MAY_PASS else PromiseVerdict.BROKEN
    return PromiseVerdict.NOT_DECIDED
