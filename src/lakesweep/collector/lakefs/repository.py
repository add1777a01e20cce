"""A lakeFS repository, and the server that is asked about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakesweep.catalogs.lakefs.client import LakeFSClient, Repository, ServerProfile
from lakesweep.catalogs.lakefs.graph import RepositoryRefs, read_commit_graph
from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.guards import ClockReading
from lakesweep.collector.lakefs.namespace import normaliser_of
from lakesweep.collector.target import Target
from lakesweep.domain.commits import BranchHead, Commit
from lakesweep.domain.cutoff import Cutoff, SafetyMargins, decide_cutoff
from lakesweep.domain.location import Location
from lakesweep.errors import CatalogNotFoundError, ConfigError, UnsafeToSweepError
from lakesweep.storage import ObjectStore, StorageOptions


@dataclass(frozen=True, slots=True)
class LakeFSRepository:
    """A repository with a client of its server, what both are, and which addresses lie in its storage namespace."""

    client: LakeFSClient
    details: Repository
    profile: ServerProfile
    addresses: AddressNormaliser

    @classmethod
    def of(cls, client: LakeFSClient, details: Repository, target: Target) -> LakeFSRepository:
        """The repository that the client has found, with its namespace in the target."""
        return cls(client, details, client.profile(details.storage_id), normaliser_of(target))

    @property
    def name(self) -> str:
        """The repository's id."""
        return self.details.id

    def clock_readings(self, store_time: datetime) -> Iterator[ClockReading]:
        """The server's clock beside the store's, which says `store_time` now."""
        yield ClockReading(store_time, "the lakeFS server", self.client.server_time())

    def cutoff(
        self,
        at: datetime,
        min_age: timedelta | None,
        margins: SafetyMargins,
        *,
        allow_lower: bool,
    ) -> Cutoff:
        """The time before which an object must have been written, counted back from `at` by the server's grace period."""
        return decide_cutoff(
            at,
            self.client.grace_period(),
            requested_min_age=min_age,
            allow_lower=allow_lower,
            margins=margins,
        )

    def named_commits(self, keep_refs: Iterable[str]) -> list[Commit]:
        """The commits that a user names to be kept."""
        commits: list[Commit] = []
        for ref in keep_refs:
            try:
                commits.append(self.client.commit(self.name, ref))
            except CatalogNotFoundError as error:
                raise ConfigError(
                    f"--keep-ref {ref}: {self.name} has no such branch, tag or commit. Nothing was deleted.",
                    kind="bad-keep-ref",
                ) from error
        return commits


def read_refs(repository: LakeFSRepository, store: ObjectStore) -> RepositoryRefs[History]:
    """All commits, branches and tags, and the head moves where the server logs them.

    Raises:
        UnsafeToSweepError: some are missing.
    """
    refs = read_commit_graph(
        repository.client,
        store,
        repository.name,
        with_head_moves=repository.profile.keeps_head_moves,
    )
    refuse_without_default_branch(repository, refs.heads)
    return refs


def refuse_without_default_branch(
    repository: LakeFSRepository, heads: Sequence[BranchHead]
) -> None:
    """Refuse branches without the default one, which can't be deleted. Until its refs are restored, a bare repository has none."""
    default = repository.details.default_branch
    if all(head.id != default for head in heads):
        raise UnsafeToSweepError(
            f"{repository.name} has no branch {default}, though that is its default branch: its refs are not restored yet "
            "(a repository that was made bare), or the server's list is cut short. All data would look like garbage. "
            "Nothing was deleted. Restore the refs (`lakectl refs-restore`), or run again. If the refs that were restored have "
            f"another default branch, make a branch {default} of it.",
            kind="no-default-branch",
        )


def namespace_of(
    repository: Repository, storage: StorageOptions, namespace_root: str | None
) -> Target:
    """Where a repository keeps its data, and how to reach it."""
    location = Location.parse(repository.storage_namespace, namespace_root=namespace_root)
    return Target(location, storage, namespace_root)
