"""Identify: which tables and views are live, by every reference of a Nessie catalog and its cut-off policy.

The rule is `nessie-gc`'s. A reference's head is live; so is every older commit until the first that the policy cuts off.
Live are the contents that live commits put, and all contents as they are at the last live commit. Nessie is only asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.dropped import CollectDropped, dropped_tables
from lakesweep.catalogs.nessie.head_locations import HeadLocations
from lakesweep.catalogs.nessie.history import (
    DEFAULT_PAGES,
    FORK_PAGES,
    CommitHistory,
    read_history,
)
from lakesweep.catalogs.nessie.live_contents import LiveReferences, States, other_contents
from lakesweep.catalogs.nessie.liveness import find_live_commits
from lakesweep.catalogs.nessie.values import CatalogConfig, Reference
from lakesweep.catalogs.nessie.whole_states import refuse_short_states
from lakesweep.domain.cutoff_policies import CutoffPolicies, CutoffPolicy
from lakesweep.domain.live_sets import ContentReference, DroppedTable, OtherContent
from lakesweep.errors import CatalogError

__all__ = [
    *("CatalogHistory", "Identified", "default_branch_of", "heads_with_policies", "identify"),
    *("identify_in", "in_parallel", "read_catalog", "read_references", "read_states"),
]

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class CatalogHistory:
    """The references of a catalog, and all commits behind them."""

    references: tuple[Reference, ...]
    history: CommitHistory


@dataclass(frozen=True, slots=True)
class Identified:
    """What is live. `references` and `head_locations` are made anew each time they are gone through."""

    references: Iterable[ContentReference]
    head_locations: Iterable[str]  # metadata files of contents at the head of a reference
    heads: Mapping[str, str]  # "BRANCH main" → hash
    others: tuple[OtherContent, ...]
    dropped: tuple[DroppedTable, ...]
    commits_read: int
    commits_live: int
    references_walked: int


def identify(
    client: NessieClient,
    policies: CutoffPolicies,
    *,
    keep_state_at_cutoff: bool = False,
    collect_dropped: CollectDropped | None = None,
    parallelism: int = 4,
    on_progress: Callable[[int], object] | None = None,
) -> Identified:
    """Find all live contents of a catalog.

    Args:
        client: the server to ask.
        policies: how old is too old, by the name of the reference.
        keep_state_at_cutoff: also keep the state at the first commit that a time cuts off.
        collect_dropped: which dropped tables are collected; None for none of them.
        parallelism: how many references or states are read at the same time.
        on_progress: called with the number of commits that came in.

    Raises:
        CatalogError: the server could not be asked, refused, or its answers can't be the whole truth.
    """
    catalog = read_catalog(client, parallelism=parallelism, on_progress=on_progress)
    return identify_in(
        client,
        catalog,
        policies,
        keep_state_at_cutoff=keep_state_at_cutoff,
        collect_dropped=collect_dropped,
        parallelism=parallelism,
    )


def read_catalog(
    client: NessieClient,
    *,
    parallelism: int = 4,
    on_progress: Callable[[int], object] | None = None,
) -> CatalogHistory:
    """Read every reference and all commits behind them."""
    config, references = read_references(client)
    default = default_branch_of(client, config, references)
    history = CommitHistory()
    on_commits = on_progress or (lambda commits: None)
    # The default branch first, as nearly all others share its history and then stop where they meet it.
    read_history(client, config, history, default, DEFAULT_PAGES, on_commits)

    def read_fork(reference: Reference) -> None:
        read_history(client, config, history, reference, FORK_PAGES, on_commits)

    for _ in in_parallel(read_fork, (r for r in references if r is not default), parallelism):
        pass
    return CatalogHistory(tuple(references), history)


def read_references(client: NessieClient) -> tuple[CatalogConfig, list[Reference]]:
    """Every reference that is in one of two lists, with the server's configuration.

    One list may be cut short or out of date, and what it leaves out would look like garbage.
    """
    config = client.config()
    found: dict[Reference, None] = {}
    for _ in range(2):
        references = client.references()
        default_branch_of(client, config, references)
        found |= dict.fromkeys(references)
    return config, list(found)


def identify_in(
    client: NessieClient,
    catalog: CatalogHistory,
    policies: CutoffPolicies,
    *,
    keep_state_at_cutoff: bool = False,
    collect_dropped: CollectDropped | None = None,
    parallelism: int = 4,
) -> Identified:
    """Find all live contents of a catalog whose commits were read; the server is asked for full states alone."""
    references, history = catalog.references, catalog.history
    heads = heads_with_policies(history, references, policies)
    live = find_live_commits(history, heads, keep_state_at_cutoff=keep_state_at_cutoff)

    states = read_states(client, history, live.states, parallelism)
    refuse_short_states(history, live, states)
    logger.info(
        "nessie %s: %d references, %d commits of which %d are live, %d full states",
        *(client.uri, len(references), len(history), len(live), len(states)),
    )
    return Identified(
        references=LiveReferences(history, live, states),
        head_locations=HeadLocations(history, (number for number, _ in heads), states),
        heads={str(reference): reference.hash for reference in references},
        others=other_contents(history, live, states),
        dropped=dropped_tables(
            history,
            live,
            states,
            heads,
            collect_dropped,
            keep_state_at_cutoff=keep_state_at_cutoff,
        ),
        commits_read=len(history),
        commits_live=len(live),
        references_walked=len(references),
    )


def heads_with_policies(
    history: CommitHistory, references: Iterable[Reference], policies: CutoffPolicies
) -> list[tuple[int, CutoffPolicy]]:
    """The commit that each reference points at, with each policy that holds for it; a reference without commits has none."""
    return [
        (number, policy)
        for reference in references
        if (number := history.number_of(reference.hash)) is not None
        for policy in policies.policies_for(reference.name)
    ]


def read_states(
    client: NessieClient, history: CommitHistory, commits: Iterable[int], parallelism: int
) -> dict[int, States]:
    """All contents as they are at each of these commits."""

    def read_state(number: int) -> tuple[int, States]:
        contents = client.entries(history.hashes[number])
        return number, tuple(history.intern(content) for content in contents)

    return dict(in_parallel(read_state, sorted(commits), parallelism))


def default_branch_of(
    client: NessieClient, config: CatalogConfig, references: Iterable[Reference]
) -> Reference:
    """The default branch, without which no list of references is whole."""
    for reference in references:
        if reference.name == config.default_branch and reference.kind == "BRANCH":
            return reference
    # Nessie leaves out what a user may not view, without a word.
    raise CatalogError(
        f"{client.uri} lists no branch {config.default_branch}, though that is its default branch. No answer was used. "
        "Check that the user may view every reference: the data of hidden ones would look like garbage.",
        kind="catalog-nonsense",
    )


def in_parallel(
    work: Callable[[Item], Result], items: Iterable[Item], parallelism: int
) -> Iterator[Result]:
    """Results in the order of the items. The first failure ends it; what has not begun then never does."""
    with ThreadPoolExecutor(max(1, parallelism), thread_name_prefix="nessie") as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
            failed = next((f for f in futures if f.done() and f.exception() is not None), None)
            if failed is not None:
                failed.result()
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()
