"""Whether the Nessie that a sweep asks has the catalog that was marked: another one would call live files garbage."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.domain.live_sets import LiveSet, MarkFacts
from lakesweep.errors import ConfigError, UnsafeToSweepError

# A set that nessie-gc marked names its commits, and no heads: a few of them tell the catalog.
_FEW_COMMITS = 5


def assert_same_catalog(
    client: NessieClient,
    live_sets: LiveSetStore,
    live_set: LiveSet,
    facts: MarkFacts | None,
    *,
    is_moved: bool,
) -> list[str]:
    """Refuse another catalog than the one that was marked; returns what a record says of one that moved.

    A copy of a catalog has its commits too, and does not see what becomes live in the original. So another address needs
    the user's word (`is_moved`), and the marked commits must be there besides.
    """
    if facts is None:
        commits = dict.fromkeys(ref.commit_id for ref in live_sets.contents(live_set.id))
        _refuse_unknown_commits(client, live_set, islice(commits, _FEW_COMMITS))
        return []
    if client.uri == facts.catalog_uri:
        return []
    if not is_moved:
        raise ConfigError(
            f"Live set {live_set.id} was marked from the catalog at {facts.catalog_uri}, and --uri names {client.uri}: "
            "another catalog does not know what became live. Nothing was deleted. Leave --uri out to ask where the mark did; "
            "if the same catalog answers there now, give --catalog-moved.",
            kind="other-catalog",
        )
    _refuse_unknown_commits(client, live_set, sorted(set(facts.heads.values())))
    return [f"asked at {client.uri}, where the catalog of {facts.catalog_uri} is now"]


def _refuse_unknown_commits(
    client: NessieClient, live_set: LiveSet, commits: Iterable[str]
) -> None:
    empty = client.config().no_ancestor_hash  # of a reference without commits, in every catalog
    unknown = [hash for hash in commits if hash != empty and not client.has_commit(hash)]
    if unknown:
        raise UnsafeToSweepError(
            f"The catalog at {client.uri} does not know the commit {unknown[0]}, which live set {live_set.id} was marked from: "
            "it is another catalog, or an older copy. Nothing was deleted. Give the --uri of the catalog that was marked, "
            "or mark again.",
            kind="other-catalog",
        )
