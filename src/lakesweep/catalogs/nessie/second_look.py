"""The second look: what became live since a mark, read from where references are now down to what the mark has read.

What a walk from a head keeps is known of every head that the mark walked from, under the policy it walked with. So a
walk with the same policy ends there, or where its policy cuts off, and its cost is what changed since the mark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.history import FORK_PAGES, log_of
from lakesweep.catalogs.nessie.identify import in_parallel
from lakesweep.catalogs.nessie.values import CatalogConfig, CatalogContent, LoggedCommit, Reference
from lakesweep.catalogs.nessie.whole_states import read_agreed_state
from lakesweep.domain.cutoff_policies import CutoffPolicies, CutoffPolicy

__all__ = ["Known", "NewContents", "find_new_contents"]

logger = logging.getLogger(__name__)

_PARALLELISM = 4


@dataclass(frozen=True, slots=True)
class Known:
    """What was read before: heads by reference ("BRANCH main" → hash), and for a policy the commits it ends at."""

    heads: Mapping[str, str]
    ends: Mapping[CutoffPolicy, Set[str]]


@dataclass(frozen=True, slots=True)
class NewContents:
    """Contents that are live by references which moved; many of them may be known all the same."""

    heads: Mapping[str, str]
    contents: tuple[CatalogContent, ...]
    commits_read: int


def find_new_contents(
    client: NessieClient,
    config: CatalogConfig,
    references: Sequence[Reference],
    policies: CutoffPolicies,
    known: Known,
    *,
    keep_state_at_cutoff: bool,
) -> NewContents:
    """Walk every one of these references that is not where it was.

    Raises:
        CatalogError: the server could not be asked, refused, or its answers can't be the whole truth.
    """
    moved = [
        (reference, policy)
        for reference in references
        if known.heads.get(str(reference)) != reference.hash
        and reference.hash != config.no_ancestor_hash
        for policy in policies.policies_for(reference.name)
    ]

    def walk(item: tuple[Reference, CutoffPolicy]) -> _Walk:
        reference, policy = item
        return _walk(client, config, reference, policy, known.ends.get(policy, frozenset()))

    walks = list(in_parallel(walk, moved, _PARALLELISM))
    states = sorted({hash for walk in walks for hash in walk.states(keep_state_at_cutoff)})
    contents = [c for walk in walks for commit in walk.live for c in commit.contents]
    for state in in_parallel(lambda hash: read_agreed_state(client, hash), states, _PARALLELISM):
        contents += state
    read = sum(len(walk.live) for walk in walks)
    logger.info(
        "nessie %s: %d walks, %d commits, %d full states since the mark",
        *(client.uri, len(walks), read, len(states)),
    )
    heads = {str(reference): reference.hash for reference in references}
    return NewContents(heads, tuple(dict.fromkeys(contents)), read)


@dataclass(frozen=True, slots=True)
class _Walk:
    """The live commits of one walk, newest first, and what ended it: a known commit, one that is cut off, or the root."""

    policy: CutoffPolicy
    live: tuple[LoggedCommit, ...]
    is_at_known: bool = False
    first_cut_off: LoggedCommit | None = None

    def states(self, keep_state_at_cutoff: bool) -> Iterator[str]:
        """Commits whose full state is live: what was put before them and is still there."""
        if self.is_at_known:
            return
        # At the root, too: where a history was cut, no commit puts what the first one has.
        yield self.live[-1].hash
        is_at_time = keep_state_at_cutoff and self.policy.timestamp is not None
        if is_at_time and self.first_cut_off is not None:
            yield self.first_cut_off.hash


def _walk(
    client: NessieClient,
    config: CatalogConfig,
    reference: Reference,
    policy: CutoffPolicy,
    ends: Set[str],
) -> _Walk:
    live: list[LoggedCommit] = []
    for commits in log_of(client, config, reference, FORK_PAGES):
        for commit in commits:
            if commit.hash in ends:
                return _Walk(policy, tuple(live), is_at_known=True)
            # The head is live, however old.
            if live and policy.is_cut_off(commit.time, len(live) + 1):
                return _Walk(policy, tuple(live), first_cut_off=commit)
            live.append(commit)
    return _Walk(policy, tuple(live))
